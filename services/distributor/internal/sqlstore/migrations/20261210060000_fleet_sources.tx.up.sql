-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Fleet sources, and what became of their documents. spec and state are JSON. repository is the name of the one that spec names.
-- fleet_source_states is what the latest look found; asked counts the syncs that people asked for, and confirmed is the digest of the
-- removals that they agreed to. fleet_source_lead names the replica that looks; beat changes while it lives.

CREATE TABLE fleet_sources (
    uid              TEXT   NOT NULL PRIMARY KEY,
    name             TEXT   NOT NULL UNIQUE,
    project          TEXT   NOT NULL,
    repository       TEXT   NOT NULL,
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
CREATE INDEX fleet_sources_revision ON fleet_sources (revision);
--bun:split
CREATE INDEX fleet_sources_project ON fleet_sources (project);
--bun:split
CREATE INDEX fleet_sources_repository ON fleet_sources (repository);
--bun:split
CREATE TABLE fleet_source_states (
    source_uid TEXT   NOT NULL PRIMARY KEY REFERENCES fleet_sources (uid) ON DELETE CASCADE,
    state      TEXT   NOT NULL,
    documents  TEXT   NOT NULL,
    asked      BIGINT NOT NULL,
    confirmed  TEXT   NOT NULL
);
--bun:split
CREATE TABLE fleet_source_lead (
    id     INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    holder TEXT    NOT NULL,
    term   BIGINT  NOT NULL,
    beat   BIGINT  NOT NULL
);
--bun:split
INSERT INTO fleet_source_lead (id, holder, term, beat) VALUES (1, '', 0, 0);
