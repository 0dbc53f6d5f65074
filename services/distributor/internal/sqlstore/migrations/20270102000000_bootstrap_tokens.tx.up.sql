-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Tokens with which agents enrol clusters that the catalog does not have yet, by their SHA-256 hashes, and which Kubernetes clusters were
-- enrolled with each. Labels are JSON. A token whose maker or project is deleted is deleted with it by the code.

CREATE TABLE bootstrap_tokens (
    hash           {{.Bytes}} NOT NULL PRIMARY KEY,
    id             TEXT       NOT NULL UNIQUE,
    project        TEXT       NOT NULL,
    name_prefix    TEXT       NOT NULL,
    labels         TEXT       NOT NULL,
    description    TEXT       NOT NULL,
    max_uses       BIGINT     NOT NULL,
    uses           BIGINT     NOT NULL DEFAULT 0,
    created_at     BIGINT     NOT NULL,
    expires_at     BIGINT     NOT NULL,
    last_used_at   BIGINT     NOT NULL DEFAULT 0,
    last_cluster   TEXT       NOT NULL DEFAULT '',
    created_by     TEXT       NOT NULL,
    created_by_uid TEXT       NOT NULL DEFAULT '',
    made_with      TEXT       NOT NULL DEFAULT ''
);
--bun:split
CREATE TABLE bootstrap_clusters (
    token_id       TEXT NOT NULL REFERENCES bootstrap_tokens (id) ON DELETE CASCADE,
    kubernetes_uid TEXT NOT NULL,
    cluster_uid    TEXT NOT NULL REFERENCES clusters (uid) ON DELETE CASCADE,
    PRIMARY KEY (token_id, kubernetes_uid)
);
--bun:split
CREATE INDEX bootstrap_clusters_cluster ON bootstrap_clusters (cluster_uid);
