-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- What the agent of a cluster is told, as JSON, empty where that is nothing of its own.

ALTER TABLE clusters ADD COLUMN agent_settings TEXT NOT NULL DEFAULT '';
