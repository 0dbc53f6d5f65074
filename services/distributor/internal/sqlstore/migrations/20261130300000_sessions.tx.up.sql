-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Identity providers, and the sessions that began with them. spec and groups are JSON; client_secret and refresh are sealed. Tokens
-- are SHA-256 hashes; successor is that of the token which replaced one.

CREATE TABLE identity_providers (
    uid              TEXT       NOT NULL PRIMARY KEY,
    name             TEXT       NOT NULL UNIQUE,
    labels           TEXT       NOT NULL,
    annotations      TEXT       NOT NULL,
    spec             TEXT       NOT NULL,
    client_secret    {{.Bytes}},
    resource_version BIGINT     NOT NULL,
    generation       BIGINT     NOT NULL,
    revision         BIGINT     NOT NULL,
    created_at       BIGINT     NOT NULL,
    updated_at       BIGINT     NOT NULL
);
--bun:split
CREATE INDEX identity_providers_revision ON identity_providers (revision);
--bun:split
CREATE TABLE sessions (
    id             TEXT       NOT NULL PRIMARY KEY,
    person         TEXT       NOT NULL,
    groups         TEXT       NOT NULL,
    provider_uid   TEXT       NOT NULL REFERENCES identity_providers (uid) ON DELETE CASCADE,
    subject        TEXT       NOT NULL,
    client         TEXT       NOT NULL,
    challenge      {{.Bytes}},
    refresh        {{.Bytes}},
    pending        BOOLEAN    NOT NULL,
    created_at     BIGINT     NOT NULL,
    last_used_at   BIGINT     NOT NULL,
    proof_ends_at  BIGINT     NOT NULL,
    ends_at        BIGINT     NOT NULL,
    renew_at       BIGINT     NOT NULL,
    renewing_until BIGINT     NOT NULL,
    revision       BIGINT     NOT NULL
);
--bun:split
CREATE INDEX sessions_person ON sessions (person);
--bun:split
CREATE INDEX sessions_revision ON sessions (revision);
--bun:split
CREATE INDEX sessions_provider ON sessions (provider_uid);
--bun:split
CREATE TABLE session_tokens (
    hash       {{.Bytes}} NOT NULL PRIMARY KEY,
    session_id TEXT       NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    successor  {{.Bytes}}
);
--bun:split
CREATE INDEX session_tokens_session ON session_tokens (session_id);
