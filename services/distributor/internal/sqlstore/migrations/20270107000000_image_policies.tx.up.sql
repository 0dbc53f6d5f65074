-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Image policies, and what became of them. spec and state are JSON. image_policy_states is what the latest look found; asked counts
-- the syncs that people asked for. image_policy_lead names the replica that looks; beat changes while it lives.

CREATE TABLE image_policies (
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
    created_by       TEXT   NOT NULL DEFAULT '',
    updated_by       TEXT   NOT NULL DEFAULT '',
    reason           TEXT   NOT NULL DEFAULT '',
    manager          TEXT   NOT NULL DEFAULT '',
    manager_uid      TEXT   NOT NULL DEFAULT ''
);
--bun:split
CREATE INDEX image_policies_revision ON image_policies (revision);
--bun:split
CREATE INDEX image_policies_project ON image_policies (project);
--bun:split
CREATE TABLE image_policy_states (
    policy_uid TEXT   NOT NULL PRIMARY KEY REFERENCES image_policies (uid) ON DELETE CASCADE,
    state      TEXT   NOT NULL,
    asked      BIGINT NOT NULL
);
--bun:split
CREATE TABLE image_policy_lead (
    id     INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    holder TEXT    NOT NULL,
    term   BIGINT  NOT NULL,
    beat   BIGINT  NOT NULL
);
--bun:split
INSERT INTO image_policy_lead (id, holder, term, beat) VALUES (1, '', 0, 0);
