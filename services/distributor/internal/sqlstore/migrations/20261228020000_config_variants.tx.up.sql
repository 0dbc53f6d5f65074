-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- What derived services are given of back ends. A variant stands for all services of one global service whose references, refs, lead to
-- the same places. sealed holds the values, and digest is a keyed digest of them. A variant that no service has any more has the
-- time in ended_at.

CREATE TABLE config_variants (
    id         TEXT    NOT NULL PRIMARY KEY,
    global_uid TEXT    NOT NULL REFERENCES global_services (uid) ON DELETE CASCADE,
    project    TEXT    NOT NULL,
    refs       TEXT    NOT NULL,
    digest     TEXT    NOT NULL,
    problem    TEXT    NOT NULL,
    waits      BIGINT  NOT NULL,
    sealed     {{.Bytes}},
    ended_at   BIGINT  NOT NULL,
    revision   BIGINT  NOT NULL
);
--bun:split
CREATE INDEX config_variants_revision ON config_variants (revision);
--bun:split
CREATE INDEX config_variants_global ON config_variants (global_uid);
--bun:split
CREATE TABLE variant_references (
    variant_id TEXT NOT NULL REFERENCES config_variants (id) ON DELETE CASCADE,
    entry_id   TEXT NOT NULL REFERENCES config_entries (id) ON DELETE CASCADE,
    PRIMARY KEY (variant_id, entry_id)
);
--bun:split
CREATE INDEX variant_references_entry ON variant_references (entry_id);
