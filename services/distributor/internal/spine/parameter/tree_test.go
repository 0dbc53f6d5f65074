// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package parameter_test

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/parameter"
)

// whole has a part of every kind that a template has.
type whole struct {
	Inlined
	Kind    word              `json:"kind"`
	Labels  map[string]string `json:"labels"`
	Items   []*item           `json:"items"`
	Values  map[string]any    `json:"values"`
	Hidden  string            `json:"-"`
	At      time.Time         `json:"at"`
	Nothing *item             `json:"nothing"`
	Lasting time.Duration
}

type Inlined struct {
	Path string `json:"path,omitempty"`
}

type word string

type item struct {
	Name  string `json:"name"`
	Below *item  `json:"below"`
}

func everywhere(string) bool { return true }

// template has parameters with the word at their places.
func template(at func(place string) string) whole {
	return whole{
		Inlined: Inlined{Path: at("path")}, Kind: word(at("kind")), Labels: map[string]string{"a": at("labels.a"), "b": "plain"},
		Items: []*item{{Name: "plain"}, {Name: at("items[1].name"), Below: &item{Name: at("items[1].below.name")}}},
		Values: map[string]any{
			"list": []any{1.0, at("values.list[1]"), nil, true}, "tree": map[string]any{"deep": at("values.tree.deep"), "same": map[string]any{"x": "y"}},
			"plain": map[string]any{"list": []any{"text"}},
		},
		Hidden: "${{ never read", At: time.Unix(7, 0), Lasting: time.Second,
	}
}

func TestTreeFillsEveryPlace(t *testing.T) {
	t.Parallel()
	given := template(func(place string) string { return "${{ self.name }} at " + place })
	tree, err := parameter.NewTree(&parameter.Parser{}, given, everywhere)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := tree.Fill(t.Context(), facts())
	if err != nil {
		t.Fatal(err)
	}
	made := tree.With(texts)
	if diff := cmp.Diff(template(func(place string) string { return "berlin at " + place }), made); diff != "" {
		t.Errorf("filled (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(template(func(place string) string { return "1 at " + place }), tree.With(tree.Samples())); diff != "" {
		t.Errorf("sample (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(template(func(place string) string { return "${{ self.name }} at " + place }), given); diff != "" {
		t.Errorf("the template changed (-want +got):\n%s", diff)
	}
	if made.Items[0] != given.Items[0] {
		t.Error("an item without parameters is held twice")
	}
	address := func(w whole, keys ...string) uintptr {
		node := any(w.Values)
		for _, key := range keys {
			node = node.(map[string]any)[key]
		}
		return reflect.ValueOf(node).Pointer()
	}
	for _, keys := range [][]string{{"plain"}, {"tree", "same"}} {
		if address(made, keys...) != address(given, keys...) {
			t.Errorf("values without parameters are held twice: %v", keys)
		}
	}
	if address(made, "tree") == address(given, "tree") {
		t.Error("values with parameters are held once")
	}
}

func TestTreeNamesFields(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"path", "kind", "labels.a", "items[1].name", "items[1].below.name", "values.list[1]", "values.tree.deep"} {
		given := template(func(at string) string {
			if at == place {
				return "${{ self.absent }}"
			}
			return "plain"
		})
		tree, err := parameter.NewTree(&parameter.Parser{}, given, everywhere)
		if err != nil {
			t.Fatal(err)
		}
		_, err = tree.Fill(t.Context(), facts())
		if e, ok := errors.AsType[*fielderr.Error](err); !ok || e.Path != place {
			t.Errorf("%s: got error %v", place, err)
		}
		top, _, _ := strings.Cut(place, ".")
		if top != place && (tree.IsPlainBelow(top) || !tree.IsPlainBelow("other") || !tree.IsPlainBelow(top[:1])) {
			t.Errorf("%s: got that the wrong field has parameters below it", place)
		}
		_, err = parameter.NewTree(&parameter.Parser{}, given, func(field string) bool { return field != place })
		if e, ok := errors.AsType[*fielderr.Error](err); !ok || e.Path != place || !strings.Contains(e.Message, "may hold no parameter") {
			t.Errorf("%s: got error %v where it may hold no parameter", place, err)
		}
	}
}

// TestSecTreesAreBounded fills many texts that are each within their bound.
func TestSecTreesAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("${{ self.long }}", 3)
	tree, err := parameter.NewTree(&parameter.Parser{}, []string{long, long, long, long, long, long}, everywhere)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tree.Fill(t.Context(), map[string]any{"long": strings.Repeat("x", parameter.MaxResult/4)})
	if e, ok := errors.AsType[*fielderr.Error](err); !ok || e.Path != "[5]" {
		t.Errorf("got error %v, want one at [5]", err)
	}
	many := make([]string, 1025)
	for i := range many {
		many[i] = "${{ self.name }}"
	}
	if _, err := parameter.NewTree(&parameter.Parser{}, many, everywhere); err == nil {
		t.Error("got no error for too many texts with parameters")
	}
}

// TestTreeFillsAnyValues compares With to a plain recursion.
func TestTreeFillsAnyValues(t *testing.T) {
	t.Parallel()
	var node func(depth int) *rapid.Generator[any]
	node = func(depth int) *rapid.Generator[any] {
		leaf := rapid.OneOf(rapid.Just(any(nil)), rapid.Bool().AsAny(), rapid.SampledFrom([]string{"a", "${{ self.name }}"}).AsAny(), rapid.Float64Range(0, 2).AsAny())
		if depth == 0 {
			return leaf
		}
		return rapid.OneOf(leaf, rapid.SliceOfN(node(depth-1), 0, 4).AsAny(),
			rapid.MapOfN(rapid.SampledFrom([]string{"x", "y", "z", "x.y"}), node(depth-1), 0, 4).AsAny())
	}
	var naive func(node any, name string) any
	naive = func(node any, name string) any {
		switch n := node.(type) {
		case string:
			return strings.ReplaceAll(n, "${{ self.name }}", name)
		case []any:
			made := make([]any, len(n))
			for i := range n {
				made[i] = naive(n[i], name)
			}
			return made
		case map[string]any:
			made := make(map[string]any, len(n))
			for key := range n {
				made[key] = naive(n[key], name)
			}
			return made
		}
		return node
	}
	rapid.Check(t, func(t *rapid.T) {
		given := map[string]any{"root": node(4).Draw(t, "value")}
		before, want := naive(given, "${{ self.name }}"), naive(given, "berlin")
		tree, err := parameter.NewTree(&parameter.Parser{}, given, everywhere)
		if err != nil {
			t.Fatal(err)
		}
		texts, err := tree.Fill(t.Context(), facts())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, any(tree.With(texts))); diff != "" {
			t.Fatalf("filled (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, any(given)); diff != "" {
			t.Fatalf("the value changed:\n%s", diff)
		}
	})
}

// TestSecParametersTogetherAreBounded refuses more parameters than all texts of one parser may have, and counts
// equal texts once.
func TestSecParametersTogetherAreBounded(t *testing.T) {
	t.Parallel()
	text := func(i int) string { return strings.Repeat("${{ self.name }}", 32) + strconv.Itoa(i) }
	var parser parameter.Parser
	var texts []string
	for i := range parameter.MaxParsed / 32 {
		texts = append(texts, text(i), text(i))
	}
	for range 2 {
		if _, err := parameter.NewTree(&parser, texts, everywhere); err != nil {
			t.Fatalf("got %v for %d parameters in different texts", err, parameter.MaxParsed)
		}
	}
	_, err := parameter.NewTree(&parser, append(texts, "${{ self.project }}"), everywhere)
	if err == nil || !strings.Contains(err.Error(), "more than 512 parameters") {
		t.Errorf("got %v, want that there are too many parameters", err)
	}
}
