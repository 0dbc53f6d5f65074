-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- What a restore from a backup leaves behind. incarnation changes with every restore, so that a replica notices that the catalog it
-- holds in memory is not the one in the database any more. removals_held_at is when the restore was, until a person releases the
-- cluster: its agent removes nothing meanwhile.

ALTER TABLE revision ADD COLUMN incarnation TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE clusters ADD COLUMN removals_held_at BIGINT NOT NULL DEFAULT 0;
