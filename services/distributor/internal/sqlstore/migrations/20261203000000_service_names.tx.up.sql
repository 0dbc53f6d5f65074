-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The name of a service is its path with its cluster, SERVICE@CLUSTER, so that two clusters may each have a service of one
-- name. Access bindings need no change: what they name without a cluster means the services of that name in every cluster.

UPDATE services SET name = name || '@' || (SELECT clusters.name FROM clusters WHERE clusters.uid = services.cluster_uid);
