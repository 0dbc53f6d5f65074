// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wasm

import (
	"time"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
)

// Limited returns a Renderer that shares the compiled modules of another one, and has other limits.
func (r *Renderer) Limited(memory uint64, most time.Duration) *Renderer {
	return &Renderer{modules: r.modules, limits: limits{memory: memory, time: most}}
}

// Compiled returns the number of modules that are kept.
func (r *Renderer) Compiled() int {
	r.modules.mu.Lock()
	defer r.modules.mu.Unlock()
	return len(r.modules.compiled)
}

// MaxCompiled is the most modules that are kept.
const MaxCompiled = maxCompiled

// Decode reads the standard output of a module that ended well.
func Decode(text []byte) ([]render.Document, error) {
	s := &sandbox{output: &output{}, errors: &tail{}}
	s.output.text.Write(text)
	in := render.StepInput{Limits: render.Limits{}.WithDefaults()}
	output, err := NewRenderer().output(in, renderstep.WASMOptions{Module: "m.wasm"}, s, render.Asked{}, nil)
	return output.Documents, err
}
