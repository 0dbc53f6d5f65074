-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- What people decided about one derived service beside its global service, as JSON: that it is paused, and which prune is agreed
-- to. Empty for nothing.

ALTER TABLE derived_services ADD COLUMN exception TEXT NOT NULL DEFAULT '';
