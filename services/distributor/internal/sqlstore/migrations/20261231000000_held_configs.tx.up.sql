-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The configurations that services are held at, as people wrote them. Each distinct one is stored once, under a keyed digest: config has
-- what anybody may see, and sealed the values and secrets. An admission without a configuration is of an earlier version, or of a service
-- that nobody holds. rollout_configs are those that a rollout under way may bring, or go back to. held_given is what a service is given
-- of back ends while it is held at another configuration than its own.

CREATE TABLE held_configs (
    name   TEXT NOT NULL PRIMARY KEY,
    config TEXT NOT NULL,
    sealed {{.Bytes}}
);
--bun:split
CREATE TABLE rollout_configs (
    run_id TEXT NOT NULL REFERENCES rollout_runs (id) ON DELETE CASCADE,
    name   TEXT NOT NULL,
    PRIMARY KEY (run_id, name)
);
--bun:split
CREATE INDEX rollout_configs_name ON rollout_configs (name);
--bun:split
CREATE TABLE held_given (
    service_uid TEXT NOT NULL PRIMARY KEY REFERENCES services (uid) ON DELETE CASCADE,
    sealed      {{.Bytes}}
);
--bun:split
ALTER TABLE admissions ADD COLUMN config TEXT NOT NULL DEFAULT '';
--bun:split
CREATE INDEX admissions_config ON admissions (config);
