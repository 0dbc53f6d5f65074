-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Whether a repository is mirrored without the content of files until that is needed.

ALTER TABLE repositories ADD COLUMN partial_clone BOOLEAN NOT NULL DEFAULT FALSE;
