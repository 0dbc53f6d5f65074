// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package facts holds the one document that templates of every language read: the facts of the
// service and its cluster, and the service's configuration. docs/guides/renderers.md is its
// contract with the authors of templates.
//
// A renderer puts the document where its language has such things: std.extVar("leat") in Jsonnet,
// the field leat in CUE, the variable leat in Liquid, functionConfig.spec in a WebAssembly module.
package facts

import (
	"maps"

	"github.com/leatdev/leat/render"
)

// Document returns the document, of the types that encoding/json decodes into an any. The caller
// may change it.
//
// Without asked.Facts the document has no facts. Without asked.APIVersions its list of API versions
// is empty. A template therefore cannot depend on what its step does not report as asked.
func Document(in render.StepInput, asked render.Asked) map[string]any {
	document := map[string]any{"config": Config(in.Variables), "installed": in.Installed}
	if asked.Facts {
		document["facts"] = Facts(in.Facts, asked.APIVersions)
	}
	return document
}

// Config returns values and secrets under their names. They share one name space.
func Config(variables *render.Variables) map[string]any {
	config := map[string]any{}
	if variables != nil {
		maps.Copy(config, texts(variables.Values))
		maps.Copy(config, texts(variables.Secrets))
	}
	return config
}

// Parameters returns values and secrets apart from each other.
func Parameters(variables *render.Variables) map[string]any {
	if variables == nil {
		variables = new(render.Variables)
	}
	return map[string]any{"values": texts(variables.Values), "secrets": texts(variables.Secrets)}
}

// Facts returns the facts under the names that they have in JSON. Every name is present, so that a
// template that reads an unknown fact meets an empty value, and not an error on some clusters only.
func Facts(known render.Facts, apiVersions bool) map[string]any {
	cluster := map[string]any{
		"name":              known.Cluster.Name,
		"labels":            texts(known.Cluster.Labels),
		"annotations":       texts(known.Cluster.Annotations),
		"kubernetesVersion": known.Cluster.KubernetesVersion,
		"apiVersions":       []any{},
	}
	if apiVersions {
		cluster["apiVersions"] = APIVersions(known)
	}
	sources := []any{}
	for _, source := range known.Sources {
		sources = append(sources, map[string]any{
			"repository": source.Repository,
			"path":       source.Path,
			"mount":      source.Mount,
			"commit":     source.Commit,
			"version":    source.Version,
			"digest":     source.Digest,
		})
	}
	return map[string]any{
		"cluster": cluster,
		"service": map[string]any{"name": known.Service.Name, "namespace": known.Service.Namespace},
		"sources": sources,
	}
}

// APIVersions returns the API versions of the cluster as a list of texts.
func APIVersions(known render.Facts) []any {
	versions := make([]any, len(known.Cluster.APIVersions))
	for i, version := range known.Cluster.APIVersions {
		versions[i] = version
	}
	return versions
}

func texts(all map[string]string) map[string]any {
	fields := make(map[string]any, len(all))
	for name, text := range all {
		fields[name] = text
	}
	return fields
}
