// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// LastAppliedAnnotation is where kubectl apply keeps what it applied.
const LastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"

// BeforeFirstApply is the manager to whom the API server gives all that was set before anybody applied the object.
const BeforeFirstApply = "before-first-apply"

// Deployer tells the managers that make objects from manifests, as Leat does: what they have set, the manifests said.
// kubectl's editing commands are not among them: what a person changed by hand is a conflict like any other.
func Deployer(manager string) bool {
	return slices.Contains([]string{
		"kubectl-client-side-apply", "kubectl", "kubectl-create", "kubectl-replace", // kubectl apply, with and without --server-side
		"helm", "Helm",
		"kustomize-controller", "helm-controller",
		"argocd-controller", "argocd-application-controller",
		BeforeFirstApply, Manager,
	}, manager)
}

// Deployers lists those who have set fields of o, and are no longer to own them, each once.
func Deployers(o *unstructured.Unstructured) []string {
	var all []string
	for _, e := range entriesOf(o) {
		if e.subresource() == "" && Deployer(e.manager()) && e.manager() != Manager && !slices.Contains(all, e.manager()) {
			all = append(all, e.manager())
		}
	}
	return all
}

// Touched tells whether Leat has ever set a field of o.
func Touched(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(entriesOf(o), func(e entry) bool { return e.manager() == Manager })
}

// HandOver returns the managedFields of live with what deployers have set in Leat's own entry, of that version, so that it
// goes when the manifest does not name it, and conflicts with nobody. Entries of subresources stay, and so does everything
// else. It reports false when there is nothing to hand over. What it returns shares with live, which is not changed.
func HandOver(live *unstructured.Unstructured, apiVersion string) ([]any, bool) {
	var rest []any
	var own entry
	found := false
	for _, e := range entriesOf(live) {
		if e.subresource() != "" || !Deployer(e.manager()) {
			rest = append(rest, map[string]any(e))
			continue
		}
		found = found || !e.ours()
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

// moved returns the entry as one of that version. Fields that do not exist in live, which was read in it, are left out: in
// another version they may have had other names.
func (e entry) moved(live *unstructured.Unstructured, apiVersion string) entry {
	if e.apiVersion() == apiVersion {
		return e
	}
	e = maps.Clone(e)
	e["apiVersion"], e["fieldsV1"] = apiVersion, existing(e.owned(), live.Object)
	return e
}

// joined returns an entry of all that is in either. The nil entry has nothing.
func (e entry) joined(other entry) entry {
	if e == nil {
		return other
	}
	e = maps.Clone(e)
	e["fieldsV1"] = union(e.owned(), other.owned())
	return e
}

// Migrate returns the managedFields of live with the entries of versions that are gone as entries of that version. Entries
// that only the version kept apart become one. It reports false when there are none.
func Migrate(live *unstructured.Unstructured, apiVersion string, gone func(apiVersion string) bool) ([]any, bool) {
	var entries []entry
	found := false
	for _, e := range entriesOf(live) {
		if gone(e.apiVersion()) {
			e, found = e.moved(live, apiVersion), true
		}
		if i := slices.IndexFunc(entries, e.alike); i >= 0 {
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

// alike tells entries that the API server takes for one.
func (e entry) alike(other entry) bool {
	return e.manager() == other.manager() && e.operation() == other.operation() && e.subresource() == other.subresource() &&
		(e.operation() == opApply || e.apiVersion() == other.apiVersion())
}

// Versions lists the API versions in which others or Leat have set fields of o, each once.
func Versions(o *unstructured.Unstructured) []string {
	var all []string
	for _, e := range entriesOf(o) {
		if !slices.Contains(all, e.apiVersion()) {
			all = append(all, e.apiVersion())
		}
	}
	return all
}

// existing returns the part of a tree that exists in value. It never is nil.
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

// partOf returns the part of a value that a tree calls by that name.
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
	return nil, ok && slices.ContainsFunc(list, func(item any) bool { return same(item, decode(text)) })
}

// forget returns the tree without the node that the names lead to.
func forget(t tree, name string, rest ...string) tree {
	below := child(t, name)
	if below == nil || len(rest) == 0 {
		return replace(t, name, nil)
	}
	left := forget(below, rest[0], rest[1:]...)
	return replace(t, name, left)
}
