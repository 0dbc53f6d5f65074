// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"runtime/debug"
	"testing"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/renderers"
)

// FuzzAliases renders any YAML, as it is and through kustomize. The limits bound the allocations,
// however small the text is.
func FuzzAliases(f *testing.F) {
	for _, content := range bombs() {
		f.Add(content["a.yaml"] + content["kustomization.yaml"])
	}
	f.Add("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: &l {app: a}, annotations: {<<: [*l, *l]}}\n")
	debug.SetMemoryLimit(2 << 30)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 64<<10 {
			return
		}
		engine := engine{renderers.Engine(render.Limits{Text: 1 << 20})}
		for _, content := range []map[string][]byte{
			{"a.yaml": []byte(text)},
			{"kustomization.yaml": []byte("resources: [a.yaml]\n"), "a.yaml": []byte(text)},
		} {
			took := allocated(func() {
				_, _ = engine.Objects(t.Context(), render.NewFiles(content), "", renderstep.Auto, render.NewSubstitution(render.Variables{}))
			})
			const most = 1 << 30
			if took > most {
				t.Errorf("allocated %d MiB for %d bytes", took>>20, len(text))
			}
		}
	})
}
