// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cue_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/cue"
)

// TestSecCUEReadsTheTreeAlone embeds and imports what exists outside of the tree.
func TestSecCUEReadsTheTreeAlone(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/leat"); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the folder that the library takes for the tree: got %v, want that it does not exist", err)
	}
	for _, program := range []string{
		`objects: _ @embed(file="/etc/passwd",type=text)`, `objects: _ @embed(file="../../../etc/passwd",type=text)`,
		`objects: _ @embed(file="a/../../../../etc/passwd",type=text)`, `objects: _ @embed(glob="../*",type=text)`, `objects: _ @embed(glob="/etc/*",type=text)`,
		`objects: _ @embed(file="cue_test.go",type=text)`,
		"import \"tool/os\"\nobjects: {kind: \"A\", e: os.Getenv & {PATH: string}}", "import \"tool/exec\"\nobjects: {kind: \"A\", e: exec.Run & {cmd: \"id\", stdout: string}}",
		"import \"tool/file\"\nobjects: {kind: \"A\", e: file.Read & {filename: \"/etc/passwd\", contents: string}}",
		"import \"tool/http\"\nobjects: {kind: \"A\", e: http.Get & {url: \"http://127.0.0.1\", response: body: string}}",
		"import \"../../etc\"\nobjects: kind: \"A\"", "import \"/etc\"\nobjects: kind: \"A\"", "import \"other.example/x\"\nobjects: kind: \"A\"",
		"h: string @tag(h,var=hostname)\nobjects: {kind: \"A\", x: h}", "n: string @tag(n,var=now)\nobjects: {kind: \"A\", x: n}",
	} {
		in := input(map[string]string{"cue.mod/module.cue": module, "e/a.cue": "@extern(embed)\n\npackage a\n\n" + program}, "e", nil)
		got, err := cue.Renderer{}.RenderStep(t.Context(), in)
		if problem := new(render.Error); !errors.As(err, &problem) {
			t.Errorf("%s: got %+v, %v, want an error", program, got, err)
		}
	}
}

// TestSecCUEIsBounded attacks what the library and the renderer bound. The worker bounds the rest;
// docs/guides/renderers.md lists it.
func TestSecCUEIsBounded(t *testing.T) {
	t.Parallel()
	deep := "kind: \"A\""
	for range 150 {
		deep = "a: {" + deep + "}"
	}
	for name, test := range map[string]struct {
		program string
		want    render.Limit // empty: an *Error
	}{
		"a structural cycle":    {"#L: {n: #L}\nobjects: #L", ""},
		"mutual recursion":      {"a: {b: c}\nc: {d: a}\nobjects: a", ""},
		"a reference to itself": {"objects: n: objects.n + 1", ""},
		"an import of itself":   {"import \"example.com/shop/e:a\"\nobjects: a.objects", ""},
		"a large result":        {"import \"strings\"\nobjects: {kind: \"A\", s: strings.Repeat(\"x\", 600000), t: s}", render.LimitText},
		"many objects":          {"import \"list\"\nobjects: list.Repeat([{kind: \"A\"}], 101)", render.LimitObjects},
		"a deep result":         {"objects: {" + deep + "}", render.LimitDepth},
		"many errors":           {"objects: {" + strings.Repeat("a: 1 & 2, ", 5000) + "}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input(map[string]string{"cue.mod/module.cue": module, "e/a.cue": "package a\n" + test.program}, "e", nil)
			in.Limits = render.Limits{Text: 1 << 20, Objects: 100}
			_, err := cue.Renderer{}.RenderStep(t.Context(), in)
			limit, problem := new(render.LimitError), new(render.Error)
			if test.want == "" && !errors.As(err, &problem) || test.want != "" && (!errors.As(err, &limit) || limit.Limit != test.want) {
				t.Errorf("got %v, want a limit %q", err, test.want)
			} else if len(err.Error()) > 5<<10 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
		})
	}
}
