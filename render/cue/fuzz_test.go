// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cue_test

import (
	"errors"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/cue"
)

// FuzzPrograms evaluates short programs twice. Errors are of the content, and results are equal.
// The standard library, which makes large values, is left out: only the worker bounds them.
func FuzzPrograms(f *testing.F) {
	for _, test := range cases {
		f.Add(test.files["a.cue"])
	}
	debug.SetMemoryLimit(2 << 30)
	f.Fuzz(func(t *testing.T, program string) {
		if len(program) > 512 || strings.Contains(program, "import") || strings.Contains(program, "*\"") || strings.ContainsRune(program, '\'') {
			return
		}
		defer func() {
			// The Engine turns panics of the library into errors of the content.
			if failure := recover(); failure != nil {
				t.Logf("panic: %v", failure)
			}
		}()
		in := input(map[string]string{"cue.mod/module.cue": module, "a.cue": program}, "", nil)
		in.Limits.Text = 1 << 20
		first, err := cue.Renderer{}.RenderStep(t.Context(), in)
		problem, limit := new(render.Error), new(render.LimitError)
		if err != nil && !errors.As(err, &problem) && !errors.As(err, &limit) {
			t.Fatalf("got %v, want an error about the content", err)
		}
		second, _ := cue.Renderer{}.RenderStep(t.Context(), in)
		if diff := cmp.Diff(first.Documents, second.Documents); diff != "" {
			t.Errorf("another render (-first +second):\n%s", diff)
		}
	})
}
