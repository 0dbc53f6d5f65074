-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Sets of configuration. spec is JSON without secrets, and sealed holds those. config_uses says which services have looked for which
-- set when their configurations were composed: is_open is 0 where there was none that they may use.

CREATE TABLE config_sets (
    uid              TEXT   NOT NULL PRIMARY KEY,
    name             TEXT   NOT NULL UNIQUE,
    project          TEXT   NOT NULL,
    labels           TEXT   NOT NULL,
    annotations      TEXT   NOT NULL,
    spec             TEXT   NOT NULL,
    sealed           {{.Bytes}},
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
CREATE INDEX config_sets_revision ON config_sets (revision);
--bun:split
CREATE INDEX config_sets_project ON config_sets (project);
--bun:split
CREATE TABLE config_uses (
    service_uid TEXT   NOT NULL REFERENCES services (uid) ON DELETE CASCADE,
    set_name    TEXT   NOT NULL,
    is_open     BIGINT NOT NULL,
    PRIMARY KEY (service_uid, set_name)
);
--bun:split
CREATE INDEX config_uses_set ON config_uses (set_name);
