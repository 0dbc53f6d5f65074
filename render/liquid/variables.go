// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package liquid

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/leatdev/leat/render/facts"
)

// bindings returns the variables of a template. Templates share nothing that they can change.
func (r *run) bindings() map[string]any {
	service := r.in.Facts.Service
	return map[string]any{
		"leat": fields{
			"config":    fieldsOf(facts.Config(r.in.Variables)),
			"installed": r.in.Installed,
			"facts":     &lazy{read: r.facts},
		},
		"configuration": fieldsOf(facts.Config(r.in.Variables)),
		"cluster":       &lazy{read: r.cluster},
		"service":       fields{"name": service.Name, "namespace": service.Namespace},
		"contexts":      fields{}, // Leat has nothing of the kind
	}
}

// facts returns the facts, and notes that they were read.
func (r *run) facts() any {
	r.asked.Facts = true
	all := fieldsOf(facts.Facts(r.in.Facts, false))
	if cluster, ok := all["cluster"].(fields); ok {
		cluster["apiVersions"] = &lazy{read: func() any {
			r.asked.APIVersions = true
			return facts.APIVersions(r.in.Facts)
		}}
	}
	return all
}

// cluster returns the cluster as Plural names its parts, in both spellings that it has, and as Leat
// does.
func (r *run) cluster() any {
	r.asked.Facts = true
	known := fieldsOf(facts.Facts(r.in.Facts, false)["cluster"])
	version := strings.TrimPrefix(r.in.Facts.Cluster.KubernetesVersion, "v")
	cluster := fields{
		"Name": known["name"], "Handle": known["name"], "Version": version, "CurrentVersion": version,
		"Tags": known["labels"], "Metadata": known["annotations"],
	}
	for name, value := range maps.Clone(cluster) {
		cluster[strings.ToLower(name)] = value
	}
	cluster["currentVersion"] = version
	cluster["kubernetesVersion"], cluster["labels"], cluster["annotations"] = known["kubernetesVersion"], cluster["Tags"], cluster["Metadata"]
	return cluster
}

// lazy is a value that notes when it is read. The library reads it through ToLiquid; MarshalJSON and
// String are for filters that print a map with it.
type lazy struct{ read func() any }

// ToLiquid implements the library's Drop.
func (l *lazy) ToLiquid() any { return l.read() }

// MarshalJSON implements json.Marshaler.
func (l *lazy) MarshalJSON() ([]byte, error) { return json.Marshal(l.read()) }

// String implements fmt.Stringer.
func (l *lazy) String() string { return fmt.Sprint(l.read()) }

// fields is a map that templates iterate over in the order of its names. The library iterates over
// other maps in any order.
type fields map[string]any

// Len implements the library's iteration.
func (f fields) Len() int { return len(f) }

// Index implements the library's iteration. An element is a pair of name and value.
func (f fields) Index(i int) any {
	name := slices.Sorted(maps.Keys(f))[i]
	return []any{name, f[name]}
}

// fieldsOf returns a value of package facts with its maps as fields.
func fieldsOf(value any) fields {
	named, _ := value.(map[string]any)
	all := make(fields, len(named))
	for name, value := range named {
		all[name] = value
		if _, isMap := value.(map[string]any); isMap {
			all[name] = fieldsOf(value)
		}
		if list, isList := value.([]any); isList {
			all[name] = listOf(list)
		}
	}
	return all
}

func listOf(list []any) []any {
	items := slices.Clone(list)
	for i, item := range items {
		if _, isMap := item.(map[string]any); isMap {
			items[i] = fieldsOf(item)
		}
	}
	return items
}
