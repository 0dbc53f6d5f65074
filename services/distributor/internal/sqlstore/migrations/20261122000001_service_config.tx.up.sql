-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The configuration of a service. What anybody may see stands beside the spec, as JSON, empty where there is none: the values, the
-- keys of the secrets, and the digest over all of it. The secrets themselves are sealed, and apart, so that reading services does
-- not read them.

ALTER TABLE services ADD COLUMN config TEXT NOT NULL DEFAULT '';
--bun:split
CREATE TABLE service_secrets (
    service_uid TEXT NOT NULL PRIMARY KEY REFERENCES services (uid) ON DELETE CASCADE,
    sealed      {{.Bytes}} NOT NULL
);
