-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- What proves webhooks of configuration back ends, sealed. NULL: the back end takes none.

ALTER TABLE config_backends ADD COLUMN webhook_secret {{.Bytes}};
