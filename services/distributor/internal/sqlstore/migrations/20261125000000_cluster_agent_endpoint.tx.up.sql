-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Where the hub dials the agent of a cluster, host:port, empty where the agent dials the hub.

ALTER TABLE clusters ADD COLUMN agent_endpoint TEXT NOT NULL DEFAULT '';
