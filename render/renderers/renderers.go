// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package renderers links every kind of step that Leat can carry out.
package renderers

import (
	"maps"
	"slices"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/cue"
	"github.com/leatdev/leat/render/helm"
	"github.com/leatdev/leat/render/jsonnet"
	"github.com/leatdev/leat/render/kustomize"
	"github.com/leatdev/leat/render/liquid"
	"github.com/leatdev/leat/render/schema"
	"github.com/leatdev/leat/render/wasm"
)

// Engine returns an engine with every renderer, which keeps what its renderers have compiled. It
// runs in the calling process, which must be limited from outside if it renders untrusted content.
func Engine(limits render.Limits) *render.Engine {
	return &render.Engine{Renderers: all(), Parameters: schema.Parameters{}, Limits: limits}
}

// Kinds returns the renderers of the engine besides plain, sorted.
func Kinds() []renderstep.Renderer { return slices.Sorted(maps.Keys(all())) }

func all() map[renderstep.Renderer]render.StepRenderer {
	return map[renderstep.Renderer]render.StepRenderer{
		renderstep.CUE:       cue.Renderer{},
		renderstep.Helm:      helm.Renderer{},
		renderstep.Jsonnet:   jsonnet.Renderer{},
		renderstep.Kustomize: kustomize.Renderer{},
		renderstep.Liquid:    liquid.Renderer{},
		renderstep.WASM:      wasm.NewRenderer(),
	}
}
