// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package expression_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/leatdev/leat/internal/contract/expression"
)

// objects are some that differ in ways that expressions may or may not see.
func objects() []map[string]any {
	labels := func(pairs ...string) map[string]any {
		made := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			made[pairs[i]] = pairs[i+1]
		}
		return made
	}
	return []map[string]any{
		{},
		{"labels": labels()},
		{"labels": "text"},
		{"labels": nil},
		{"name": "a"},
		{"name": ""},
		{"name": 1},
		{"name": "a", "labels": labels("region", "eu")},
		{"name": "b", "labels": labels("region", "eu")},
		{"name": "b", "labels": labels("region", "us")},
		{"name": "b", "labels": labels("region", "")},
		{"name": "b", "labels": labels("tier", "eu")},
		{"name": "b", "labels": labels("region", "eu", "tier", "a")},
		{"labels": map[string]any{"region": map[string]any{"name": "eu"}}},
		{"labels": map[string]any{"region": 1}},
		{"labels": map[string]any{"region": true}},
		{"name": "eu", "labels": labels("region", "b")},
		{"name": "b0 2 eu", "labels": labels()},
	}
}

// sources read self in many ways.
var sources = map[expression.Kind][]string{
	expression.Bool: {
		"self.labels.region == 'eu'", "has(self.labels.region)", "has(self.labels) && self.name != 'b'", "self.name == 'b' || self.labels.region == 'eu'",
		"self.labels['region'] == 'eu'", "'region' in self.labels", "self.?labels.?region.orValue('none') == 'none'", "size(self) > 1",
		"['a', 'b'].exists(self, self == 'b')", "['a', 'b'].exists(n, n == self.name)", "true", "self == {}", "self.labels.all(key, key != 'none')",
		"has(self.labels.region) ? self.labels.region == self.name : has(self.name)", "self.labels.region.name == 'eu'", "self.labels.region > 0",
	},
	expression.Text: {
		"self.name", "self.labels.region + self.name", "self.name + '-' + self.labels.region", "has(self.name) ? self.name : 'none'", "'fixed'", "string(self.name)",
	},
}

// evaluate returns what an expression makes of an object within a budget, and how many cheap evaluations the rest of
// the budget is enough for.
func evaluate(t *testing.T, e *expression.Expression, kind expression.Kind, object map[string]any, units uint64) string {
	t.Helper()
	ctx := expression.WithBudget(t.Context(), units)
	var value any
	var err error
	if kind == expression.Bool {
		value, err = e.Holds(ctx, object)
	} else {
		value, err = e.Text(ctx, object)
	}
	left := 0
	for e := mustCompile(t, "true", expression.Bool); !expression.IsSpent(ctx); left++ {
		if _, err := e.Holds(ctx, nil); err != nil || left > 15 {
			break
		}
	}
	if errors.Is(err, expression.ErrTooExpensive) {
		value = nil
	}
	return fmt.Sprint(value, " ", err, " left ", left)
}

func mustCompile(t *testing.T, source string, kind expression.Kind) *expression.Expression {
	t.Helper()
	e, err := expression.Compile(source, kind)
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	return e
}

// TestRememberedResultsAreThoseOfAnEvaluation evaluates each expression for each object after each other one,
// with budgets that are and are not enough, beside one that remembers nothing.
func TestRememberedResultsAreThoseOfAnEvaluation(t *testing.T) {
	t.Parallel()
	for kind, all := range sources {
		for _, source := range all {
			plain := mustCompile(t, source, kind)
			for _, first := range objects() {
				remembering := plain.Remembering()
				evaluate(t, remembering, kind, first, 30)
				for _, units := range []uint64{2, 12} {
					for _, object := range objects() {
						want, got := evaluate(t, plain, kind, object, units), evaluate(t, remembering, kind, object, units)
						if got != want {
							t.Errorf("%s of %v with %d units, after %v: got %s, want %s", source, object, units, first, got, want)
						}
					}
				}
			}
		}
	}
}

// TestRememberingSavesEvaluations requires that an expression is evaluated once for objects that are alike in what
// it reads, and that one whose results all differ stops to remember them.
func TestRememberingSavesEvaluations(t *testing.T) {
	t.Parallel()
	e := mustCompile(t, "self.labels.region", expression.Text).Remembering()
	text := func(name, region string) string {
		t.Helper()
		got, err := e.Text(t.Context(), map[string]any{"name": name, "labels": map[string]any{"region": region}})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := text("a", "eu"); got != "eu" || e.Remembered() != 1 {
		t.Errorf("got %q and %d results", got, e.Remembered())
	}
	e.Forge("forged")
	if got := text("b", "eu"); got != "forged" {
		t.Errorf("got %q for an object that is alike, want what is remembered", got)
	}
	if got := text("b", "us"); got != "us" {
		t.Errorf("got %q for another one", got)
	}
	for i := range 5000 {
		text("a", fmt.Sprint(i))
	}
	if got := text("a", "eu"); got != "eu" || e.Remembered() != 0 {
		t.Errorf("got %q and %d results remembered of 5000 that differ, want none", got, e.Remembered())
	}
}

// TestSecRememberedIsSmall evaluates an expression of one field that makes a long text of it, and one of a long field.
func TestSecRememberedIsSmall(t *testing.T) {
	t.Parallel()
	for source, name := range map[string]string{
		"self.name + self.name + self.name + self.name + self.name": strings.Repeat("x", 60),
		"string(size(self.name))":                                   strings.Repeat("x", 300),
	} {
		e := mustCompile(t, source, expression.Text).Remembering()
		if _, err := e.Text(t.Context(), map[string]any{"name": name}); err != nil || e.Remembered() != 0 {
			t.Errorf("%s: %d results are remembered of a long text (%v)", source, e.Remembered(), err)
		}
		if _, err := e.Text(t.Context(), map[string]any{"name": "x"}); err != nil || e.Remembered() != 1 {
			t.Errorf("%s: %d results are remembered of a short text (%v)", source, e.Remembered(), err)
		}
	}
}

// TestRememberingIsSafeForConcurrentUse is for the race detector.
func TestRememberingIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	e := mustCompile(t, "self.name", expression.Text).Remembering()
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 500 {
				want := fmt.Sprint((i * (g + 1)) % 1500)
				if got, err := e.Text(t.Context(), map[string]any{"name": want}); got != want || err != nil {
					t.Errorf("got %q, %v, want %q", got, err, want)
				}
			}
		})
	}
	all.Wait()
}
