-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Policies of rollouts, and rollouts. start is what a rollout began with, run what its events made of it, and refused the content
-- that is not tried again; all three are JSON. version grows with every write of the row. Events and decisions are numbered, and
-- are only added. admissions is what services are planned with instead of what their sources hold: content by a rollout, pin by a
-- person; either is empty for none. rollout_lead names the replica that drives rollouts.

CREATE TABLE rollout_policies (
    uid              TEXT   NOT NULL PRIMARY KEY,
    name             TEXT   NOT NULL UNIQUE,
    project          TEXT   NOT NULL,
    labels           TEXT   NOT NULL,
    annotations      TEXT   NOT NULL,
    spec             TEXT   NOT NULL,
    resource_version BIGINT NOT NULL,
    generation       BIGINT NOT NULL,
    revision         BIGINT NOT NULL,
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL,
    created_by       TEXT   NOT NULL,
    updated_by       TEXT   NOT NULL,
    reason           TEXT   NOT NULL
);
--bun:split
CREATE INDEX rollout_policies_revision ON rollout_policies (revision);
--bun:split
CREATE INDEX rollout_policies_project ON rollout_policies (project);
--bun:split
CREATE TABLE rollout_runs (
    id         TEXT   NOT NULL PRIMARY KEY,
    policy_uid TEXT   NOT NULL REFERENCES rollout_policies (uid) ON DELETE CASCADE,
    number     BIGINT NOT NULL,
    version    BIGINT NOT NULL,
    state      TEXT   NOT NULL,
    start      TEXT   NOT NULL,
    run        TEXT   NOT NULL,
    refused    TEXT   NOT NULL
);
--bun:split
CREATE UNIQUE INDEX rollout_runs_policy ON rollout_runs (policy_uid, number);
--bun:split
CREATE TABLE rollout_events (
    run_id TEXT   NOT NULL REFERENCES rollout_runs (id) ON DELETE CASCADE,
    number BIGINT NOT NULL,
    event  TEXT   NOT NULL,
    PRIMARY KEY (run_id, number)
);
--bun:split
CREATE TABLE rollout_decisions (
    run_id   TEXT   NOT NULL REFERENCES rollout_runs (id) ON DELETE CASCADE,
    number   BIGINT NOT NULL,
    decision TEXT   NOT NULL,
    PRIMARY KEY (run_id, number)
);
--bun:split
CREATE TABLE admissions (
    service_uid TEXT   NOT NULL PRIMARY KEY,
    service     TEXT   NOT NULL,
    run_id      TEXT   NOT NULL,
    content     TEXT   NOT NULL,
    pin         TEXT   NOT NULL,
    revision    BIGINT NOT NULL
);
--bun:split
CREATE INDEX admissions_revision ON admissions (revision);
--bun:split
CREATE TABLE rollout_lead (
    id     INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    holder TEXT    NOT NULL,
    term   BIGINT  NOT NULL,
    beat   BIGINT  NOT NULL
);
--bun:split
INSERT INTO rollout_lead (id, holder, term, beat) VALUES (1, '', 0, 0);
