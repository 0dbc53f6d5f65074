// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// LastAppliedAnnotation is where kubectl apply stores the manifest that it applied.
const LastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"

// BeforeFirstApply is the manager to which the API server assigns all fields that were set before
// anybody applied the object.
const BeforeFirstApply = "before-first-apply"

// Deployer reports whether a manager makes objects from manifests, as Leat does: each field that it
// has set was in a manifest. kubectl's editing commands are not among the deployers: a field that a
// person changed by hand is a conflict like any other.
func Deployer(manager string) bool {
	return slices.Contains([]string{
		"kubectl-client-side-apply", "kubectl", // kubectl apply, without and with --server-side
		"kubectl-create", "kubectl-replace",
		"helm", "Helm",
		"kustomize-controller", "helm-controller",
		"argocd-controller", "argocd-application-controller",
		BeforeFirstApply, Manager,
	}, manager)
}

// Deployers returns the deployers other than Leat that own fields of o, each once. They are to own
// them no longer.
func Deployers(o *unstructured.Unstructured) []string {
	var all []string
	for _, e := range entriesOf(o) {
		manager := e.manager()
		if e.subresource() == "" && Deployer(manager) && manager != Manager && !slices.Contains(all, manager) {
			all = append(all, manager)
		}
	}
	return all
}

// Touched reports whether Leat has ever set a field of o.
func Touched(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(entriesOf(o), func(e entry) bool { return e.manager() == Manager })
}

// HandOver returns the managedFields of live with the deployers' fields in Leat's own entry, of
// that version. The next apply then conflicts with none of them, and removes the ones that the
// manifest does not name. Entries of subresources and of others stay. It reports false if there is
// nothing to hand over. The result shares parts with live, which is not changed.
//
// The annotation of kubectl apply has no owner afterwards: it names what kubectl applied last,
// which is no longer true of the object. The caller removes it together with the entries.
func HandOver(live *unstructured.Unstructured, apiVersion string) ([]any, bool) {
	var rest []any
	var own entry
	found := false
	for _, e := range entriesOf(live) {
		if e.subresource() != "" || !Deployer(e.manager()) {
			rest = append(rest, map[string]any(e))
			continue
		}
		found = found || !e.isOurs()
		own = own.joined(e.moved(live, apiVersion))
	}
	if !found {
		return nil, false
	}
	own = maps.Clone(own)
	own["manager"], own["operation"] = Manager, opApply
	own["fieldsV1"] = forget(own.owned(), "f:metadata", "f:annotations", "f:"+LastAppliedAnnotation)
	return append(rest, map[string]any(own)), true
}

// LetGo returns the managedFields of live without Leat's entries. What Leat alone has set has no owner
// then. If nobody else owns anything, the list has one empty entry: the API server ignores a list
// without any.
func LetGo(live *unstructured.Unstructured) []any {
	var rest []any
	for _, e := range entriesOf(live) {
		if e.manager() != Manager {
			rest = append(rest, map[string]any(e))
		}
	}
	if rest == nil {
		rest = []any{map[string]any{}}
	}
	return rest
}

// moved returns the entry as one of that version, in which live was read. Fields that do not exist
// in live are left out: they may have had other names in the entry's version.
func (e entry) moved(live *unstructured.Unstructured, apiVersion string) entry {
	if e.apiVersion() == apiVersion {
		return e
	}
	e = maps.Clone(e)
	e["apiVersion"], e["fieldsV1"] = apiVersion, existing(e.owned(), live.Object)
	return e
}

// joined returns an entry with the fields of both. The nil entry has none.
func (e entry) joined(other entry) entry {
	if e == nil {
		return other
	}
	e = maps.Clone(e)
	e["fieldsV1"] = union(e.owned(), other.owned())
	return e
}

// Migrate returns the managedFields of live with the entries of versions that are gone as entries
// of that version. Entries that differed only in the version become one. It reports false if there
// are none of gone versions.
func Migrate(live *unstructured.Unstructured, apiVersion string, gone func(apiVersion string) bool) ([]any, bool) {
	var entries []entry
	found := false
	for _, e := range entriesOf(live) {
		if gone(e.apiVersion()) {
			e, found = e.moved(live, apiVersion), true
		}
		if i := slices.IndexFunc(entries, e.isAlike); i >= 0 {
			entries[i] = entries[i].joined(e)
			continue
		}
		entries = append(entries, e)
	}
	if !found {
		return nil, false
	}
	list := make([]any, len(entries))
	for i, e := range entries {
		list[i] = map[string]any(e)
	}
	return list, true
}

// isAlike reports whether the API server keeps the fields of both entries in one.
func (e entry) isAlike(other entry) bool {
	return e.manager() == other.manager() && e.operation() == other.operation() &&
		e.subresource() == other.subresource() && (e.operation() == opApply || e.apiVersion() == other.apiVersion())
}

// Versions returns the API versions in which fields of o were set, each once.
func Versions(o *unstructured.Unstructured) []string {
	var all []string
	for _, e := range entriesOf(o) {
		if !slices.Contains(all, e.apiVersion()) {
			all = append(all, e.apiVersion())
		}
	}
	return all
}

// existing returns the part of a tree whose fields exist in value. It is never nil.
func existing(t tree, value any) tree {
	kept := tree{}
	for key := range t {
		part, ok := partOf(value, key)
		if !ok {
			continue
		}
		below := child(t, key)
		left := existing(below, part)
		if len(below) == 0 || len(left) > 0 {
			kept[key] = left
		}
	}
	return kept
}

// partOf returns the part of a value that has that name in a tree, and reports whether it exists.
func partOf(value any, name string) (any, bool) {
	if name == self {
		return nil, true
	}
	if field, ok := strings.CutPrefix(name, fieldPrefix); ok {
		fields, _ := value.(map[string]any)
		part, there := fields[field]
		return part, there
	}
	list, _ := value.([]any)
	if text, ok := strings.CutPrefix(name, keyPrefix); ok {
		key, _ := decode(text).(map[string]any)
		i := find(list, key)
		if i < 0 {
			return nil, false
		}
		return list[i], true
	}
	text, ok := strings.CutPrefix(name, valuePrefix)
	return nil, ok && slices.ContainsFunc(list, func(item any) bool { return isSame(item, decode(text)) })
}

// forget returns the tree without the node at the end of the names.
func forget(t tree, name string, rest ...string) tree {
	below := child(t, name)
	if below == nil || len(rest) == 0 {
		return replace(t, name, nil)
	}
	return replace(t, name, forget(below, rest[0], rest[1:]...))
}
