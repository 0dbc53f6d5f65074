// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package jsonnet_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/jsonnet"
	"github.com/leatdev/leat/render/rendertest"
)

// The reasons why Leat's result of a program is another one.
const (
	noVariables = "reads external variables that the library's tests set"
	noNatives   = "calls native functions that the library's tests add"
	fileName    = "shows the name of its file, which the library's tests give without its ending"
	isFunction  = "is a function, which the value of a field cannot be"
)

// ownDifferences are the programs of go-jsonnet's tests whose result is another one here on purpose.
var ownDifferences = map[string]string{
	"extvar_code": noVariables, "extvar_mutually_recursive": noVariables, "extvar_self_recursive": noVariables, "extvar_string": noVariables,
	"native1": noNatives, "native2": noNatives, "native3": noNatives, "native6": noNatives,
	"std.thisFile": fileName, "stdlib_smoke_test": fileName, "function_no_params": isFunction,
}

// TestEqualOnJsonnetsOwnPrograms evaluates the programs that go-jsonnet's module brings for its own
// tests, beside the results that it expects of them. Each is the value of a field of an object, since
// Leat makes objects. None of them is in this repository.
func TestEqualOnJsonnetsOwnPrograms(t *testing.T) {
	t.Parallel()
	tree := map[string][]byte{}
	expected := map[string][]byte{}
	for name, content := range rendertest.ReadFolder(t, filepath.Join(rendertest.Module(t, "github.com/google/go-jsonnet"), "testdata")) {
		if program, isResult := strings.CutSuffix(name, ".golden"); isResult {
			expected[program] = content
			continue
		}
		tree["testdata/"+name] = content
	}
	compared, refused := 0, 0
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		program := "testdata/" + name + ".jsonnet"
		if _, isProgram := tree[program]; !isProgram {
			continue // the result of the linter
		}
		in := input(nil, "", nil)
		in.Files = render.NewFiles(tree).With(map[string][]byte{
			"main.jsonnet": fmt.Appendf(nil, "{apiVersion: 'v1', kind: 'Result', value: import '%s'}", program),
		})
		got, err := jsonnet.Renderer{}.RenderStep(t.Context(), in)
		problem, fails := compare(got, err, expected[name])
		reason, isKnown := ownDifferences[name]
		switch {
		case problem == "" && isKnown:
			t.Errorf("%s is equal; it is listed as different: %s", name, reason)
		case problem != "" && !isKnown:
			t.Errorf("%s: %s", name, problem)
		case fails:
			refused++
		default:
			compared++
		}
	}
	if compared < 300 || refused < 150 {
		t.Errorf("compared %d results and %d failures, want 300 and 150 at least: the module's tests are written in another way", compared, refused)
	}
	t.Logf("%d results are equal, %d programs are refused by both, %d differ", compared, refused, len(ownDifferences))
}

// compare returns the difference, or "", and whether the program is expected to fail.
func compare(got render.StepOutput, err error, expected []byte) (problem string, fails bool) {
	want, isValue := decoded(expected)
	switch {
	case !isValue && err == nil:
		return fmt.Sprintf("got %s, want an error: %s", rendertest.Text(got.Documents), expected), true
	case !isValue:
		return "", true
	case err != nil:
		return fmt.Sprintf("got %v, want %s", err, expected), false
	}
	document, _ := decoded([]byte(rendertest.Text(got.Documents)))
	fields, _ := document.(map[string]any)
	return cmp.Diff(want, fields["value"]), false
}

// decoded returns a value in JSON, with its numbers as they are written. Anything else is not a value.
func decoded(text []byte) (value any, isValue bool) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err := decoder.Decode(&value)
	return value, err == nil && !decoder.More()
}
