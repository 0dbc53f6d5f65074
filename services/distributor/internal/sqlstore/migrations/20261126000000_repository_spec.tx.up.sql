-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The public part of what a repository is, as JSON, empty where an earlier version wrote it: the options that have no column of
-- their own. Such a column is there before a replica of this version reads it, and one of an earlier version does not touch it.

ALTER TABLE repositories ADD COLUMN spec TEXT NOT NULL DEFAULT '';
