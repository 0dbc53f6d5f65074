-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Projects; spec is JSON. The name of a cluster, a repository or a service is its path, NAME in the project default and
-- PROJECT.NAME elsewhere, so it stays unique in its table. What is there already belongs to the project default, which has
-- no row until somebody edits it.

CREATE TABLE projects (
    uid              TEXT   NOT NULL PRIMARY KEY,
    name             TEXT   NOT NULL UNIQUE,
    labels           TEXT   NOT NULL,
    annotations      TEXT   NOT NULL,
    spec             TEXT   NOT NULL,
    resource_version BIGINT NOT NULL,
    generation       BIGINT NOT NULL,
    revision         BIGINT NOT NULL,
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL
);
--bun:split
CREATE INDEX projects_revision ON projects (revision);
--bun:split
ALTER TABLE clusters ADD COLUMN project TEXT NOT NULL DEFAULT 'default';
--bun:split
ALTER TABLE repositories ADD COLUMN project TEXT NOT NULL DEFAULT 'default';
--bun:split
ALTER TABLE services ADD COLUMN project TEXT NOT NULL DEFAULT 'default';
--bun:split
CREATE INDEX clusters_project ON clusters (project);
--bun:split
CREATE INDEX repositories_project ON repositories (project);
--bun:split
CREATE INDEX services_project ON services (project);
