-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Back ends of configurations, and what was read from them. spec is JSON; credential and sealed are sealed. An entry's id is the uid
-- of its back end, a slash and its path. due_at is when it is read next, read_at when the last good answer came; failure is JSON,
-- empty after a good answer. config_readers names the replica that reads a back end, and service_given holds what a service was
-- given for its references.

CREATE TABLE config_backends (
    uid              TEXT   NOT NULL PRIMARY KEY,
    name             TEXT   NOT NULL UNIQUE,
    labels           TEXT   NOT NULL,
    annotations      TEXT   NOT NULL,
    spec             TEXT   NOT NULL,
    credential       {{.Bytes}},
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
CREATE INDEX config_backends_revision ON config_backends (revision);
--bun:split
CREATE TABLE config_entries (
    id          TEXT   NOT NULL PRIMARY KEY,
    backend_uid TEXT   NOT NULL REFERENCES config_backends (uid) ON DELETE CASCADE,
    path        TEXT   NOT NULL,
    sealed      {{.Bytes}},
    version     TEXT   NOT NULL DEFAULT '',
    read_at     BIGINT NOT NULL DEFAULT 0,
    tried_at    BIGINT NOT NULL DEFAULT 0,
    due_at      BIGINT NOT NULL,
    attempts    BIGINT NOT NULL DEFAULT 0,
    failure     TEXT   NOT NULL DEFAULT ''
);
--bun:split
CREATE INDEX config_entries_due ON config_entries (backend_uid, due_at);
--bun:split
CREATE TABLE config_references (
    service_uid TEXT NOT NULL REFERENCES services (uid) ON DELETE CASCADE,
    entry_id    TEXT NOT NULL REFERENCES config_entries (id) ON DELETE CASCADE,
    PRIMARY KEY (service_uid, entry_id)
);
--bun:split
CREATE INDEX config_references_entry ON config_references (entry_id);
--bun:split
CREATE TABLE config_readers (
    backend_uid TEXT   NOT NULL PRIMARY KEY REFERENCES config_backends (uid) ON DELETE CASCADE,
    replica     TEXT   NOT NULL,
    until       BIGINT NOT NULL
);
--bun:split
CREATE TABLE service_given (
    service_uid TEXT NOT NULL PRIMARY KEY REFERENCES services (uid) ON DELETE CASCADE,
    sealed      {{.Bytes}} NOT NULL
);
