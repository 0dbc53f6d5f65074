-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The specs that services are held at beside their content. Services of a rollout have few different ones, so each is stored once, as
-- JSON, under a digest. An admission without a spec is of an earlier version, or of a service that nobody holds.

CREATE TABLE staged_specs (
    digest TEXT NOT NULL PRIMARY KEY,
    spec   TEXT NOT NULL
);
--bun:split
ALTER TABLE admissions ADD COLUMN spec TEXT NOT NULL DEFAULT '';
--bun:split
CREATE INDEX admissions_spec ON admissions (spec);
