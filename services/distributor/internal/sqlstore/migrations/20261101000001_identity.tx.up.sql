-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Who may come in. Tokens are stored as SHA-256 hashes, the issuer's key sealed.

CREATE TABLE join_tokens (
    hash        {{.Bytes}} NOT NULL PRIMARY KEY,
    cluster_uid TEXT       NOT NULL REFERENCES clusters (uid) ON DELETE CASCADE,
    expires_at  BIGINT     NOT NULL,
    used_at     BIGINT     NOT NULL DEFAULT 0
);
--bun:split
CREATE INDEX join_tokens_cluster ON join_tokens (cluster_uid);
--bun:split
CREATE TABLE users (
    uid        TEXT   NOT NULL PRIMARY KEY,
    name       TEXT   NOT NULL UNIQUE,
    groups     TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);
--bun:split
CREATE TABLE api_tokens (
    hash       {{.Bytes}} NOT NULL PRIMARY KEY,
    user_uid   TEXT       NOT NULL REFERENCES users (uid) ON DELETE CASCADE,
    label      TEXT       NOT NULL,
    created_at BIGINT     NOT NULL
);
--bun:split
CREATE INDEX api_tokens_user ON api_tokens (user_uid);
--bun:split
CREATE TABLE issuer_keys (
    id         INTEGER    NOT NULL PRIMARY KEY CHECK (id = 1),
    sealed     {{.Bytes}} NOT NULL,
    created_at BIGINT     NOT NULL
);
