-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Keyed digests and lengths of the secrets of a set, as JSON: derived services are composed of sets in memory, without the secrets.

ALTER TABLE config_sets ADD COLUMN marks TEXT NOT NULL DEFAULT '';
