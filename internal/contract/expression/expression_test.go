// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package expression_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/util/json"

	"github.com/leatdev/leat/internal/contract/expression"
)

const pump = `{
	"apiVersion": "mill.test/v1", "kind": "Pump",
	"metadata": {"name": "a", "generation": 3, "labels": {"side": "left"}, "creationTimestamp": "2026-01-02T03:04:05Z"},
	"spec": {"replicas": 2, "size": "1500Mi", "wheels": ["b", "a"], "every": "90s", "suspend": false},
	"status": {
		"ready": 2, "ratio": 0.5, "observedGeneration": 3, "phase": "Turning", "nothing": null,
		"conditions": [
			{"type": "Ready", "status": "True", "reason": "Turns", "message": "it turns", "observedGeneration": 3},
			{"type": "Wet", "status": "False", "reason": "Dry", "message": "no water"},
			{"type": "Old", "status": "True", "reason": "Past", "message": "was so", "observedGeneration": 2}
		],
		"parents": [{"name": "x", "conditions": [{"type": "Accepted", "status": "True"}]}]
	}
}`

func object(t testing.TB, content string) map[string]any {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(content), &fields); err != nil { // as client-go reads objects: whole numbers are int64
		t.Fatal(err)
	}
	return fields
}

func compile(t testing.TB, source string, kind expression.Kind) *expression.Expression {
	t.Helper()
	e, err := expression.Compile(source, kind)
	if err != nil {
		t.Fatalf("got %v for %s, want an expression", err, source)
	}
	return e
}

func TestHolds(t *testing.T) {
	t.Parallel()
	o := object(t, pump)
	for source, want := range map[string]bool{
		"self.status.ready == self.spec.replicas":                                           true,
		"self.status.ready >= self.spec.replicas + 1":                                       false,
		"self.status.ratio < 1 && self.status.ready > 1.5":                                  true,
		"has(self.status.lost)":                                                             false,
		"has(self.status.ready) && !has(self.other)":                                        true,
		"self.?status.?lost.orValue('none') == 'none'":                                      true,
		"self.status[?'ready'].hasValue()":                                                  true,
		"self.status.nothing == null":                                                       true,
		"self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')":         true,
		"self.status.conditions.all(c, c.status == 'True')":                                 false,
		"self.status.conditions.exists_one(c, c.type == 'Wet')":                             true,
		"self.status.conditions.filter(c, c.status == 'True').map(c, c.type).size() == 2":   true,
		"self.metadata.labels.exists(k, k == 'side')":                                       true,
		"self.metadata.labels.all(k, v, k.size() == v.size())":                              true,
		"self.metadata.?labels['side'].orValue('') in ['left', 'right']":                    true,
		"'a' in self.spec.wheels && self.spec.wheels.sort() == ['a', 'b']":                  true,
		"self.status.phase.lowerAscii().startsWith('turn')":                                 true,
		"self.status.phase.matches('^T[a-z]+$')":                                            true,
		"self.spec.wheels.join('+') == 'b+a'":                                               true,
		"'%s has %d'.format([self.metadata.name, self.status.ready]) == 'a has 2'":          true,
		"timestamp(self.metadata.creationTimestamp) < timestamp('2026-01-03T00:00:00Z')":    true,
		"timestamp(self.metadata.creationTimestamp).getHours() == 3":                        true,
		"duration(self.spec.every) > duration('1m')":                                        true,
		"quantity(self.spec.size).isGreaterThan(quantity('1Gi'))":                           true,
		"quantity('1Gi').isLessThan(quantity('1G'))":                                        false,
		"quantity('1Gi') == quantity('1024Mi')":                                             true,
		"quantity('1').add(quantity('500m')).sub(quantity('1500m')).sign() == 0":            true,
		"quantity('3k').asInteger() == 3000 && quantity('500m').asApproximateFloat() < 0.6": true,
		"quantity('2').compareTo(quantity('10')) == -1":                                     true,
		"isQuantity('1Gi') && !isQuantity('much')":                                          true,
		"quantity('0.5').isInteger()":                                                       false,
		"math.greatest([1, self.status.ready]) == 2":                                        true,
		"sets.contains(self.spec.wheels, ['a'])":                                            true,
		"base64.decode('aGk=') == b'hi'":                                                    true,
		"cel.bind(s, self.status, s.ready == 2 && s.phase == 'Turning')":                    true,
		"self.isTrue('Ready')":                                                              true,
		"self.isFalse('Ready')":                                                             false,
		"self.isFalse('Wet')":                                                               true,
		"self.isTrue('None') || self.isFalse('None')":                                       false,
		"self.condition('None').status == 'Unknown'":                                        true,
		"self.isTrue('Old')":                                                                false, // reported for an older generation
		"self.reason('Wet') == 'Dry' && self.message('Wet') == 'no water'":                  true,
		"self.message('None') == ''":                                                        true,
		"self.status.parents.all(p, p.isTrue('Accepted'))":                                  true,
		"{'conditions': [{'type': 'A', 'status': 'True'}]}.isTrue('A')":                     true,
		"self.status.phase.isTrue('Ready')":                                                 false,
	} {
		got, err := compile(t, source, expression.Bool).Holds(t.Context(), o)
		if err != nil || got != want {
			t.Errorf("got %v, %v, want %v of %s", got, err, want, source)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	o := object(t, pump)
	for source, want := range map[string]string{
		"self.message('Ready')":             "it turns",
		"self.status.phase":                 "Turning",
		"'is ' + self.status.phase":         "is Turning",
		"string(self.status.ready) + ' of'": "2 of",
		"self.spec.suspend ? 'rests' : ''":  "",
	} {
		got, err := compile(t, source, expression.Text).Text(t.Context(), o)
		if err != nil || got != want {
			t.Errorf("got %q, %v, want %q of %s", got, err, want, source)
		}
	}
}

func TestCompileErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		source, want string
		kind         expression.Kind
	}{
		{"", "line 1, column 1: the expression is empty", expression.Bool},
		{"status.ready == 1", "line 1, column 1: undeclared reference to 'status' (in container ''); the only variable is self, the object: write self.status", expression.Bool},
		{"object.status.ready", "the object is called self", expression.Bool},
		{"true &&\n  ready", "line 2, column 3: undeclared reference to 'ready' (in container ''); the only variable is self, the object", expression.Bool},
		{"self.x ==", "line 1, column 10: Syntax error", expression.Bool},
		{"'text'", "the expression makes string, and should make true or false", expression.Bool},
		{"1 + 1", "the expression makes int, and should make a text", expression.Text},
		{"duration('soon') > duration('1s')", "invalid duration argument", expression.Bool},
		{"self.name.matches('(')", "invalid matches argument", expression.Bool},
		{"self.isTrue(1)", "found no matching overload for 'isTrue'", expression.Bool},
		{strings.Repeat("true||", 4000) + "true", "expression code point size exceeds limit", expression.Bool},
	} {
		_, err := expression.Compile(test.source, test.kind)
		if _, ok := errors.AsType[*expression.CompileError](err); !ok || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want a CompileError %q", err, test.want)
		}
	}
}

func TestEvaluationErrors(t *testing.T) {
	t.Parallel()
	o := object(t, pump)
	for source, want := range map[string]error{
		"self.status.lost == 1":                      expression.ErrMissing,
		"self.lost.deeper == 1":                      expression.ErrMissing,
		"self.status['lost'] == 1":                   expression.ErrMissing,
		"self.spec.wheels[7] == 'a'":                 expression.ErrMissing,
		"self.status.conditions.all(c, c.lost == 1)": expression.ErrMissing,
		"self.?lost.value() == 1":                    expression.ErrMissing,
		"self.status.phase":                          expression.ErrType,
		"self.status.nothing":                        expression.ErrType,
		"self.status.phase + 1 == 2":                 expression.ErrType,
		"self.status.phase.deeper == 1":              expression.ErrMissing,
		"quantity(self.status.ready).isInteger()":    expression.ErrType,
		expensive: expression.ErrTooExpensive,
	} {
		if _, err := compile(t, source, expression.Bool).Holds(t.Context(), o); !errors.Is(err, want) {
			t.Errorf("got %v, want %v of %s", err, want, source)
		}
	}
	if _, err := compile(t, "self.status.ready", expression.Text).Text(t.Context(), o); !errors.Is(err, expression.ErrType) {
		t.Errorf("got %v, want ErrType for a number as a text", err)
	}
	if _, err := compile(t, "true", expression.Bool).Text(t.Context(), o); !errors.Is(err, expression.ErrType) {
		t.Errorf("got %v, want ErrType for the text of a Bool expression", err)
	}
	if _, err := compile(t, "quantity(self.status.phase).isInteger()", expression.Bool).Holds(t.Context(), o); err == nil {
		t.Error("got no error, want one for a text that is not a quantity")
	}
}

// expensive iterates over ten million pairs.
const expensive = "lists.range(3163).all(a, lists.range(3163).all(b, a + b >= 0))"

func TestEndOfContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stopped")
	cancel(stop)
	if _, err := compile(t, expensive, expression.Bool).Holds(ctx, object(t, pump)); !errors.Is(err, stop) {
		t.Errorf("got %v, want the cause of the context's end", err)
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	e, o := compile(t, "self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')", expression.Bool), object(t, pump)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 200 {
				if got, err := e.Holds(t.Context(), o); !got || err != nil {
					t.Errorf("got %v, %v, want true", got, err)
				}
			}
		})
	}
	group.Wait()
}

func FuzzCompile(f *testing.F) {
	f.Add("self.status.ready == self.spec.replicas")
	f.Add("self.isTrue('Ready') && quantity(self.spec.size).asInteger() > 1")
	f.Add("self.status.conditions.filter(c, c.type.matches('^R'))[0].?status.orValue('') == 'True'")
	o := object(f, pump)
	f.Fuzz(func(t *testing.T, source string) {
		if e, err := expression.Compile(source, expression.Bool); err == nil {
			_, _ = e.Holds(t.Context(), o) // may fail, and must not crash
		}
	})
}

func BenchmarkHolds(b *testing.B) {
	o := object(b, pump)
	for name, source := range map[string]string{
		"word":   "self.isTrue('Ready')",
		"exists": "self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
	} {
		b.Run(name, func(b *testing.B) {
			e := compile(b, source, expression.Bool)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Holds(b.Context(), o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestSecBudgetIsShared charges every evaluation of a context to one budget, and refuses
// evaluations that exceed it.
func TestSecBudgetIsShared(t *testing.T) {
	t.Parallel()
	e, err := expression.Compile("lists.range(100).all(a, a >= 0)", expression.Bool) // some 500 units
	if err != nil {
		t.Fatal(err)
	}
	ctx, evaluated := expression.WithBudget(t.Context(), 5000), 0
	for ; evaluated < 100; evaluated++ {
		if _, err = e.Holds(ctx, nil); err != nil {
			break
		}
	}
	if !errors.Is(err, expression.ErrTooExpensive) || evaluated < 5 || evaluated > 20 {
		t.Errorf("got %v after %d evaluations, want that the budget is spent after some ten", err, evaluated)
	}
	if _, err := e.Holds(ctx, nil); !errors.Is(err, expression.ErrTooExpensive) {
		t.Errorf("got %v, want a budget that stays spent", err)
	}
	if _, err := e.Holds(t.Context(), nil); err != nil {
		t.Errorf("got %v without a budget", err)
	}
	outer := expression.WithBudget(t.Context(), 5000)
	for range 100 {
		if _, err = e.Holds(expression.WithBudget(outer, 5000), nil); err != nil {
			break
		}
	}
	if !errors.Is(err, expression.ErrTooExpensive) || !expression.IsSpent(outer) {
		t.Errorf("got %v, want that budgets within a budget are charged to it, too", err)
	}
	cheap, err := expression.CompileWithin("lists.range(100).all(a, a >= 0)", expression.Bool, 100)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cheap.Holds(t.Context(), nil); !errors.Is(err, expression.ErrTooExpensive) {
		t.Errorf("got %v, want a bound of one evaluation", err)
	}
}
