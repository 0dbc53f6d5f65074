-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Which fleet source manages an object, by its path and its uid. An annotation named the source until now, by kind and name:
-- fleetsource/NAME, or fleetsource/PROJECT/NAME. Annotations of sources that are gone named nothing.
{{range .Objects}}
--bun:split
ALTER TABLE {{.}} ADD COLUMN manager TEXT NOT NULL DEFAULT '';
--bun:split
ALTER TABLE {{.}} ADD COLUMN manager_uid TEXT NOT NULL DEFAULT '';
--bun:split
UPDATE {{.}} SET manager = replace(substr({{$.Annotation "leat.dev/managed-by"}}, 13), '/', '.')
WHERE annotations LIKE '%"leat.dev/managed-by":"fleetsource/%';
--bun:split
UPDATE {{.}} SET manager_uid = coalesce((SELECT f.uid FROM fleet_sources AS f WHERE f.name = {{.}}.manager), '')
WHERE manager <> '';
--bun:split
UPDATE {{.}} SET manager = '' WHERE manager_uid = '';
--bun:split
UPDATE {{.}} SET annotations = {{$.WithoutAnnotation "leat.dev/managed-by"}} WHERE annotations LIKE '%"leat.dev/managed-by":%';
{{end}}
