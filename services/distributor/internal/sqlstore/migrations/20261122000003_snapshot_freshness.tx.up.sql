-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- When the mirror that a snapshot comes from was last known to equal the upstream: replicas write in any order. Zero where
-- that is not known.

ALTER TABLE snapshots ADD COLUMN fresh_at BIGINT NOT NULL DEFAULT 0;
