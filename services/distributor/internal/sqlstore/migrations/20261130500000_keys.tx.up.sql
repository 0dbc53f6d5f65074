-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Keys. sealing_keys holds the keys that seal other columns, each wrapped by a root that is not in the database; number 0 is the key
-- of the digests of configurations, which stays, and the others are counted from 1. sealing_key is the id of the key that seals now:
-- an edit reads it with the revision, so that no edit seals with an older one. signing_keys replaces issuer_keys, whose only row is
-- moved by the first replica that reads it.

CREATE TABLE sealing_keys (
    id         TEXT       NOT NULL PRIMARY KEY,
    number     BIGINT     NOT NULL UNIQUE,
    root       TEXT       NOT NULL,
    wrapped    {{.Bytes}} NOT NULL,
    created_at BIGINT     NOT NULL
);
--bun:split
ALTER TABLE revision ADD COLUMN sealing_key TEXT NOT NULL DEFAULT '';
--bun:split
CREATE TABLE signing_keys (
    id         TEXT       NOT NULL PRIMARY KEY,
    sealed     {{.Bytes}} NOT NULL,
    created_at BIGINT     NOT NULL,
    signs_at   BIGINT     NOT NULL,
    ends_at    BIGINT     NOT NULL DEFAULT 0
);
