-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Who has to have signed what a repository delivers, as JSON; empty where nobody has to. Keys are public, so nothing is sealed.

ALTER TABLE repositories ADD COLUMN verification TEXT NOT NULL DEFAULT '';
