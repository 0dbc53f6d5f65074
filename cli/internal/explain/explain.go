// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package explain finds what people can set of a service: the parameters that its manifests,
// templates and steps use, with the schema beside them, and the values of its charts.
//
// It reads files and renders nothing. A name that a template makes up while it is rendered is not
// found, and neither are values of the charts inside a chart.
package explain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/schema"
)

const (
	// maxText bounds a file that is searched. Longer ones hold data.
	maxText = 4 << 20
	// maxPlaces bounds the places of one name.
	maxPlaces = 20
)

// Setting is something that people can set.
type Setting struct {
	// Name is a parameter's name, or a value's path such as image.tag. In a path, a name that holds a
	// dot has a backslash before it.
	Name string `json:"name"`
	// Type is the type in the schema, or else of the default: string, integer, number, boolean, array,
	// object or null. Empty: unknown.
	Type string `json:"type,omitempty"`
	// Default is the default: of a parameter as text, of a value in JSON. Nil: it has none.
	Default *string `json:"default,omitempty"`
	// Where are the places that define or use it, such as deploy/a.yaml:7, at most 20: of a parameter in
	// the order of the files, of a value in the order in which they override each other.
	Where []string `json:"where"`
	// Description is in one line. Empty: it has none.
	Description string `json:"description,omitempty"`
	// IsRequired reports that a schema wants it set.
	IsRequired bool `json:"required,omitempty"`
}

// Report lists the settable values, sorted by name.
type Report struct {
	// Parameters are the parameters of the service's configuration.
	Parameters []Setting `json:"parameters"`
	// Values are the values of charts, by the chart's folder. The root is ".".
	Values map[string][]Setting `json:"values,omitempty"`
}

// Tree adds what can be set of one tree of a service. The origin of several trees precedes places.
func (r *Report) Tree(in render.Input, origin string) error {
	t := tree{report: r, in: in, origin: origin, found: map[string]*Setting{}}
	for _, s := range r.Parameters {
		t.found[s.Name] = &s
	}
	if err := t.schema(); err != nil {
		return err
	}
	steps := slices.Clone(in.Steps)
	folders := make([]string, len(steps))
	for i, step := range steps {
		folder, err := in.Files.Folder(cmp.Or(step.Path, in.Folder))
		if err != nil {
			return err
		}
		steps[i].Renderer, folders[i] = render.Detect(in.Files, folder, step.Renderer), folder
	}
	substituted := renderstep.Substituted(steps)
	for i, step := range steps {
		if err := t.step(i, step, folders[i], substituted[i]); err != nil {
			return err
		}
	}
	r.Parameters = []Setting{}
	for _, name := range slices.Sorted(maps.Keys(t.found)) {
		r.Parameters = append(r.Parameters, *t.found[name])
	}
	return nil
}

// tree is one tree during the search.
type tree struct {
	report *Report
	in     render.Input
	origin string
	found  map[string]*Setting
}

// place names a place in the tree.
func (t *tree) place(file string, line int) string {
	if line > 0 {
		file = fmt.Sprintf("%s:%d", file, line)
	}
	if t.origin != "" {
		file += " of " + t.origin
	}
	return file
}

// add records that a parameter is used at a place.
func (t *tree) add(name, place string) *Setting {
	s, ok := t.found[name]
	if !ok {
		s = &Setting{Name: name}
		t.found[name] = s
	}
	if len(s.Where) < maxPlaces && !slices.Contains(s.Where, place) {
		s.Where = append(s.Where, place)
	}
	return s
}

// use records references. The first default that is found is shown, if a schema has none.
func (t *tree) use(references []render.Reference, place func(render.Reference) string) {
	for _, reference := range references {
		s := t.add(reference.Name, place(reference))
		if reference.HasDefault && s.Default == nil {
			s.Default = &reference.Default
		}
	}
}

// schema adds the parameters of the schema beside the manifests.
func (t *tree) schema() error {
	file := path.Join(t.in.Folder, render.SchemaFile)
	text, ok := t.in.Files.Get(file)
	if !ok {
		return nil
	}
	if len(text) > render.MaxSchema {
		return &render.LimitError{Path: file, Limit: render.LimitBytes, Message: "the schema has more than 256 KiB"}
	}
	fields, err := schema.Fields(render.SchemaFile, text)
	if err != nil {
		return &render.Error{Path: file, Cause: err}
	}
	for _, field := range fields {
		if len(field.Path) > 1 {
			continue // parameters are texts
		}
		s := t.add(field.Path[0], t.place(file, 0))
		s.Type, s.Description, s.IsRequired = field.Type, field.Description, field.IsRequired
		if field.Default != "" {
			s.Default = textOf(field.Default)
		}
	}
	return nil
}

// textOf returns the text of a default in JSON: parameters are texts.
func textOf(encoded string) *string {
	var text string
	if json.Unmarshal([]byte(encoded), &text) != nil {
		text = encoded
	}
	return &text
}

// named finds the parameters that templates of languages name: leat.config.NAME, and
// configuration.NAME in Liquid.
var named = regexp.MustCompile(`\b(?:leat\.config|configuration)\.([A-Za-z_][A-Za-z0-9_]*)`)

// step adds what one step uses.
func (t *tree) step(number int, step renderstep.Step, folder string, isSubstituted bool) error {
	t.options(number, step)
	below := folder
	switch step.Renderer {
	case renderstep.Helm:
		if err := t.chart(number, folder, step.Helm); err != nil {
			return err
		}
	case renderstep.Jsonnet, renderstep.CUE, renderstep.Liquid:
		t.templates(map[renderstep.Renderer][]string{
			renderstep.Jsonnet: {".jsonnet", ".libsonnet"}, renderstep.CUE: {".cue"}, renderstep.Liquid: {".liquid"},
		}[step.Renderer])
	case renderstep.Kustomize:
		below = "" // resources can be anywhere
	case renderstep.Plain, renderstep.WASM, renderstep.Auto:
	}
	if !isSubstituted || step.Renderer.ProducesText() {
		return nil // what templates make is not in the files
	}
	for _, file := range t.in.Files.Below(below) {
		if text, ok := t.text(file); ok && (step.Renderer == renderstep.Kustomize || isManifest(file)) {
			t.use(render.ManifestReferences(text), func(r render.Reference) string { return t.place(file, r.Line) })
		}
	}
	return nil
}

func isManifest(file string) bool {
	return path.Base(file) != render.SchemaFile && slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(file))
}

// text returns a file that is text.
func (t *tree) text(file string) ([]byte, bool) {
	text, ok := t.in.Files.Get(file)
	return text, ok && len(text) <= maxText && utf8.Valid(text)
}

// templates adds the parameters that files with these endings name.
func (t *tree) templates(endings []string) {
	for _, file := range t.in.Files.Below("") {
		text, ok := t.text(file)
		if !ok || !slices.Contains(endings, path.Ext(file)) {
			continue
		}
		line, last := 1, 0
		for _, at := range named.FindAllSubmatchIndex(text, -1) {
			line += strings.Count(string(text[last:at[0]]), "\n")
			last = at[0]
			t.add(string(text[at[2]:at[3]]), t.place(file, line))
		}
	}
}

// options adds the parameters that the options of a step use.
func (t *tree) options(number int, step renderstep.Step) {
	at := fmt.Sprintf("spec.render[%d].", number)
	texts := func(field string, all map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			t.use(render.References(all[name]), func(render.Reference) string { return at + field + "." + name })
		}
	}
	if step.Helm != nil {
		texts("helm.parameters", step.Helm.Parameters)
		t.value(at+"helm.values", step.Helm.Values)
	}
	if step.Jsonnet != nil {
		texts("jsonnet.arguments", step.Jsonnet.Arguments)
	}
	if step.CUE != nil {
		texts("cue.tags", step.CUE.Tags)
	}
	if step.WASM != nil {
		t.value(at+"wasm.config", step.WASM.Config)
	}
}

// value adds the parameters that a free value of a step's options uses.
func (t *tree) value(at string, value any) {
	switch v := value.(type) {
	case string:
		t.use(render.References(v), func(render.Reference) string { return at })
	case []any:
		for i, item := range v {
			t.value(fmt.Sprintf("%s[%d]", at, i), item)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			t.value(at+"."+name, v[name])
		}
	}
}
