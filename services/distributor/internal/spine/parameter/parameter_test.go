// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package parameter_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/services/distributor/internal/spine/parameter"
)

func facts() map[string]any {
	return map[string]any{"name": "berlin", "labels": map[string]any{"region": "eu"}}
}

func TestFill(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want, problem string }{
		{text: "", want: ""},
		{text: "plain ${VAR} {{ .Values.a }} $ {", want: "plain ${VAR} {{ .Values.a }} $ {"},
		{text: "${{ self.name }}", want: "berlin"},
		{text: "a-${{self.name}}-${{ self.labels.region }}-z", want: "a-berlin-eu-z"},
		{text: "${{ self.name == 'berlin' ? '}}' : \"{{\" }}!", want: "}}!"},
		{text: "${{ 'it\\'s }}' }}", want: "it's }}"},
		{text: "$${{ self.name }}", want: "${{ self.name }}"},
		{text: "${{ self.labels.zone }}", problem: "self.labels.zone"},
		{text: "${{ self.labels }}", problem: "another type than the expression expects"},
		{text: "${{ self.name", problem: "has no }} after it"},
		{text: "${{ 1 }}", problem: "should make a text"},
		{text: "${{ }}", problem: "empty"},
		{text: "${{ other.name }}", problem: "the only variable is self"},
	} {
		parsed, err := parameter.Parse(c.text)
		got := ""
		if err == nil {
			got, err = parsed.Fill(t.Context(), facts())
		}
		switch {
		case c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)):
			t.Errorf("%s: got %q, %v, want an error with %q", c.text, got, err, c.problem)
		case c.problem == "" && (err != nil || got != c.want):
			t.Errorf("%s: got %q, %v, want %q", c.text, got, err, c.want)
		}
	}
}

// TestSecParametersAreBounded attacks with expressions that cost much, or make much.
func TestSecParametersAreBounded(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"time":   "${{ lists.range(100000).map(i, lists.range(100000).size()).size() > 0 ? 'a' : 'b' }}",
		"memory": strings.Repeat("${{ self.long }}", 30),
	} {
		parsed, err := parameter.Parse(text)
		if err != nil {
			t.Fatal(name, err)
		}
		if got, err := parsed.Fill(t.Context(), map[string]any{"long": strings.Repeat("x", parameter.MaxResult/4)}); err == nil {
			t.Errorf("%s: got %d bytes, want an error", name, len(got))
		}
	}
	if _, err := parameter.Parse(strings.Repeat("${{ self.name }}", 33)); err == nil {
		t.Error("got no error for a text with too many parameters")
	}
}

// TestTextsWithoutParametersStay holds for any text in which no parameter begins.
func TestTextsWithoutParametersStay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.ReplaceAll(rapid.String().Draw(t, "text"), "${{", "")
		parsed, err := parameter.Parse(text)
		if err != nil || parsed.Sample() != text {
			t.Fatalf("%q: got %v", text, err)
		}
		if got, err := parsed.Fill(t.Context(), nil); err != nil || got != text {
			t.Fatalf("got %q, %v, want %q", got, err, text)
		}
	})
}
