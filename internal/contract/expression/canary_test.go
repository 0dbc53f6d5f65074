// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package expression_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/expression"
)

const canary = "hunter2-Canary"

// cage is an object that has the canary in every place: in keys, in values, and in numbers of its
// own.
func cage() map[string]any {
	return map[string]any{
		"apiVersion": canary, "kind": canary, canary: canary,
		"metadata": map[string]any{"name": canary, "generation": int64(7), "labels": map[string]any{canary: canary}},
		"data":     map[string]any{"key": canary, canary: canary, "number": "4711.0815", "date": "2026-13-99T" + canary},
		"spec":     map[string]any{"list": []any{canary, canary + "(", int64(47110815), nil}, "number": int64(47110815), "ratio": 4711.0815},
		"status":   map[string]any{"conditions": []any{map[string]any{"type": canary, "status": canary, "message": canary, "reason": canary}}},
	}
}

// sentence matches each text that an error of an evaluation may have.
var sentence = func() *regexp.Regexp {
	var causes []string
	for _, cause := range []error{
		expression.ErrMissing, expression.ErrType, expression.ErrArithmetic, expression.ErrValue, expression.ErrTooExpensive,
	} {
		causes = append(causes, regexp.QuoteMeta(cause.Error()))
	}
	return regexp.MustCompile(`^(line \d+, column \d+: )?(` + strings.Join(causes, "|") + `)$`)
}()

// checkQuotesNothing evaluates source, and fails if an error is more than a position and a sentence.
// It returns the error.
func checkQuotesNothing(t interface{ Errorf(string, ...any) }, source string, o map[string]any) error {
	for _, kind := range []expression.Kind{expression.Bool, expression.Text} {
		e, err := expression.Compile(source, kind)
		if err != nil {
			continue // quotes the source at most: there was no object
		}
		if kind == expression.Bool {
			_, err = e.Holds(context.Background(), o)
		} else {
			_, err = e.Text(context.Background(), o)
		}
		if err == nil {
			continue
		}
		if text := err.Error(); !sentence.MatchString(text) || strings.Contains(text, canary) {
			t.Errorf("got %q, want a position and a fixed sentence for %s", text, source)
		}
		for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
			if strings.Contains(inner.Error(), canary) {
				t.Errorf("got %q inside of the error, want nothing of the object for %s", inner, source)
			}
		}
		return err
	}
	return nil
}

// quoting are expressions for which CEL itself quotes an operand.
var quoting = map[string]error{
	"'x'.matches(self.data.key + '(')":                      expression.ErrValue,
	"timestamp(self.data.key) > timestamp(0)":               expression.ErrValue,
	"timestamp(self.data.date) > timestamp(0)":              expression.ErrValue,
	"duration(self.data.key) > duration('1s')":              expression.ErrValue,
	"int(self.data.key) == 1":                               expression.ErrValue,
	"uint(self.data.key) == 1u":                             expression.ErrValue,
	"double(self.data.key) == 1.0":                          expression.ErrValue,
	"bool(self.data.key)":                                   expression.ErrValue,
	"int(self.data.number) == 1":                            expression.ErrValue,
	"{'a': 1}[self.data.key] == 1":                          expression.ErrMissing,
	"self[self.data.key + 'x'] == 1":                        expression.ErrMissing,
	"self.spec.list[self.spec.number] == 1":                 expression.ErrMissing,
	"self.data.key.charAt(self.spec.number) == ''":          expression.ErrMissing,
	"self.data.key.substring(self.spec.number) == ''":       expression.ErrMissing,
	"self.data.key.format([1]) == self.data.key + '1'":      nil,
	"('%d' + self.data.key).format([self.data.key])":        expression.ErrValue,
	"('%' + self.data.key).format([self.data.key])":         expression.ErrValue,
	"base64.decode(self.data.key) == b''":                   expression.ErrValue,
	"quantity(self.data.key).isInteger()":                   expression.ErrValue,
	"quantity(self.data.number).asInteger() == 1":           expression.ErrValue,
	"regex.replace('x', self.data.key + '(', '')":           expression.ErrValue,
	"regex.extract('x', '(' + self.data.key).value() == ''": expression.ErrValue,
	"lists.range(self.spec.number).size() == 1":             expression.ErrValue,
	"self.data.key + self.spec.number == ''":                expression.ErrType,
	"self.data.key":                                         expression.ErrType,
	"self.spec.number / 0 == 1":                             expression.ErrArithmetic,
	"self.spec.number * 9223372036854775807 > 0":            expression.ErrArithmetic,
}

// TestSecErrorsQuoteNoInput guards what an expression may read against the readers of its errors.
func TestSecErrorsQuoteNoInput(t *testing.T) {
	t.Parallel()
	for source, want := range quoting {
		err := checkQuotesNothing(t, source, cage())
		if want != nil && !errors.Is(err, want) {
			t.Errorf("got %v, want %v of %s", err, want, source)
		}
		if want != nil && err == nil {
			t.Errorf("got no error, want %v of %s", want, source)
		}
	}
}

func TestErrorsHaveAPosition(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"true &&\n  self.status.lost == 1":                 "line 2, column 14: the object has no such field",
		"timestamp(self.data.key) > timestamp(0)":          "line 1, column 10: a function does not accept a value that it is given",
		"1 == 1 && 5 / (self.spec.number - 47110815) == 1": "line 1, column 13: a calculation overflows, or divides by zero",
	} {
		if err := checkQuotesNothing(t, source, cage()); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestSecErrorsOfAnyExpressionQuoteNoInput tries expressions that a grammar makes.
func TestSecErrorsOfAnyExpressionQuoteNoInput(t *testing.T) {
	t.Parallel()
	o, failures := cage(), 0
	rapid.Check(t, func(t *rapid.T) {
		source := operand(3).Draw(t, "expression")
		if checkQuotesNothing(t, source, o) != nil || checkQuotesNothing(t, source+" == ''", o) != nil {
			failures++
		}
	})
	if failures == 0 {
		t.Error("no expression failed, so nothing was tested")
	}
}

// leaves, calls and pairs are the grammar: %s stands for an operand.
var (
	leaves = []string{
		"self", "self.data", "self.data.key", "self.data.number", "self.data.date", "self.spec.list", "self.spec.number", "self.spec.ratio",
		"self.metadata.labels", "self.status", "self.kind", "self.lost", "self.?lost", "'x'", "'('", "'%d'", "0", "-1", "9223372036854775807", "1.5",
		"null", "true", "b'x'", "{'a': 1}", "['a']",
	}
	calls = []string{
		"int(%s)", "uint(%s)", "double(%s)", "bool(%s)", "string(%s)", "bytes(%s)", "timestamp(%s)", "duration(%s)", "dyn(%s)", "type(%s)",
		"quantity(%s)", "quantity(%s).asInteger()", "base64.decode(%s)", "base64.encode(bytes(%s))", "size(%s)", "math.abs(%s)", "lists.range(%s)",
		"%s.lowerAscii()", "%s.reverse()", "%s.sort()", "%s.flatten()", "%s.first()", "%s.value()", "%s.map(x, int(x))", "%s.all(k, v, timestamp(v) > timestamp(0))",
		"%s.getHours()", "-(%s)", "!(%s)", "optional.of(%s).value()", "%s.condition('Ready')", "%s.deeper",
	}
	pairs = []string{
		"%s + %s", "%s - %s", "%s * %s", "%s / %s", "%s %% %s", "%s < %s", "%s == %s", "%s in %s", "%s && %s", "%s || %s", "%s[%s]", "%s[?%s].value()",
		"%s.matches(%s)", "%s.split(%s)", "%s.format([%s])", "%s.charAt(%s)", "%s.substring(%s)", "%s.join(%s)", "%s.startsWith(%s)", "%s.isTrue(%s)",
		"regex.extract(%s, %s)", "regex.replace(%s, %s, 'x')", "math.greatest(%s, %s)", "sets.contains(%s, %s)", "{%s: %s}", "[%s, %s]",
		"%s.isGreaterThan(%s)", "true ? %s : %s", "%s.lastIndexOf(%s)", "%s.slice(0, %s)",
	}
)

func operand(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if depth == 0 {
			return rapid.SampledFrom(leaves).Draw(t, "leaf")
		}
		forms := slices.Concat(leaves, calls, pairs)
		form := rapid.SampledFrom(forms).Draw(t, "form")
		switch strings.Count(form, "%s") {
		case 0:
			return form
		case 1:
			return fmt.Sprintf(form, "("+operand(depth-1).Draw(t, "only")+")")
		default:
			return fmt.Sprintf(form, "("+operand(depth-1).Draw(t, "left")+")", "("+operand(depth-1).Draw(t, "right")+")")
		}
	})
}

func FuzzSecErrorsQuoteNoInput(f *testing.F) {
	for source := range quoting {
		f.Add(source)
	}
	o := cage()
	f.Fuzz(func(t *testing.T, source string) { _ = checkQuotesNothing(t, source, o) })
}

// TestSecExpressionsSeeNoSecret tries to read the content of a Secret, and what tools copy of it.
func TestSecExpressionsSeeNoSecret(t *testing.T) {
	t.Parallel()
	o := map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
		"metadata": map[string]any{
			"name": "db", "labels": map[string]any{"app": "db"},
			"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": `{"data":{"key":"` + canary + `"}}`},
		},
		"data": map[string]any{"key": canary}, "stringData": map[string]any{"key": canary},
	}
	for source, want := range map[string]string{
		"self.data.key":       expression.Blanked,
		"self.stringData.key": expression.Blanked,
		"self.data.map(k, k + '=' + self.data[k]).join(',')":                       "key=" + expression.Blanked,
		"self.metadata.annotations.map(k, self.metadata.annotations[k]).join(',')": expression.Blanked,
		"self.metadata.name + self.metadata.labels.app + self.type":                "dbdbOpaque",
	} {
		got, err := compile(t, source, expression.Text).Text(t.Context(), o)
		if err != nil || got != want {
			t.Errorf("got %q, %v, want %q of %s", got, err, want, source)
		}
	}
	if o["data"].(map[string]any)["key"] != canary {
		t.Error("the evaluation changed the object")
	}
	o["data"] = canary
	if got, err := compile(t, "self.data", expression.Text).Text(t.Context(), o); err != nil || got != expression.Blanked {
		t.Errorf("got %q, %v, want %q of data that is no map", got, err, expression.Blanked)
	}
}
