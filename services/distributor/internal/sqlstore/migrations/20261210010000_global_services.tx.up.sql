-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Global services. spec is JSON; digests are keyed digests of the secrets, as JSON; secrets is sealed. Services that are derived from
-- them have no row until an agent reports one or a person has it synced, and never one of their spec: derived_services and
-- derived_revisions hold for them what services, service_reports and service_revisions hold for others.

CREATE TABLE global_services (
    uid              TEXT   NOT NULL PRIMARY KEY,
    name             TEXT   NOT NULL UNIQUE,
    project          TEXT   NOT NULL,
    labels           TEXT   NOT NULL,
    annotations      TEXT   NOT NULL,
    spec             TEXT   NOT NULL,
    digests          TEXT   NOT NULL,
    secrets          {{.Bytes}},
    resource_version BIGINT NOT NULL,
    generation       BIGINT NOT NULL,
    revision         BIGINT NOT NULL,
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL,
    created_by       TEXT   NOT NULL,
    updated_by       TEXT   NOT NULL,
    reason           TEXT   NOT NULL
);
--bun:split
CREATE INDEX global_services_revision ON global_services (revision);
--bun:split
CREATE INDEX global_services_project ON global_services (project);
--bun:split
CREATE TABLE global_service_sources (
    global_uid     TEXT NOT NULL REFERENCES global_services (uid) ON DELETE CASCADE,
    repository_uid TEXT NOT NULL REFERENCES repositories (uid),
    PRIMARY KEY (global_uid, repository_uid)
);
--bun:split
CREATE INDEX global_service_sources_repository ON global_service_sources (repository_uid);
--bun:split
CREATE TABLE derived_services (
    uid                 TEXT   NOT NULL PRIMARY KEY,
    global_uid          TEXT   NOT NULL REFERENCES global_services (uid) ON DELETE CASCADE,
    cluster_uid         TEXT   NOT NULL REFERENCES clusters (uid) ON DELETE CASCADE,
    sync_request        TEXT   NOT NULL,
    report              TEXT   NOT NULL,
    entry               TEXT   NOT NULL,
    observed_generation BIGINT NOT NULL,
    revision            BIGINT NOT NULL
);
--bun:split
CREATE INDEX derived_services_revision ON derived_services (revision);
--bun:split
CREATE INDEX derived_services_global ON derived_services (global_uid);
--bun:split
CREATE INDEX derived_services_cluster ON derived_services (cluster_uid);
--bun:split
CREATE TABLE derived_revisions (
    service_uid TEXT   NOT NULL REFERENCES derived_services (uid) ON DELETE CASCADE,
    number      BIGINT NOT NULL,
    revision    TEXT   NOT NULL,
    PRIMARY KEY (service_uid, number)
);
