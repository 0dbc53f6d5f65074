// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	release "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
)

// notesFile ends the names of templates that Helm prints for people.
const notesFile = "NOTES.txt"

// addDocuments adds the chart's definitions and what its templates made to out: the definitions
// first, then the documents in the order of their files.
func (r *rendering) addDocuments(out *render.StepOutput, files map[string]string) error {
	if r.options.CRDs != renderstep.CRDsSkip {
		for _, crd := range r.chart.CRDObjects() {
			if err := r.addDefinitions(out, r.place(crd.Filename), string(crd.File.Data)); err != nil {
				return err
			}
		}
	}
	out.Notes = files[path.Join(r.root, "templates", notesFile)] // and not the dependencies', as Helm
	for _, name := range slices.Sorted(maps.Keys(files)) {
		base := path.Base(name)
		if strings.HasPrefix(base, "_") || strings.HasSuffix(base, notesFile) || strings.TrimSpace(files[name]) == "" {
			continue
		}
		for _, document := range split(r.place(name), files[name]) {
			keep, err := r.keeps(document, out)
			if err != nil {
				return err
			}
			if keep {
				out.Documents = append(out.Documents, document)
			}
		}
	}
	return nil
}

// split returns the documents of a text as Helm splits them, which is more lenient than YAML.
func split(name, text string) []render.Document {
	manifests := releaseutil.SplitManifests(text)
	keys := slices.Collect(maps.Keys(manifests))
	slices.SortFunc(keys, func(a, b string) int {
		if releaseutil.BySplitManifestsOrder([]string{a, b}).Less(0, 1) {
			return -1
		}
		return 1
	})
	var documents []render.Document
	for i, key := range keys {
		// Helm ends each document with one more newline, which may belong to a block of text.
		documents = append(documents, render.Document{Path: name, Text: []byte(manifests[key] + "\n"), Position: i + 1, LastKeyWins: true})
	}
	return documents
}

// addDefinitions adds the documents of a file in a folder crds. Others than definitions are left
// out, as Helm does, but not in silence.
func (r *rendering) addDefinitions(out *render.StepOutput, name, text string) error {
	for _, document := range split(name, text) {
		head, err := r.head(document)
		if err != nil {
			return err
		}
		switch {
		case head == nil:
		case head.Kind != "CustomResourceDefinition":
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s holds a %s, which is left out: crds is for definitions", name, head.Kind))
		default:
			if r.options.CRDs == renderstep.CRDsCreate {
				document.Annotations = map[string]string{renderstep.UpdateAnnotation: renderstep.UpdateDisabled}
			}
			out.Documents = append(out.Documents, document)
		}
	}
	return nil
}

// keeps reports whether a document of a template is wanted. A hook for an event that Helm does not
// know is left out, as Helm does. So is, at the first apply of a release that Helm has installed, a
// hook for nothing but the installation: it has run.
func (r *rendering) keeps(document render.Document, out *render.StepOutput) (bool, error) {
	if !strings.Contains(string(document.Text), release.HookAnnotation) {
		return true, nil
	}
	head, err := r.head(document)
	if err != nil || head == nil || head.Metadata == nil {
		return head != nil, err
	}
	events, isHook := head.Metadata.Annotations[release.HookAnnotation]
	if !isHook {
		return true, nil
	}
	isTest, isInstall := false, true
	for event := range strings.SplitSeq(events, ",") {
		event = strings.ToLower(strings.TrimSpace(event))
		if !slices.Contains(hookEvents(), event) {
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s: %s %s is left out, because it is a hook for %q, which does not exist",
				document.Path, head.Kind, head.Metadata.Name, event))
			return false, nil
		}
		isTest = isTest || strings.HasPrefix(event, "test")
		isInstall = isInstall && (event == "pre-install" || event == "post-install")
	}
	if isInstall && r.options.Installed && !r.in.Installed {
		return false, nil
	}
	return !r.options.SkipHooks && (!isTest || !r.options.SkipTests), nil
}

// head returns kind, name and annotations of a document; nil if it is empty.
func (r *rendering) head(document render.Document) (*releaseutil.SimpleHead, error) {
	if err := checkAliases(document.Path, document.Text, r.in.Limits); err != nil {
		return nil, err
	}
	var head *releaseutil.SimpleHead
	if err := yaml.Unmarshal(document.Text, &head); err != nil {
		return nil, &render.Error{Path: document.Path, Document: document.Position, Cause: err}
	}
	return head, nil
}

// hookEvents returns the events that Helm knows.
func hookEvents() []string {
	return []string{
		"pre-install", "post-install", "pre-delete", "post-delete", "pre-upgrade", "post-upgrade", "pre-rollback", "post-rollback",
		"test", "test-success",
	}
}

// lookup returns the template function: an object, a list of them for an empty name, or nothing. A
// list that a rule permits may be empty. It calls seen with each object that a template is given.
func lookup(
	known []render.Lookup, rules []renderstep.LookupRule, seen func(render.Lookup),
) func(version, kind, namespace, name string) (map[string]any, error) {
	return func(version, kind, namespace, name string) (map[string]any, error) {
		items := []any{}
		for _, l := range known {
			if l.APIVersion != version || l.Kind != kind || namespace != "" && l.Namespace != namespace || name != "" && l.Name != name {
				continue
			}
			object := map[string]any{}
			if err := yaml.Unmarshal(l.Object, &object); err != nil {
				return nil, fmt.Errorf("read looked-up %s %s: %w", kind, l.Name, err)
			}
			seen(l)
			if name != "" {
				return object, nil
			}
			items = append(items, object)
		}
		isListed := func(r renderstep.LookupRule) bool { return r.APIVersion == version && r.Kind == kind && r.Name == "*" }
		if name != "" || len(items) == 0 && !slices.ContainsFunc(rules, isListed) {
			return map[string]any{}, nil
		}
		return map[string]any{"apiVersion": version, "kind": kind + "List", "items": items}, nil
	}
}
