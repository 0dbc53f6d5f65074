-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The catalog. Times and durations are microseconds; texts named labels, annotations, spec, report, source, snapshot and
-- groups hold JSON. revision is the value of the table revision at which a row last changed: the log of changes.

CREATE TABLE revision (
    id    INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    value BIGINT  NOT NULL
);
--bun:split
INSERT INTO revision (id, value) VALUES (1, 0);
--bun:split
CREATE TABLE clusters (
    uid              TEXT   NOT NULL PRIMARY KEY,
    name             TEXT   NOT NULL UNIQUE,
    labels           TEXT   NOT NULL,
    annotations      TEXT   NOT NULL,
    description      TEXT   NOT NULL,
    resource_version BIGINT NOT NULL,
    generation       BIGINT NOT NULL,
    revision         BIGINT NOT NULL,
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL,
    public_key       {{.Bytes}},
    key_generation   BIGINT NOT NULL DEFAULT 0,
    last_seen_at     BIGINT NOT NULL DEFAULT 0,
    connected_until  BIGINT NOT NULL DEFAULT 0,
    report           TEXT   NOT NULL DEFAULT '{}',
    plan_version     TEXT   NOT NULL DEFAULT '',
    instance         TEXT   NOT NULL DEFAULT '',
    sequence         BIGINT NOT NULL DEFAULT 0
);
--bun:split
CREATE INDEX clusters_revision ON clusters (revision);
--bun:split
CREATE TABLE repositories (
    uid              TEXT    NOT NULL PRIMARY KEY,
    name             TEXT    NOT NULL UNIQUE,
    labels           TEXT    NOT NULL,
    annotations      TEXT    NOT NULL,
    type             TEXT    NOT NULL,
    url              TEXT    NOT NULL,
    poll_interval    BIGINT  NOT NULL,
    credential       {{.Bytes}},
    ca_pem           TEXT    NOT NULL,
    suspended        BOOLEAN NOT NULL,
    resource_version BIGINT  NOT NULL,
    generation       BIGINT  NOT NULL,
    revision         BIGINT  NOT NULL,
    created_at       BIGINT  NOT NULL,
    updated_at       BIGINT  NOT NULL
);
--bun:split
CREATE INDEX repositories_revision ON repositories (revision);
--bun:split
CREATE TABLE services (
    uid              TEXT   NOT NULL PRIMARY KEY,
    name             TEXT   NOT NULL UNIQUE,
    labels           TEXT   NOT NULL,
    annotations      TEXT   NOT NULL,
    cluster_uid      TEXT   NOT NULL REFERENCES clusters (uid),
    spec             TEXT   NOT NULL,
    sync_request     TEXT   NOT NULL,
    resource_version BIGINT NOT NULL,
    generation       BIGINT NOT NULL,
    revision         BIGINT NOT NULL,
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL
);
--bun:split
CREATE INDEX services_revision ON services (revision);
--bun:split
CREATE INDEX services_cluster ON services (cluster_uid);
--bun:split
CREATE TABLE service_sources (
    service_uid    TEXT NOT NULL REFERENCES services (uid) ON DELETE CASCADE,
    repository_uid TEXT NOT NULL REFERENCES repositories (uid),
    PRIMARY KEY (service_uid, repository_uid)
);
--bun:split
CREATE INDEX service_sources_repository ON service_sources (repository_uid);
--bun:split
CREATE TABLE service_reports (
    service_uid         TEXT   NOT NULL PRIMARY KEY REFERENCES services (uid) ON DELETE CASCADE,
    report              TEXT   NOT NULL,
    entry               TEXT   NOT NULL,
    observed_generation BIGINT NOT NULL,
    revision            BIGINT NOT NULL
);
--bun:split
CREATE INDEX service_reports_revision ON service_reports (revision);
--bun:split
CREATE TABLE snapshots (
    repository_uid TEXT   NOT NULL REFERENCES repositories (uid) ON DELETE CASCADE,
    source         TEXT   NOT NULL,
    snapshot       TEXT   NOT NULL,
    resolved_at    BIGINT NOT NULL,
    PRIMARY KEY (repository_uid, source)
);
--bun:split
CREATE TABLE deletions (
    uid        TEXT   NOT NULL PRIMARY KEY,
    kind       TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    revision   BIGINT NOT NULL,
    deleted_at BIGINT NOT NULL
);
--bun:split
CREATE INDEX deletions_revision ON deletions (revision);
