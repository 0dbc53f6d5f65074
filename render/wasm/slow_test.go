// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wasm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/rendertest"
)

// TestSlowAssemblyScript builds the example in AssemblyScript with npm, and runs it.
func TestSlowAssemblyScript(t *testing.T) {
	if os.Getenv("LEAT_SLOW") == "" {
		t.Skip("set LEAT_SLOW=1, or run make slow")
	}
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("../../examples/wasm-assemblyscript")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"ci", "--no-audit", "--no-fund"}, {"run", "build"}} {
		cmd := exec.CommandContext(t.Context(), "npm", args...)
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("npm %v: %v\n%s", args, err, out)
		}
	}
	in := input(t, func() ([]byte, error) { return os.ReadFile(filepath.Join(folder, "render.wasm")) }, nil)
	in.Previous = []render.Object{{Unstructured: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "web"}, "spec": map[string]any{"ports": []any{int64(80), "é<&>\""}},
	}}}}
	got, err := renderer.RenderStep(t.Context(), in)
	want := `{"apiVersion":"v1","kind":"Service","metadata":{"labels":{"region":"eu"},"name":"web"},"spec":{"ports":[80,"é<&>\""]}}` + "\n"
	if diff := cmp.Diff(want, rendertest.Text(got.Documents)); diff != "" || err != nil {
		t.Errorf("output: %v (-want +got):\n%s", err, diff)
	}
	in.Facts = render.Facts{}
	if got, err := renderer.RenderStep(t.Context(), in); err != nil || len(got.Warnings) != 1 {
		t.Errorf("without a label: got %v, %v, want a warning", got.Warnings, err)
	}
}
