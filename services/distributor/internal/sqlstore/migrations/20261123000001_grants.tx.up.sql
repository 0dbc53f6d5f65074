-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Bundles that a cluster may read for a while although they are in no plan. source is JSON.

CREATE TABLE grants (
    cluster_uid TEXT   NOT NULL REFERENCES clusters (uid) ON DELETE CASCADE,
    digest      TEXT   NOT NULL,
    source      TEXT   NOT NULL,
    commit_id   TEXT   NOT NULL,
    subpath     TEXT   NOT NULL,
    expires_at  BIGINT NOT NULL,
    revision    BIGINT NOT NULL,
    PRIMARY KEY (cluster_uid, digest)
);
--bun:split
CREATE INDEX grants_revision ON grants (revision);
