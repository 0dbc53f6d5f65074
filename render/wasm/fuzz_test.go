// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wasm_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/wasm"
)

// FuzzResponses reads what a module may write. Errors are of the content.
func FuzzResponses(f *testing.F) {
	for _, seed := range []string{
		"", "{", "{" + header + "}", "{" + header + `,"items":[{"kind":"A"}]}`, "{" + header + `,"items":[[]],"results":[{"message":"a"}]}`, "a: &a [*a]",
		"kind: ResourceList\napiVersion: config.kubernetes.io/v1\nitems: [{kind: A, metadata: {annotations: {config.kubernetes.io/path: a}}}]",
		"{" + header + `,"items":[{"kind":"A","metadata":[],"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}]}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		documents, err := wasm.Decode([]byte(text))
		problem, limit := new(render.Error), new(render.LimitError)
		if err != nil && !errors.As(err, &problem) && !errors.As(err, &limit) || err != nil && documents != nil {
			t.Errorf("got %v and %v, want an error about the content", documents, err)
		}
	})
}

// FuzzModules compiles and runs any bytes.
func FuzzModules(f *testing.F) {
	magic := []byte("\x00asm\x01\x00\x00\x00")
	f.Add(magic)
	for _, code := range [][]byte{{0, 0x0b}, {0, 0x03, 0x40, 0x0c, 0, 0x0b, 0x0b}, {0, 0x41, 0x7f, 0x40, 0, 0x1a, 0x0b}, {0, 0x10, 0, 0x0b}, {0, 0x00, 0x0b}} {
		f.Add(concat(magic, section(1, 1, 0x60, 0, 0), section(3, 1, 0), section(5, 1, 0, 1),
			section(7, 1, 6, '_', 's', 't', 'a', 'r', 't', 0, 0), section(10, append([]byte{1, byte(len(code))}, code...)...)))
	}
	bounded := wasm.NewRenderer().Limited(16<<20, 100*time.Millisecond)
	f.Fuzz(func(t *testing.T, binary []byte) {
		in := render.StepInput{Step: renderstep.Step{WASM: &renderstep.WASMOptions{Module: "m.wasm"}}}
		in.Files = render.NewFiles(map[string][]byte{"m.wasm": binary})
		_, err := bounded.RenderStep(t.Context(), in)
		problem, limit := new(render.Error), new(render.LimitError)
		if !errors.As(err, &problem) && !errors.As(err, &limit) {
			t.Errorf("got %v, want an error about the content", err)
		}
	})
}
