// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package jsonnet_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/jsonnet"
)

// TestSecJsonnetReadsTheTreeAlone imports files that exist outside of the tree.
func TestSecJsonnetReadsTheTreeAlone(t *testing.T) {
	t.Parallel()
	for _, target := range []string{
		"/etc/passwd", "../etc/passwd", "../../../../etc/passwd", "a/../../etc/passwd", "/proc/self/environ", "../../go.mod", "//etc/passwd",
	} {
		for _, kind := range []string{"import", "importstr", "importbin"} {
			in := input(map[string]string{"env/main.jsonnet": "{kind: 'A', x: " + kind + " '" + target + "'}"}, "env", nil)
			got, err := jsonnet.Renderer{}.RenderStep(t.Context(), in)
			problem := new(render.Error)
			if !errors.As(err, &problem) || !strings.Contains(err.Error(), "cannot import") {
				t.Errorf("%s %s: got %v, %v, want an error", kind, target, got, err)
			}
		}
	}
	in := input(map[string]string{"main.jsonnet": "{kind: 'A', x: std.native('env')('PATH')}"}, "", nil)
	if _, err := (jsonnet.Renderer{}).RenderStep(t.Context(), in); err == nil {
		t.Error("a native function that nobody offers can be called")
	}
}

// TestSecJsonnetIsBounded attacks what the library and the renderer bound. The worker bounds the
// rest; docs/guides/renderers.md lists it.
func TestSecJsonnetIsBounded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		program string
		want    render.Limit
	}{
		"endless recursion":   {"local f(n) = 1 + f(n + 1); {kind: 'A', n: f(0)}", render.LimitDepth},
		"an endless object":   {"{kind:: 'A', a: $}", render.LimitDepth},
		"an endless list":     {"local l = [l]; l", render.LimitDepth},
		"an import of itself": {"import 'main.jsonnet'", render.LimitDepth},
		"a field of itself":   {"{kind: 'A', x: self.x}", render.LimitDepth},
		"a deep result":       {"local f(n) = if n == 0 then {kind: 'A'} else {a: f(n - 1)}; f(150)", render.LimitDepth},
		"many objects":        {"[{kind: 'A'} for i in std.range(0, 20000)]", render.LimitObjects},
		"a large result":      {"[{kind: 'A', s: std.repeat('x', 1 << 10)} for i in std.range(1, 1024)]", render.LimitText},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input(map[string]string{"main.jsonnet": test.program}, "", nil)
			in.Limits.Text = 1 << 20
			_, err := jsonnet.Renderer{}.RenderStep(t.Context(), in)
			if limit := new(render.LimitError); !errors.As(err, &limit) || limit.Limit != test.want {
				t.Errorf("got %v, want a limit of %s", err, test.want)
			}
		})
	}
}
