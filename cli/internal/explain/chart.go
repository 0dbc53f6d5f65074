// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/schema"
)

const (
	// maxValues bounds the values of one chart that are listed.
	maxValues = 5000
	// maxDepth bounds how deeply values are nested.
	maxDepth = 32
)

// chart adds the values of the chart in a folder: the values of its values.yaml, the ones that only
// its schema names, and where the step's files and options set them.
func (t *tree) chart(number int, folder string, options *renderstep.HelmOptions) error {
	c := chart{tree: t, byName: map[string]*Setting{}}
	file := path.Join(folder, "values.yaml")
	if text, ok := t.in.Files.Get(file); ok {
		if err := c.file(file, text, true); err != nil {
			return err
		}
	}
	file = path.Join(folder, "values.schema.json")
	if text, ok := t.in.Files.Get(file); ok && (options == nil || !options.SkipSchema) {
		if err := c.schema(file, text); err != nil {
			return err
		}
	}
	if options != nil {
		if err := c.layers(fmt.Sprintf("spec.render[%d].helm.", number), options); err != nil {
			return err
		}
	}
	slices.SortFunc(c.values, func(a, b *Setting) int { return cmp.Compare(a.Name, b.Name) })
	if t.report.Values == nil {
		t.report.Values = map[string][]Setting{}
	}
	at := t.place(cmp.Or(folder, "."), 0)
	t.report.Values[at] = []Setting{}
	for _, value := range c.values {
		t.report.Values[at] = append(t.report.Values[at], *value)
	}
	return nil
}

// chart is one chart during the search.
type chart struct {
	tree   *tree
	values []*Setting
	byName map[string]*Setting
}

func (c *chart) add(name, place string) *Setting {
	s, ok := c.byName[name]
	if !ok && len(c.values) < maxValues {
		s = &Setting{Name: name}
		c.byName[name] = s
		c.values = append(c.values, s)
	}
	if s == nil {
		return &Setting{} // past the limit
	}
	if place != "" && len(s.Where) < maxPlaces && !slices.Contains(s.Where, place) {
		s.Where = append(s.Where, place)
	}
	return s
}

// layers adds where a step sets values, in the order in which they override each other.
func (c *chart) layers(at string, options *renderstep.HelmOptions) error {
	for _, name := range options.ValuesFiles {
		file, mayBeMissing := strings.CutSuffix(name, "?")
		text, ok := c.tree.in.Files.Get(file)
		if !ok && mayBeMissing {
			continue
		}
		if !ok {
			return &render.Error{Path: file, Cause: errors.New("no such file in the bundle; see the step's valuesFiles")}
		}
		if err := c.file(file, text, false); err != nil {
			return err
		}
	}
	c.set(nil, at+"values", options.Values)
	for _, name := range slices.Sorted(maps.Keys(options.Parameters)) {
		c.add(name, at+"parameters."+name)
	}
	return nil
}

// set adds the leaves of the values in a step.
func (c *chart) set(above []string, place string, fields map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		at, place := append(slices.Clone(above), name), place+"."+name
		if below, ok := fields[name].(map[string]any); ok && len(below) > 0 && len(at) < maxDepth {
			c.set(at, place, below)
			continue
		}
		c.add(nameOf(at), place)
	}
}

// file adds the values of a file: as defaults if the file is the chart's own. Aliases are not
// followed.
func (c *chart) file(file string, text []byte, areDefaults bool) error {
	if len(text) > maxText {
		return &render.LimitError{Path: file, Limit: render.LimitBytes, Message: "the values have more than 4 MiB"}
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil && !errors.Is(err, io.EOF) {
		return &render.Error{Path: file, Cause: err}
	}
	if len(document.Content) == 0 {
		return nil
	}
	if document.Content[0].Kind != yaml.MappingNode {
		return &render.Error{Path: file, Cause: errors.New("holds no map of values")}
	}
	c.fields(file, nil, document.Content[0], areDefaults)
	return nil
}

// fields adds the leaves below a map: scalars, lists, and maps without fields.
func (c *chart) fields(file string, above []string, fields *yaml.Node, areDefaults bool) {
	for i := 0; i+1 < len(fields.Content); i += 2 {
		key, value := fields.Content[i], fields.Content[i+1]
		at := append(slices.Clone(above), key.Value)
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 && len(at) < maxDepth {
			c.fields(file, at, value, areDefaults)
			continue
		}
		s := c.add(nameOf(at), c.tree.place(file, key.Line))
		if !areDefaults {
			continue
		}
		s.Type, s.Default = typeOf(value), defaultOf(value)
		s.Description = comment(cmp.Or(key.HeadComment, key.LineComment, value.LineComment))
	}
}

// nameOf returns a value's path in the syntax of --set.
func nameOf(at []string) string {
	names := make([]string, len(at))
	for i, name := range at {
		names[i] = strings.ReplaceAll(name, ".", `\.`)
	}
	return strings.Join(names, ".")
}

// typeOf returns the type of a default, by its name in a schema.
func typeOf(value *yaml.Node) string {
	switch value.Kind {
	case yaml.MappingNode:
		return "object"
	case yaml.SequenceNode:
		return "array"
	case yaml.ScalarNode:
		return map[string]string{"!!str": "string", "!!int": "integer", "!!float": "number", "!!bool": "boolean", "!!null": "null"}[value.ShortTag()]
	default:
		return ""
	}
}

// maxShown bounds a default that is shown, in bytes.
const maxShown = 1 << 10

// defaultOf returns a default in JSON. Nil: it is an alias, or too large to be shown.
func defaultOf(value *yaml.Node) *string {
	if hasAlias(value, 0) {
		return nil
	}
	var decoded any
	if err := value.Decode(&decoded); err != nil {
		return nil
	}
	text, err := json.Marshal(decoded)
	if err != nil {
		text = []byte(fmt.Sprint(decoded)) // a map whose keys are no texts
	}
	if len(text) > maxShown {
		return nil
	}
	shown := string(text)
	return &shown
}

// hasAlias reports whether a value would grow when it is decoded, or is nested deeply.
func hasAlias(value *yaml.Node, depth int) bool {
	return value.Kind == yaml.AliasNode || depth > maxDepth ||
		slices.ContainsFunc(value.Content, func(inner *yaml.Node) bool { return hasAlias(inner, depth+1) })
}

// comment returns the text of a comment in one line. The marks of helm-docs are left out.
func comment(text string) string {
	// Only the last block belongs to the value: an earlier one is about what follows together.
	if at := strings.LastIndex(text, "\n\n"); at >= 0 {
		text = text[at+2:]
	}
	var words []string
	for line := range strings.Lines(text) {
		words = append(words, strings.Fields(strings.TrimLeft(strings.TrimSpace(line), "#"))...)
	}
	return strings.TrimPrefix(strings.TrimPrefix(strings.Join(words, " "), "-- "), "@param ")
}

// schema adds the values that a schema describes.
func (c *chart) schema(file string, text []byte) error {
	fields, err := schema.Fields("values.schema.json", text)
	if err != nil {
		return &render.Error{Path: file, Cause: err}
	}
	for _, field := range fields {
		name := nameOf(field.Path)
		_, isKnown := c.byName[name]
		if !isKnown && (field.Type == "object" || c.hasBelow(name)) {
			continue // its fields are listed
		}
		place := c.tree.place(file, 0)
		if isKnown {
			place = "" // a schema sets nothing
		}
		s := c.add(name, place)
		s.Type = cmp.Or(field.Type, s.Type)
		s.Description = cmp.Or(s.Description, field.Description)
		s.IsRequired = field.IsRequired
		if s.Default == nil && field.Default != "" {
			s.Default = &field.Default
		}
	}
	return nil
}

// hasBelow reports whether a value below a path is known.
func (c *chart) hasBelow(name string) bool {
	return slices.ContainsFunc(c.values, func(s *Setting) bool { return strings.HasPrefix(s.Name, name+".") })
}
