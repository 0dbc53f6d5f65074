// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"maps"
	"slices"
	"strings"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/document"
)

// scope returns what a binding is about.
func scope(spec *fleetv1.AccessBindingSpec) string {
	if spec.GetHub() {
		return "hub"
	}
	var parts []string
	switch names := spec.GetProjects().GetNames(); {
	case spec.GetProjects().GetAll():
		parts = append(parts, "all projects")
	case len(names) > 0:
		parts = append(parts, "projects "+list(names).text)
	}
	if clusters := selection(spec.GetClusters()); clusters != "" {
		parts = append(parts, clusters)
	}
	if len(spec.GetServices()) > 0 {
		parts = append(parts, "services "+list(spec.GetServices()).text)
	}
	if len(spec.GetRepositories()) > 0 {
		parts = append(parts, "repositories "+list(spec.GetRepositories()).text)
	}
	return strings.Join(parts, "; ")
}

func selection(s *fleetv1.ClusterSelection) string {
	if s.GetAll() {
		return "all"
	}
	var parts []string
	if len(s.GetNames()) > 0 {
		parts = append(parts, list(s.GetNames()).text)
	}
	for _, key := range slices.Sorted(maps.Keys(s.GetLabels().GetMatchLabels())) {
		parts = append(parts, key+"="+s.GetLabels().GetMatchLabels()[key])
	}
	for _, r := range s.GetLabels().GetMatchExpressions() {
		text := r.GetKey() + " " + strings.ReplaceAll(document.EnumName(r.GetOperator()), "_", " ")
		if len(r.GetValues()) > 0 {
			text += " " + strings.Join(r.GetValues(), "|")
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

// rules summarizes the rules of a binding.
func rules(rules []*typev1.AccessRule) cell {
	var parts []string
	for _, r := range rules {
		parts = append(parts, rule(r))
	}
	return plain(strings.Join(parts, "; "))
}

func rule(r *typev1.AccessRule) string {
	words := []string{"every verb"}
	if len(r.GetVerbs()) > 0 {
		words = []string{strings.Join(r.GetVerbs(), ",")}
	}
	if len(r.GetResources()) > 0 {
		words = append(words, "of "+strings.Join(r.GetResources(), ","))
	}
	if len(r.GetApiGroups()) > 0 {
		words = append(words, "in API groups "+strings.Join(r.GetApiGroups(), ","))
	}
	if len(r.GetNamespaces()) > 0 {
		words = append(words, "in namespaces "+strings.Join(r.GetNamespaces(), ","))
	}
	if len(r.GetNonResourcePaths()) > 0 {
		words = append(words, "at "+strings.Join(r.GetNonResourcePaths(), ","))
	}
	return strings.Join(words, " ")
}
