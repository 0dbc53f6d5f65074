// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// errRemote is what every reference into the network comes to: an agent that fetched it would apply what nobody reviewed.
var errRemote = errors.New("remote references are not fetched; put a copy into the repository")

// referrer walks the kustomizations that a folder leads to, before kustomize does. Kustomize would fetch what it does not
// find, and what it says about a file that is not in the bundle does not tell what to do.
type referrer struct {
	files *Files
	seen  map[string]bool // folders
}

// checkReferences makes sure that everything the kustomization of folder names, directly or not, is a file or folder of
// the bundle.
func checkReferences(files *Files, folder string) error {
	return (&referrer{files: files, seen: map[string]bool{}}).walk(folder)
}

func (r *referrer) walk(folder string) error {
	if r.seen[folder] {
		return nil
	}
	r.seen[folder] = true
	name := kustomization(r.files, folder)
	if name == "" {
		return &Error{Path: orRoot(folder), Cause: errors.New("holds no kustomization.yaml")}
	}
	var fields map[string]any
	if err := yaml.Unmarshal(r.files.content[name], &fields); err != nil {
		return &Error{Path: name, Document: 1, Cause: err}
	}
	for _, ref := range references(fields) {
		if err := r.check(folder, ref); err != nil {
			return &Error{Path: name, Cause: fmt.Errorf("%s: %q: %w", ref.field, ref.target, err)}
		}
	}
	for _, field := range pluginFields() {
		if err := checkPlugin(name, strings.Join(inline(fields[field]), "\n---\n")); err != nil {
			return err
		}
	}
	return r.descend(folder, fields)
}

// descend walks the folders among the references.
func (r *referrer) descend(folder string, fields map[string]any) error {
	for _, ref := range references(fields) {
		target := path.Join(folder, ref.target)
		if _, isFile := r.files.content[target]; isFile {
			if ref.plugin {
				if err := checkPlugin(target, string(r.files.content[target])); err != nil {
					return err
				}
			}
			continue
		}
		if err := r.walk(strings.TrimPrefix(target, ".")); err != nil {
			return err
		}
	}
	return nil
}

func (r *referrer) check(folder string, ref reference) error {
	if remote(ref.target) {
		return errRemote
	}
	target := path.Join(folder, ref.target)
	if path.IsAbs(ref.target) || target == ".." || strings.HasPrefix(target, "../") {
		return errors.New("is outside the bundle; name its folder in the source's folders, or set root to one that holds both, such as \".\"")
	}
	if _, ok := r.files.content[target]; ok || target == "." || r.files.hasFolder(target) {
		return nil
	}
	if strings.Contains(ref.target, "?ref=") || strings.HasPrefix(ref.target, "github.com/") {
		return errRemote
	}
	return errors.New("no such file or folder in the bundle")
}

// checkPlugin looks for remote files in the configuration of a generator or transformer.
func checkPlugin(name, content string) error {
	for _, document := range strings.Split(content, "\n---") {
		var value any
		if yaml.Unmarshal([]byte(document), &value) != nil {
			continue // kustomize will say it better
		}
		if target := remoteIn(value, false); target != "" {
			return &Error{Path: name, Cause: fmt.Errorf("%q: %w", target, errRemote)}
		}
	}
	return nil
}

// remoteIn returns the first remote reference below value. Only texts under keys that make kustomize load something count
// (loads): an annotation may hold a URL.
func remoteIn(value any, loads bool) string {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			if found := remoteIn(item, slices.Contains(loadingKeys(), key)); found != "" {
				return found
			}
		}
	case []any:
		for _, item := range v {
			if found := remoteIn(item, loads); found != "" {
				return found
			}
		}
	case string:
		if _, file, ok := strings.Cut(v, "="); loads && (remote(v) || ok && remote(file)) {
			return v
		}
	}
	return ""
}

func loadingKeys() []string {
	return []string{"path", "paths", "files", "envs", "env", "resources", "bases", "components"}
}

func remote(target string) bool {
	return strings.Contains(target, "://") || strings.HasPrefix(target, "git@") || strings.HasPrefix(target, "git::")
}

// reference is one mention of another file or folder.
type reference struct {
	field  string
	target string
	plugin bool // it is the configuration of a generator or transformer
}

// references lists what a kustomization names. Inline documents are no references.
func references(fields map[string]any) []reference {
	var refs []reference
	for _, field := range []string{
		"resources", "bases", "components", "crds", "configurations", "patchesStrategicMerge",
		"generators", "transformers", "validators",
	} {
		for _, target := range texts(fields[field]) {
			refs = append(refs, reference{field: field, target: target, plugin: slices.Contains(pluginFields(), field)})
		}
	}
	for _, field := range []string{"patches", "patchesJson6902", "replacements"} {
		for _, item := range items(fields[field]) {
			refs = appendPath(refs, field, item["path"])
		}
	}
	if openapi, ok := fields["openapi"].(map[string]any); ok {
		refs = appendPath(refs, "openapi", openapi["path"])
	}
	for _, field := range []string{"configMapGenerator", "secretGenerator"} {
		for _, item := range items(fields[field]) {
			refs = appendSources(refs, field, item)
		}
	}
	return refs
}

func appendSources(refs []reference, field string, generator map[string]any) []reference {
	for _, target := range texts(generator["files"]) {
		if _, file, ok := strings.Cut(target, "="); ok {
			target = file
		}
		refs = append(refs, reference{field: field, target: target})
	}
	for _, target := range texts(generator["envs"]) {
		refs = append(refs, reference{field: field, target: target})
	}
	return appendPath(refs, field, generator["env"])
}

func appendPath(refs []reference, field string, value any) []reference {
	if target, ok := value.(string); ok && target != "" {
		refs = append(refs, reference{field: field, target: target})
	}
	return refs
}

func pluginFields() []string {
	return []string{"generators", "transformers", "validators"}
}

// texts returns the texts of a list that are references.
func texts(value any) []string {
	return slices.DeleteFunc(all(value), isInline)
}

// inline returns the texts of a list that are documents themselves.
func inline(value any) []string {
	return slices.DeleteFunc(all(value), func(text string) bool { return !isInline(text) })
}

func isInline(text string) bool {
	return strings.Contains(text, "\n") || strings.HasPrefix(text, "{")
}

func all(value any) []string {
	list, _ := value.([]any)
	var texts []string
	for _, item := range list {
		if text, ok := item.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

func items(value any) []map[string]any {
	list, _ := value.([]any)
	var all []map[string]any
	for _, item := range list {
		if fields, ok := item.(map[string]any); ok {
			all = append(all, fields)
		}
	}
	return all
}

func orRoot(folder string) string {
	if folder == "" {
		return "."
	}
	return folder
}
