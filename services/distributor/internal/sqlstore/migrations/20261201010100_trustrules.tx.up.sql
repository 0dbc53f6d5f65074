-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Rules by which workloads obtain access tokens; spec is JSON. Records of what they do hold claims of their tokens: claims is a
-- text of lines NAME=VALUE with a line break around each, so that it can be searched for one.

CREATE TABLE trust_rules (
    uid              TEXT   NOT NULL PRIMARY KEY,
    name             TEXT   NOT NULL UNIQUE,
    labels           TEXT   NOT NULL,
    annotations      TEXT   NOT NULL,
    spec             TEXT   NOT NULL,
    resource_version BIGINT NOT NULL,
    generation       BIGINT NOT NULL,
    revision         BIGINT NOT NULL,
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL,
    created_by       TEXT   NOT NULL DEFAULT '',
    updated_by       TEXT   NOT NULL DEFAULT '',
    reason           TEXT   NOT NULL DEFAULT ''
);
--bun:split
CREATE INDEX trust_rules_revision ON trust_rules (revision);
--bun:split
ALTER TABLE audit_records ADD COLUMN claims TEXT NOT NULL DEFAULT '';
