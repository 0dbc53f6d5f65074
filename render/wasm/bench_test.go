// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wasm_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/wasm"
)

// BenchmarkDeployments labels 200 Deployments with the Go example: with a compiled module, and with
// one that is compiled first.
func BenchmarkDeployments(b *testing.B) {
	in := input(b, exampleModule, nil)
	for i := range 200 {
		in.Previous = append(in.Previous, render.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": fmt.Sprintf("web-%d", i), "labels": map[string]any{"app": "web"}},
			"spec": map[string]any{"replicas": int64(2), "template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
				"name": "app", "image": "registry.example/app:1.2.3", "args": []any{"serve", "--port=8080"},
				"env": []any{map[string]any{"name": "LEVEL", "value": "info"}},
			}}}}},
		}}})
	}
	render := func(b *testing.B, r *wasm.Renderer) {
		b.Helper()
		if got, err := r.RenderStep(b.Context(), in); err != nil || len(got.Documents) != 201 {
			b.Fatalf("%d documents, %v", len(got.Documents), err)
		}
	}
	b.Run("compiled", func(b *testing.B) {
		render(b, renderer)
		b.ReportAllocs()
		for b.Loop() {
			render(b, renderer)
		}
	})
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			fresh := wasm.NewRenderer()
			render(b, fresh)
			if err := fresh.Close(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
