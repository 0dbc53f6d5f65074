// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package parameter

import (
	"context"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/leatdev/leat/internal/kit/fielderr"
)

const (
	// maxTexts bounds the texts with parameters of one tree.
	maxTexts = 1024
	// MaxTotal bounds all texts with parameters of one tree once they are filled in, in bytes: each
	// cluster adds them to the memory of the hub.
	MaxTotal = 256 << 10
)

// Tree is a value, some of whose texts have parameters. It is immutable and safe for concurrent use.
type Tree[T any] struct {
	root T
	// texts are those with parameters, in the order of the value, so that those below one part are side
	// by side.
	texts []field
}

// field is a text of a tree.
type field struct {
	path []step
	name string
	text *Text
}

// step leads into a struct, a slice or a map with texts for keys. Pointers and interfaces take no step.
type step struct {
	index int    // of a field or an item
	key   string // of a map
}

// NewTree compiles the parameters in the texts of a value with a parser: of structs, pointers,
// interfaces, slices and maps with texts for keys. Fields have the names that they have in JSON,
// and fields that JSON leaves out have no parameters. mayHold reports whether the text of a field,
// such as sources[0].path, may have some. The value must not change afterwards. Errors are
// *fielderr.Error.
func NewTree[T any](parser *Parser, value T, mayHold func(field string) bool) (*Tree[T], error) {
	c := collector{parser: parser, mayHold: mayHold}
	if err := c.collect(reflect.ValueOf(value), nil, ""); err != nil {
		return nil, err
	}
	return &Tree[T]{root: value, texts: c.texts}, nil
}

// collector finds the texts with parameters of a value.
type collector struct {
	parser  *Parser
	mayHold func(field string) bool
	texts   []field
}

func (c *collector) collect(value reflect.Value, path []step, name string) error {
	switch value.Kind() { //nolint:exhaustive // the others hold no texts
	case reflect.Pointer, reflect.Interface:
		if value.IsNil() {
			return nil
		}
		return c.collect(value.Elem(), path, name)
	case reflect.Struct:
		return c.collectStruct(value, path, name)
	case reflect.Slice:
		for i := range value.Len() {
			if err := c.collect(value.Index(i), append(slices.Clone(path), step{index: i}), name+"["+strconv.Itoa(i)+"]"); err != nil {
				return err
			}
		}
	case reflect.Map:
		keys := value.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			if err := c.collect(value.MapIndex(key), append(slices.Clone(path), step{key: key.String()}), below(name, key.String())); err != nil {
				return err
			}
		}
	case reflect.String:
		return c.add(value.String(), path, name)
	}
	return nil
}

func (c *collector) collectStruct(value reflect.Value, path []step, name string) error {
	for i := range value.NumField() {
		declared := value.Type().Field(i)
		inJSON, _, _ := strings.Cut(declared.Tag.Get("json"), ",")
		if !declared.IsExported() || inJSON == "-" {
			continue
		}
		at := name
		switch {
		case inJSON != "":
			at = below(name, inJSON)
		case !declared.Anonymous:
			at = below(name, declared.Name)
		}
		if err := c.collect(value.Field(i), append(slices.Clone(path), step{index: i}), at); err != nil {
			return err
		}
	}
	return nil
}

// below returns the name of a part.
func below(name, part string) string {
	if name == "" {
		return part
	}
	return name + "." + part
}

func (c *collector) add(text string, path []step, name string) error {
	if !IsIn(text) {
		return nil
	}
	if !c.mayHold(name) {
		return fielderr.New(name, "may hold no parameter %s … %s", opening, closing)
	}
	if len(c.texts) == maxTexts {
		return fielderr.New(name, "is one of more than %d texts with parameters", maxTexts)
	}
	compiled, err := c.parser.Parse(text)
	if err != nil {
		return fielderr.New(name, "%s", err)
	}
	c.texts = append(c.texts, field{path: path, name: name, text: compiled})
	return nil
}

// IsPlain reports whether no text of the tree has parameters.
func (t *Tree[T]) IsPlain() bool { return len(t.texts) == 0 }

// IsPlainBelow reports whether no text below a field has parameters.
func (t *Tree[T]) IsPlainBelow(name string) bool {
	return !slices.ContainsFunc(t.texts, func(f field) bool { return strings.HasPrefix(f.name, name+".") })
}

// Fill returns the texts with parameters for a cluster, in the order of the tree. Errors are
// *fielderr.Error.
func (t *Tree[T]) Fill(ctx context.Context, facts map[string]any) ([]string, error) {
	filled, total := make([]string, len(t.texts)), 0
	for i, f := range t.texts {
		var err error
		if filled[i], err = f.text.Fill(ctx, facts); err != nil {
			return nil, fielderr.New(f.name, "%w", err)
		}
		if total += len(filled[i]); total > MaxTotal {
			return nil, fielderr.New(f.name, "the texts with parameters have more than %d bytes together; keep parameters in short texts", MaxTotal)
		}
	}
	return filled, nil
}

// Samples returns an example for each text with parameters.
func (t *Tree[T]) Samples() []string {
	samples := make([]string, len(t.texts))
	for i, f := range t.texts {
		samples[i] = f.text.Sample()
	}
	return samples
}

// With returns the value with other texts in place of those with parameters, in the order of the tree. It
// shares every part without parameters with the tree, so it must not be changed.
func (t *Tree[T]) With(texts []string) T {
	if t.IsPlain() {
		return t.root
	}
	made := t.root
	reflect.ValueOf(&made).Elem().Set(with(reflect.ValueOf(t.root), t.texts, texts, 0))
	return made
}

// with returns a copy of a part in which texts replace fields. Their paths have depth steps behind
// them.
func with(part reflect.Value, fields []field, texts []string, depth int) reflect.Value {
	made := reflect.New(part.Type()).Elem()
	switch part.Kind() { //nolint:exhaustive // paths lead through these alone
	case reflect.Pointer:
		made.Set(reflect.New(part.Type().Elem()))
		made.Elem().Set(with(part.Elem(), fields, texts, depth))
		return made
	case reflect.Interface:
		made.Set(with(part.Elem(), fields, texts, depth))
		return made
	case reflect.String:
		made.SetString(texts[0])
		return made
	case reflect.Struct:
		made.Set(part)
	case reflect.Slice:
		made.Set(reflect.MakeSlice(part.Type(), part.Len(), part.Len()))
		reflect.Copy(made, part)
	case reflect.Map:
		made.Set(reflect.MakeMapWithSize(part.Type(), part.Len()))
		for entries := part.MapRange(); entries.Next(); {
			made.SetMapIndex(entries.Key(), entries.Value())
		}
	}
	for len(fields) > 0 {
		next := fields[0].path[depth]
		count := 1
		for count < len(fields) && fields[count].path[depth] == next {
			count++
		}
		replace(made, next, func(below reflect.Value) reflect.Value { return with(below, fields[:count], texts[:count], depth+1) })
		fields, texts = fields[count:], texts[count:]
	}
	return made
}

// replace puts something else in the place that a step leads to.
func replace(within reflect.Value, at step, other func(reflect.Value) reflect.Value) {
	switch within.Kind() { //nolint:exhaustive // steps lead into these alone
	case reflect.Struct:
		within.Field(at.index).Set(other(within.Field(at.index)))
	case reflect.Slice:
		within.Index(at.index).Set(other(within.Index(at.index)))
	case reflect.Map:
		key := reflect.ValueOf(at.key).Convert(within.Type().Key())
		within.SetMapIndex(key, other(within.MapIndex(key)))
	}
}
