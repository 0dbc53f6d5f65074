-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Users as objects of the catalog, what is known of their tokens, and the bindings of people to clusters; spec is JSON. What is
-- there already becomes part of the log of changes.

ALTER TABLE users ADD COLUMN labels TEXT NOT NULL DEFAULT 'null';
--bun:split
ALTER TABLE users ADD COLUMN annotations TEXT NOT NULL DEFAULT 'null';
--bun:split
ALTER TABLE users ADD COLUMN description TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE users ADD COLUMN resource_version BIGINT NOT NULL DEFAULT 1;
--bun:split
ALTER TABLE users ADD COLUMN generation BIGINT NOT NULL DEFAULT 1;
--bun:split
ALTER TABLE users ADD COLUMN revision BIGINT NOT NULL DEFAULT 1;
--bun:split
ALTER TABLE users ADD COLUMN updated_at BIGINT NOT NULL DEFAULT 0;
--bun:split
ALTER TABLE api_tokens ADD COLUMN expires_at BIGINT NOT NULL DEFAULT 0;
--bun:split
ALTER TABLE api_tokens ADD COLUMN last_used_at BIGINT NOT NULL DEFAULT 0;
--bun:split
ALTER TABLE api_tokens ADD COLUMN revision BIGINT NOT NULL DEFAULT 1;
--bun:split
UPDATE revision SET value = value + 1 WHERE id = 1 AND EXISTS (SELECT 1 FROM users);
--bun:split
UPDATE users SET updated_at = created_at, resource_version = (SELECT value FROM revision), revision = (SELECT value FROM revision);
--bun:split
UPDATE api_tokens SET revision = (SELECT value FROM revision);
--bun:split
CREATE INDEX users_revision ON users (revision);
--bun:split
CREATE INDEX api_tokens_revision ON api_tokens (revision);
--bun:split
CREATE TABLE access_bindings (
    uid              TEXT   NOT NULL PRIMARY KEY,
    name             TEXT   NOT NULL UNIQUE,
    labels           TEXT   NOT NULL,
    annotations      TEXT   NOT NULL,
    spec             TEXT   NOT NULL,
    resource_version BIGINT NOT NULL,
    generation       BIGINT NOT NULL,
    revision         BIGINT NOT NULL,
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL
);
--bun:split
CREATE INDEX access_bindings_revision ON access_bindings (revision);
