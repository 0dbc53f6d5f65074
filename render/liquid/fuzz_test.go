// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package liquid_test

import (
	"errors"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/liquid"
)

// FuzzTemplates renders short templates twice. Errors are of the content, results are equal, and
// nothing outside of the tree is read. Captures and nested loops are left out: only the worker
// bounds them.
func FuzzTemplates(f *testing.F) {
	for _, template := range language {
		f.Add(template)
	}
	for _, name := range ofPlural {
		f.Add("{{ 'a' | " + name + " }}")
		f.Add("{{ configuration | " + name + ": 'a', cluster }}")
	}
	debug.SetMemoryLimit(2 << 30)
	f.Fuzz(func(t *testing.T, template string) {
		if len(template) > 1<<10 || strings.Contains(template, "capture") || strings.Contains(template, "..") || strings.Count(template, "for") > 2 {
			return
		}
		ctx := await.Context(t)
		in := input(map[string]string{"a.txt.liquid": template, "b": "{{ service.name }}"}, "")
		in.Limits.Text = 1 << 20
		first, err := liquid.Renderer{}.RenderStep(ctx, in)
		problem, limit := new(render.Error), new(render.LimitError)
		if err != nil && !errors.As(err, &problem) && !errors.As(err, &limit) {
			t.Fatalf("got %v, want an error about the content", err)
		}
		second, _ := liquid.Renderer{}.RenderStep(ctx, in)
		if diff := cmp.Diff(first.Files, second.Files); diff != "" && !strings.Contains(template, "forloop") {
			t.Errorf("another render (-first +second):\n%s", diff)
		}
	})
}
