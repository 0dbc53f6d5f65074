-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Who made and last changed an object, and the records of changes. audit_sequence holds the number of the latest record: who
-- takes the next numbers holds its row until the end of the transaction, so records become visible in the order of their
-- numbers. record is JSON.

ALTER TABLE clusters ADD COLUMN created_by TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE clusters ADD COLUMN updated_by TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE clusters ADD COLUMN reason TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE repositories ADD COLUMN created_by TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE repositories ADD COLUMN updated_by TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE repositories ADD COLUMN reason TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE services ADD COLUMN created_by TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE services ADD COLUMN updated_by TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE services ADD COLUMN reason TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE users ADD COLUMN created_by TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE users ADD COLUMN updated_by TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE users ADD COLUMN reason TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE access_bindings ADD COLUMN created_by TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE access_bindings ADD COLUMN updated_by TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE access_bindings ADD COLUMN reason TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE projects ADD COLUMN created_by TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE projects ADD COLUMN updated_by TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE projects ADD COLUMN reason TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE identity_providers ADD COLUMN created_by TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE identity_providers ADD COLUMN updated_by TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE identity_providers ADD COLUMN reason TEXT NOT NULL DEFAULT '';
--bun:split
CREATE TABLE audit_sequence (
    id    INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    value BIGINT  NOT NULL
);
--bun:split
INSERT INTO audit_sequence (id, value) VALUES (1, 0);
--bun:split
CREATE TABLE audit_records (
    seq        BIGINT NOT NULL PRIMARY KEY,
    id         TEXT   NOT NULL,
    request_id TEXT   NOT NULL,
    made_at    BIGINT NOT NULL,
    subject    TEXT   NOT NULL,
    token_id   TEXT   NOT NULL,
    credential TEXT   NOT NULL,
    kind       TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    cluster    TEXT   NOT NULL,
    verb       TEXT   NOT NULL,
    rpc        TEXT   NOT NULL,
    outcome    TEXT   NOT NULL,
    record     TEXT   NOT NULL
);
--bun:split
CREATE INDEX audit_records_made_at ON audit_records (made_at);
--bun:split
CREATE INDEX audit_records_object ON audit_records (kind, name, seq);
--bun:split
CREATE INDEX audit_records_subject ON audit_records (subject, seq);
--bun:split
CREATE INDEX audit_records_token ON audit_records (token_id, seq);
--bun:split
CREATE INDEX audit_records_credential ON audit_records (credential, seq);
