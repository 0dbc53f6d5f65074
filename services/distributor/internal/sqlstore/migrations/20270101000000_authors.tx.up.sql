-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Who changed what services run: a service, the template of a global service, the facts of a cluster, or what a fleet source writes. The
-- subject is a person, or a fleet source by its uid. There is one row for each object and subject, with the latest change. The rows of
-- an object are deleted with it.

CREATE TABLE authors (
    object_uid TEXT   NOT NULL,
    subject    TEXT   NOT NULL,
    revision   BIGINT NOT NULL,
    at         BIGINT NOT NULL,
    PRIMARY KEY (object_uid, subject)
);
--bun:split
CREATE INDEX authors_revision ON authors (revision);
