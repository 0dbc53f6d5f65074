-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- What API tokens are limited to, as JSON; who made them, with which limited token, and from where they were last used. Tokens that
-- are there already have no limit.

ALTER TABLE api_tokens ADD COLUMN token_limit TEXT NOT NULL DEFAULT 'null';
--bun:split
ALTER TABLE api_tokens ADD COLUMN created_by TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE api_tokens ADD COLUMN made_with TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE api_tokens ADD COLUMN last_used_from TEXT NOT NULL DEFAULT '';
