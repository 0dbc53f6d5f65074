-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Roles of permissions, which bindings name; spec is JSON.

CREATE TABLE roles (
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
CREATE INDEX roles_revision ON roles (revision);
