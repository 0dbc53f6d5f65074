-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- What became of a cluster of a global service whose agent reported something that no longer meets the condition of the selection,
-- as JSON: the service left it, or is held there until a person decides. Empty for nothing.

ALTER TABLE derived_services ADD COLUMN departure TEXT NOT NULL DEFAULT '';
