-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- How far back the records of changes are complete: some that were made before pruned_before are deleted. Zero: none was ever
-- deleted.

CREATE TABLE audit_reach (
    id            INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    pruned_before BIGINT  NOT NULL
);
--bun:split
INSERT INTO audit_reach (id, pruned_before) VALUES (1, 0);
