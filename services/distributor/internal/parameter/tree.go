// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package parameter

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/leatdev/leat/internal/fielderr"
)

// Tree is the JSON of a value, some of whose texts have parameters. It is immutable and safe for
// concurrent use.
type Tree struct {
	root any
	// texts are those with parameters, in the order of the document.
	texts []field
}

// field is a text of a tree.
type field struct {
	path []any // keys of objects and indices of lists
	name string
	text *Text
}

// maxTexts bounds the texts with parameters of one tree.
const maxTexts = 1024

// NewTree compiles the parameters in the texts of a value. mayHold reports whether the text of a field,
// such as sources[0].path, may have parameters. Errors are *fielderr.Error.
func NewTree(value any, mayHold func(field string) bool) (*Tree, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode template: %w", err)
	}
	t := &Tree{}
	if !bytes.Contains(text, []byte(opening)) {
		return t, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // as it was written
	if err := decoder.Decode(&t.root); err != nil {
		return nil, fmt.Errorf("decode template: %w", err)
	}
	return t, t.collect(t.root, nil, "", mayHold)
}

func (t *Tree) collect(node any, path []any, name string, mayHold func(string) bool) error {
	switch n := node.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(n)) {
			below := key
			if name != "" {
				below = name + "." + key
			}
			if err := t.collect(n[key], append(slices.Clone(path), key), below, mayHold); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range n {
			if err := t.collect(item, append(slices.Clone(path), i), name+"["+strconv.Itoa(i)+"]", mayHold); err != nil {
				return err
			}
		}
	case string:
		return t.add(n, path, name, mayHold)
	}
	return nil
}

func (t *Tree) add(text string, path []any, name string, mayHold func(string) bool) error {
	if !IsIn(text) {
		return nil
	}
	if !mayHold(name) {
		return fielderr.New(name, "may hold no parameter %s … %s", opening, closing)
	}
	if len(t.texts) == maxTexts {
		return fielderr.New(name, "is one of more than %d texts with parameters", maxTexts)
	}
	compiled, err := Parse(text)
	if err != nil {
		return fielderr.New(name, "%s", err)
	}
	t.texts = append(t.texts, field{path: path, name: name, text: compiled})
	return nil
}

// IsPlain reports whether no text has parameters: every cluster then has the value itself.
func (t *Tree) IsPlain() bool { return len(t.texts) == 0 }

// Fill returns the texts with parameters for a cluster, in the order of the tree. Errors are
// *fielderr.Error.
func (t *Tree) Fill(ctx context.Context, facts map[string]any) ([]string, error) {
	filled := make([]string, len(t.texts))
	for i, f := range t.texts {
		var err error
		if filled[i], err = f.text.Fill(ctx, facts); err != nil {
			return nil, fielderr.New(f.name, "%s", err)
		}
	}
	return filled, nil
}

// Samples returns an example for each text with parameters.
func (t *Tree) Samples() []string {
	samples := make([]string, len(t.texts))
	for i, f := range t.texts {
		samples[i] = f.text.Sample()
	}
	return samples
}

// Decode writes the tree, with other texts in place of those with parameters, into value. The tree must
// not be plain.
func (t *Tree) Decode(texts []string, value any) error {
	text, err := json.Marshal(filled(t.root, t.texts, texts, 0))
	if err != nil {
		return fmt.Errorf("encode filled template: %w", err)
	}
	if err := json.Unmarshal(text, value); err != nil {
		return fmt.Errorf("decode filled template: %w", err)
	}
	return nil
}

// filled returns a copy of a node in which texts stand in the places that paths lead to. The paths have
// depth steps behind them.
func filled(node any, fields []field, texts []string, depth int) any {
	switch n := node.(type) {
	case map[string]any:
		next := make(map[string]any, len(n))
		for key, value := range n {
			below, own := through(key, fields, texts, depth)
			next[key] = filled(value, below, own, depth+1)
		}
		return next
	case []any:
		next := make([]any, len(n))
		for i, value := range n {
			below, own := through(i, fields, texts, depth)
			next[i] = filled(value, below, own, depth+1)
		}
		return next
	case string:
		if len(fields) == 1 {
			return texts[0]
		}
	}
	return node
}

// through returns the fields whose path takes the step, with their texts.
func through(step any, fields []field, texts []string, depth int) (below []field, own []string) {
	for i, f := range fields {
		if f.path[depth] == step {
			below, own = append(below, f), append(own, texts[i])
		}
	}
	return below, own
}
