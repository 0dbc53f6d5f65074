-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The proxy to a repository's upstream: proxy_url has its password masked, proxy_sealed is the whole where it has one.

ALTER TABLE repositories ADD COLUMN proxy_url TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE repositories ADD COLUMN proxy_sealed {{.Bytes}};
