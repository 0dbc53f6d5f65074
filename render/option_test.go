// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/render"
)

func TestOptionsAreExpanded(t *testing.T) {
	t.Parallel()
	variables := &render.Variables{
		Values:  map[string]string{"TAG": "1.10", "COUNT": "3", "ON": "true", "TRAP": "${TAG}"},
		Secrets: map[string]string{"PASSWORD": "hunter2"},
	}
	given := map[string]any{
		"image": "web:${TAG}", "version": "${TAG}", "count": "${COUNT}", "on": "${ON}", "text": "x${ON}", "none": nil, "number": 7.5, "kept": "$${TAG}",
		"trap": "${TRAP}", "list": []any{"${PASSWORD}", map[string]any{"${TAG}": "${OTHER:-b}"}},
	}
	want := map[string]any{
		"image": "web:1.10", "version": "1.10", "count": int64(3), "on": true, "text": "xtrue", "none": nil, "number": 7.5, "kept": "${TAG}",
		"trap": "${TAG}", "list": []any{"hunter2", map[string]any{"${TAG}": "b"}},
	}
	got, err := variables.Expand("wasm.config", given)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Expand (-want +got):\n%s", diff)
	}
	if given["image"] != "web:${TAG}" {
		t.Errorf("the given value changed: %v", given)
	}
	texts, err := variables.ExpandTexts("jsonnet.arguments", map[string]string{"count": "${COUNT}", "on": "${ON}"})
	if diff := cmp.Diff(map[string]string{"count": "3", "on": "true"}, texts); diff != "" || err != nil {
		t.Errorf("ExpandTexts: %v (-want +got):\n%s", err, diff)
	}
}

func TestOptionsWithoutVariablesStay(t *testing.T) {
	t.Parallel()
	var none *render.Variables
	if got, err := none.Expand("f", "${A"); got != "${A" || err != nil {
		t.Errorf("Expand: got %v, %v", got, err)
	}
	if got, err := none.ExpandTexts("f", map[string]string{"a": "${A}"}); got["a"] != "${A}" || err != nil {
		t.Errorf("ExpandTexts: got %v, %v", got, err)
	}
}

func TestOptionsWithoutValueAreErrors(t *testing.T) {
	t.Parallel()
	variables := &render.Variables{Values: map[string]string{"BIG": strings.Repeat("x", 1<<20)}}
	for name, test := range map[string]struct {
		value any
		want  string
	}{
		"missing":  {map[string]any{"a": []any{"${NONE}"}}, "f.a[0]: the step's options: the service's configuration has no variable NONE"},
		"no name":  {"${1}", "f: ${1} is not a variable"},
		"too much": {strings.Repeat("${BIG}", 17), "f: grows too large by its variables"},
	} {
		_, err := variables.Expand("f", test.value)
		if problem := new(render.Error); !errors.As(err, &problem) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, test.want)
		}
	}
	_, err := variables.ExpandTexts("f", map[string]string{"a": "${NONE}"})
	if missing := new(render.VariableError); !errors.As(err, &missing) {
		t.Errorf("got %v, want a VariableError", err)
	}
}
