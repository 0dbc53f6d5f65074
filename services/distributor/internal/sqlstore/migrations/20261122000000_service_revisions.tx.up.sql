-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- What services were to run, and what came of it: the latest 20 of each, as JSON.

CREATE TABLE service_revisions (
    service_uid TEXT   NOT NULL REFERENCES services (uid) ON DELETE CASCADE,
    number      BIGINT NOT NULL,
    revision    TEXT   NOT NULL,
    PRIMARY KEY (service_uid, number)
);
