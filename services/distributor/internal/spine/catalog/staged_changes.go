// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/amount"
)

// maxChanges bounds the phrases about one spec.
const maxChanges = 8

// Changes returns the differences of another staged spec, as phrases for a person. Values of charts
// and of policies are not shown: they may be long, and who may see a policy need not see them.
func (s *StagedSpec) Changes(to *StagedSpec) []string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if len(s.Sources) != len(to.Sources) {
		add("%s -> %d", amount.Of(len(s.Sources), "source"), len(to.Sources))
	} else {
		for i := range s.Sources {
			name := "source"
			if len(s.Sources) > 1 {
				name = fmt.Sprint("source ", i+1)
			}
			sourceChanges(name, s.Sources[i], to.Sources[i], add)
		}
	}
	optionChanges(ServiceSpec{Options: s.Options}.Wanted(), ServiceSpec{Options: to.Options}.Wanted(), add)
	if len(all) > maxChanges {
		all = append(all[:maxChanges], fmt.Sprintf("%d more", len(all)-maxChanges))
	}
	return all
}

func sourceChanges(name string, from, to Source, add func(string, ...any)) {
	word := "ref"
	if to.Chart != "" {
		word = "version"
	}
	a, b := from.Normal(), to.Normal()
	for _, field := range []struct{ name, from, to string }{
		{"repository", a.Repository, b.Repository},
		{word, refText(a.Ref), refText(b.Ref)},
		{"path", a.Path, b.Path},
		{"chart", a.Chart, b.Chart},
		{"mount", from.Mount, to.Mount},
	} {
		if field.from != field.to {
			add("%s %s %s -> %s", name, field.name, cmp.Or(field.from, "none"), cmp.Or(field.to, "none"))
		}
	}
	a.Repository, a.Ref, a.Path, a.Chart = b.Repository, b.Ref, b.Path, b.Chart
	if a != b {
		add("%s selection", name)
	}
}

// refText returns the ref as people name it.
func refText(r Ref) string { return cmp.Or(r.Value, "HEAD") }

// optionChanges adds a phrase for each option that differs, by its name in documents of the store.
func optionChanges(a, b syncpolicy.Options, add func(string, ...any)) {
	if a.Namespace != b.Namespace {
		add("namespace %s -> %s", a.NamespaceOrDefault(), b.NamespaceOrDefault())
	}
	if !reflect.DeepEqual(a.Render, b.Render) {
		word := "render steps"
		if reflect.DeepEqual(withoutValues(a.Render), withoutValues(b.Render)) {
			word = "values"
		}
		add("%s", word)
	}
	named := fieldChanges("policy ", a.Policy, b.Policy)
	a.Namespace, a.Render, a.Policy = b.Namespace, b.Render, b.Policy
	for _, name := range append(fieldChanges("", a, b), named...) {
		add("%s", name)
	}
}

// withoutValues returns steps without the values of charts.
func withoutValues(steps []renderstep.Step) []renderstep.Step {
	steps = slices.Clone(steps)
	for i, step := range steps {
		if step.Helm != nil {
			helm := *step.Helm
			helm.Values, helm.Parameters = nil, nil
			steps[i].Helm = &helm
		}
	}
	return steps
}

// fieldChanges returns the names in JSON of the fields of two structs that differ.
func fieldChanges[T any](prefix string, a, b T) (names []string) {
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range va.NumField() {
		if !reflect.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
			name, _, _ := strings.Cut(va.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, prefix+name)
		}
	}
	return names
}
