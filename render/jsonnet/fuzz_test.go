// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package jsonnet_test

import (
	"bytes"
	"errors"
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/jsonnet"
)

// FuzzImports imports any path from any folder, with any library path. An imported file is one of
// the tree, and every error is one of the content.
func FuzzImports(f *testing.F) {
	for _, seed := range []string{"x", "../x", "/etc/passwd", "a/../../x", "./vendor/x", "", "..", ".", "x\x00y", `x\..\y`, "\xff"} {
		f.Add(seed, "env", "vendor")
		f.Add("x", seed, seed)
	}
	inside := []byte(`{kind: 'A'}`)
	f.Fuzz(func(t *testing.T, target, folder, library string) {
		var quoted bytes.Buffer
		for _, r := range target {
			if r < ' ' || r == '\'' || r == '\\' {
				return
			}
			quoted.WriteRune(r)
		}
		in := input(nil, folder, &renderstep.JsonnetOptions{File: "main.jsonnet", LibraryPaths: []string{library}})
		content := map[string][]byte{"x": inside, "vendor/x": inside, "env/x": inside}
		main := []byte(`import '` + quoted.String() + `'`)
		for _, name := range []string{"main.jsonnet", "env/main.jsonnet"} {
			content[name] = main
		}
		in.Files = render.NewFiles(content)
		got, err := jsonnet.Renderer{}.RenderStep(t.Context(), in)
		check(t, got, err)
		for _, document := range got.Documents {
			if string(document.Text) != "{\"kind\":\"A\"}\n" {
				t.Errorf("imported something that is not in the tree: %s", document.Text)
			}
		}
	})
}

// FuzzPrograms evaluates short programs without loops twice: what the library does not bound is left
// out.
func FuzzPrograms(f *testing.F) {
	for _, test := range cases {
		f.Add(test.files["main.jsonnet"])
	}
	debug.SetMemoryLimit(2 << 30)
	f.Fuzz(func(t *testing.T, program string) {
		for _, unbounded := range []string{"local", "function", "for", "std.", "import", "self", "$", "super", "**", "<<"} {
			if len(program) > 1<<10 || bytes.Contains([]byte(program), []byte(unbounded)) {
				return
			}
		}
		in := input(map[string]string{"main.jsonnet": program}, "", nil)
		got, err := jsonnet.Renderer{}.RenderStep(t.Context(), in)
		check(t, got, err)
		again, _ := jsonnet.Renderer{}.RenderStep(t.Context(), in)
		if diff := cmp.Diff(got, again); diff != "" {
			t.Errorf("another render (-first +second):\n%s", diff)
		}
	})
}

// check expects an error of the content, or success.
func check(t *testing.T, got render.StepOutput, err error) {
	t.Helper()
	problem, limit := new(render.Error), new(render.LimitError)
	if err != nil && !errors.As(err, &problem) && !errors.As(err, &limit) {
		t.Errorf("got %v, want an error about the content", err)
	}
	if err != nil && len(got.Documents) > 0 {
		t.Errorf("documents beside the error %v", err)
	}
}
