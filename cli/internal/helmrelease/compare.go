// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helmrelease

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
)

// masked stands for the values of Secrets.
const masked = "(masked)"

const (
	maxFields = 20  // that are shown of one object
	maxValue  = 120 // bytes that are shown of one value
)

// Change is the effect on an object when a service takes over its release.
type Change int

// The changes.
const (
	Added Change = iota
	Changed
	Removed // from the manifests: the service does not delete it, because it never applied it
)

// Difference is an object that the service makes otherwise than Helm has applied it.
type Difference struct {
	Change Change
	// Object names the object, such as "Deployment.apps shop/web".
	Object string
	// Fields lists the differences of a changed object, such as "spec.replicas: 2 -> 3".
	Fields []string
}

// Comparison compares a release with the service that takes it over.
type Comparison struct {
	// Same is the number of equal objects.
	Same int
	// Differences are by object.
	Differences []Difference
	// Created are definitions that are only created where they are missing.
	Created int
	// Hooks are the names of hooks and tests that the service will run at some time.
	Hooks []string
	// Warnings are the render's.
	Warnings []string
	// HasGenerated reports that templates generate values at random.
	HasGenerated bool
}

// Compare renders the chart as the service will, and compares the objects with the applied ones.
// Files are the chart's. Secrets of the plan are masked in the result, and so are the values of
// Secrets.
func Compare(ctx context.Context, engine render.Renderer, r Release, p Plan, files *render.Files, facts render.ClusterFacts) (Comparison, error) {
	before, err := Applied(ctx, engine, r)
	if err != nil {
		return Comparison{}, err
	}
	in := render.Input{
		Files: mounted(files), Steps: p.Steps,
		Facts: render.Facts{Cluster: facts, Service: render.ServiceFacts{Name: p.Name, Namespace: r.Namespace}},
	}
	var substitution *render.Substitution
	if len(p.Secrets) > 0 {
		in.Variables = &render.Variables{Secrets: p.Secrets}
		substitution = render.NewSubstitution(*in.Variables)
	}
	out, err := engine.Render(ctx, in)
	if err != nil {
		return Comparison{}, err
	}
	result := Comparison{Warnings: out.Warnings, HasGenerated: len(out.Generated) > 0}
	after := map[string]*unstructured.Unstructured{}
	for _, o := range out.Objects {
		annotations := o.GetAnnotations()
		switch {
		case annotations["helm.sh/hook"] != "":
			result.Hooks = append(result.Hooks, Describe(o.Unstructured))
		case annotations[renderstep.UpdateAnnotation] == renderstep.UpdateDisabled:
			result.Created++
		default:
			after[identity(o.Unstructured, r.Namespace)] = o.Unstructured
		}
	}
	result.compare(before, after, r.Namespace, substitution)
	return result, nil
}

// Applied returns the objects that Helm has applied. Their names and namespaces are single segments of
// a path, so that a request for one of them asks for nothing else.
func Applied(ctx context.Context, engine render.Renderer, r Release) ([]*unstructured.Unstructured, error) {
	const name = "manifest.yaml"
	out, err := engine.Render(ctx, render.Input{
		Files: render.NewFiles(map[string][]byte{name: []byte(r.Manifest)}), Steps: []renderstep.Step{{Renderer: renderstep.Plain}},
	})
	if err != nil {
		return nil, fmt.Errorf("read what Helm has applied: %w", err)
	}
	var all []*unstructured.Unstructured
	for _, o := range out.Objects {
		for _, name := range []string{o.GetName(), o.GetNamespace()} {
			if len(content.IsPathSegmentName(name)) > 0 {
				return nil, fmt.Errorf("read what Helm has applied: %s is not named as an object can be", Describe(o.Unstructured))
			}
		}
		all = append(all, o.Unstructured)
	}
	return all, nil
}

// mounted returns the files of a chart at the place that the service gives them.
func mounted(files *render.Files) *render.Files {
	content := map[string][]byte{}
	for _, name := range files.Below("") {
		content[path.Join(chartMount, name)], _ = files.Get(name)
	}
	return render.NewFiles(content)
}

func (c *Comparison) compare(
	applied []*unstructured.Unstructured, after map[string]*unstructured.Unstructured, namespace string, substitution *render.Substitution,
) {
	before := map[string]*unstructured.Unstructured{}
	for _, o := range applied {
		before[identity(o, namespace)] = o
	}
	for key, o := range before {
		next, isKept := after[key]
		if !isKept {
			c.Differences = append(c.Differences, Difference{Change: Removed, Object: Describe(o)})
			continue
		}
		if fields := differences(o, next, substitution); len(fields) > 0 {
			c.Differences = append(c.Differences, Difference{Change: Changed, Object: Describe(o), Fields: fields})
			continue
		}
		c.Same++
	}
	for key, o := range after {
		if _, isKnown := before[key]; !isKnown {
			c.Differences = append(c.Differences, Difference{Change: Added, Object: Describe(o)})
		}
	}
	slices.SortFunc(c.Differences, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Change, b.Change), strings.Compare(a.Object, b.Object))
	})
	slices.Sort(c.Hooks)
}

// identity identifies an object in a comparison.
func identity(o *unstructured.Unstructured, namespace string) string {
	return strings.Join([]string{o.GroupVersionKind().Group, o.GetKind(), namespaceOf(o, namespace), o.GetName()}, "\n")
}

// Describe names an object for people, such as "Deployment.apps shop/web".
func Describe(o *unstructured.Unstructured) string {
	name := cmp.Or(o.GetName(), o.GetGenerateName()+"*")
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + "/" + name
	}
	return o.GroupVersionKind().GroupKind().String() + " " + name
}

// differences returns what differs between two objects, the first fields at most.
func differences(before, after *unstructured.Unstructured, substitution *render.Substitution) []string {
	d := differ{isSecret: before.GetKind() == "Secret", mask: substitution.Mask}
	a, b := plain(before), plain(after)
	for _, tree := range []map[string]any{a, b} {
		if metadata, ok := tree["metadata"].(map[string]any); ok {
			delete(metadata, "namespace") // compared already
		}
	}
	d.compare("", a, b)
	if more := len(d.found) - maxFields; more > 0 {
		return append(d.found[:maxFields], fmt.Sprintf("and %d more", more))
	}
	return d.found
}

// plain returns an object as encoding/json decodes it, so that equal numbers are equal.
func plain(o *unstructured.Unstructured) map[string]any {
	text, err := json.Marshal(o.Object)
	if err != nil {
		return o.Object // it was decoded from JSON or YAML, so it can be encoded
	}
	var tree map[string]any
	if json.Unmarshal(text, &tree) != nil {
		return o.Object
	}
	return tree
}

// differ collects the differing fields of one object.
type differ struct {
	isSecret bool
	mask     func(string) string
	found    []string
}

func (d *differ) compare(at string, before, after any) {
	a, isMap := before.(map[string]any)
	b, areMaps := after.(map[string]any)
	if isMap && areMaps {
		for _, name := range slices.Sorted(maps.Keys(union(a, b))) {
			d.compare(strings.TrimPrefix(at+"."+escapeName(name), "."), a[name], b[name])
		}
		return
	}
	list, isList := before.([]any)
	other, areLists := after.([]any)
	if isList && areLists && len(list) == len(other) {
		for i := range list {
			d.compare(fmt.Sprintf("%s[%d]", at, i), list[i], other[i])
		}
		return
	}
	if !reflect.DeepEqual(before, after) {
		d.found = append(d.found, fmt.Sprintf("%s: %s -> %s", at, d.show(at, before), d.show(at, after)))
	}
}

func union(a, b map[string]any) map[string]bool {
	all := map[string]bool{}
	for name := range a {
		all[name] = true
	}
	for name := range b {
		all[name] = true
	}
	return all
}

// show returns a value for people, or "(none)". The values of Secrets, and the secrets of the
// service, are masked.
func (d *differ) show(at string, value any) string {
	if value == nil {
		return "(none)"
	}
	if d.isSecret && (strings.HasPrefix(at, "data") || strings.HasPrefix(at, "stringData")) {
		return masked
	}
	text, err := json.Marshal(value)
	if err != nil {
		return masked
	}
	shown := d.mask(string(text))
	if len(shown) > maxValue {
		shown = strings.ToValidUTF8(shown[:maxValue], "") + "…"
	}
	return shown
}
