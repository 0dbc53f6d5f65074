// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wasm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/rendertest"
	"github.com/leatdev/leat/render/wasm"
)

// renderer is shared, because compiling a module takes a second.
var renderer = wasm.NewRenderer()

func TestMain(m *testing.M) {
	code := m.Run()
	_ = renderer.Close(context.Background())
	os.Exit(code)
}

// build compiles a program of Go to a module. A test that fails first makes others fail, too.
func build(folder string) func() ([]byte, error) {
	return sync.OnceValues(func() ([]byte, error) {
		target, err := os.MkdirTemp("", "leat-wasm-*")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(target) }()
		module := filepath.Join(target, "module.wasm")
		cmd := exec.CommandContext(context.Background(), "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", module, "main.go")
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build %s: %w\n%s", folder, err, out)
		}
		return os.ReadFile(module)
	})
}

var (
	exampleModule = build("../../examples/wasm-go")
	hostileModule = build("testdata/hostile")
)

// input returns the input of a step that runs a module.
func input(t testing.TB, module func() ([]byte, error), config map[string]any) render.StepInput {
	t.Helper()
	binary, err := module()
	if err != nil {
		t.Fatal(err)
	}
	return render.StepInput{
		Input: render.Input{
			Files:     render.NewFiles(map[string][]byte{"bin/render.wasm": binary, "texts/a.txt": []byte("first"), "texts/b/c.txt": []byte("below")}),
			Variables: &render.Variables{Values: map[string]string{"TAG": "1.2", "REPLICAS": "3"}, Secrets: map[string]string{"PASSWORD": "hunter2"}},
			Facts: render.Facts{
				Cluster: render.ClusterFacts{Name: "eu-1", Labels: map[string]string{"region": "eu"}, APIVersions: []string{"v1"}},
				Service: render.ServiceFacts{Name: "shop", Namespace: "web"},
			},
			Installed: true,
		},
		Step:   renderstep.Step{Renderer: renderstep.WASM, WASM: &renderstep.WASMOptions{Module: "bin/render.wasm", Config: config}},
		Folder: "texts",
	}
}

// text runs the hostile module, and returns the text of its object.
func text(t testing.TB, in render.StepInput) (string, error) {
	t.Helper()
	got, err := renderer.RenderStep(t.Context(), in)
	if err != nil {
		return "", err
	}
	var object struct{ Data struct{ Text string } }
	if err := json.Unmarshal(got.Documents[0].Text, &object); err != nil {
		t.Fatal(err)
	}
	return object.Data.Text, nil
}

// TestExample runs the example of docs/guides/renderers.md.
func TestExample(t *testing.T) {
	t.Parallel()
	in := input(t, exampleModule, map[string]any{"prefix": "shop-"})
	in.Previous = []render.Object{{Unstructured: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "web"},
	}}}}
	got, err := renderer.RenderStep(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	_, want := rendertest.Example(t, "WebAssembly")
	if diff := cmp.Diff(want, rendertest.Text(got.Documents)); diff != "" {
		t.Errorf("output (-documented +got):\n%s", diff)
	}
	if path := got.Documents[1].Path; path != "bin/render.wasm: items[1]" {
		t.Errorf("path: got %q", path)
	}
	in.Facts = render.Facts{}
	got, err = renderer.RenderStep(t.Context(), in)
	if diff := cmp.Diff([]string{"the cluster has no label region"}, got.Warnings); diff != "" || err != nil {
		t.Errorf("warnings: %v (-want +got):\n%s", err, diff)
	}
}

func TestConform(t *testing.T) {
	t.Parallel()
	rendertest.Conform(t, renderer, input(t, hostileModule, map[string]any{"do": "machine"}))
}

// TestRequest is the contract of what a module reads.
func TestRequest(t *testing.T) {
	t.Parallel()
	in := input(t, hostileModule, map[string]any{"do": "request", "text": "v${TAG}", "count": "${REPLICAS}", "list": []any{"$${TAG}"}})
	in.Previous = []render.Object{{Unstructured: &unstructured.Unstructured{Object: map[string]any{"kind": "A", "n": int64(9007199254740993)}}}}
	request, err := text(t, in)
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, []byte(request), "", "  "); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/request.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(string(want)), indented.String()); diff != "" {
		t.Errorf("request (-testdata/request.json +got):\n%s", diff)
	}
}

// TestFunctionConfig gives an existing KRM function the configuration that it knows.
func TestFunctionConfig(t *testing.T) {
	t.Parallel()
	in := input(t, hostileModule, map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "v${TAG}"},
		"spec": map[string]any{"config": map[string]any{"do": "request"}},
	})
	request, err := text(t, in)
	want := `{"apiVersion":"config.kubernetes.io/v1","functionConfig":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"v1.2"},` +
		`"spec":{"config":{"do":"request"}}},"items":[],"kind":"ResourceList"}`
	if request != want || err != nil {
		t.Errorf("got %s, %v, want %s", request, err, want)
	}
	if got, _ := renderer.RenderStep(t.Context(), in); got.Asked != (render.Asked{}) {
		t.Errorf("asked: got %+v, want nothing: the function is given no facts", got.Asked)
	}
	in.Step.WASM.Config = map[string]any{"do": "request"}
	if got, _ := renderer.RenderStep(t.Context(), in); got.Asked != (render.Asked{Facts: true, APIVersions: true}) {
		t.Errorf("asked: got %+v, want everything that the module is given", got.Asked)
	}
}

const header = `"apiVersion":"config.kubernetes.io/v1","kind":"ResourceList"`

// TestResponse is the contract of what a module writes.
func TestResponse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		output   string
		want     string // the documents
		warnings []string
	}{
		"no items":     {output: "{" + header + "}"},
		"items":        {output: "{" + header + `,"items":[{"kind":"A","n":9007199254740993},{"kind":"B"}]}`, want: "{\"kind\":\"A\",\"n\":9007199254740993}\n{\"kind\":\"B\"}\n"},
		"white space":  {output: "\n {" + header + `,"items":[{"kind":"A"}]} ` + "\n\n", want: "{\"kind\":\"A\"}\n"},
		"YAML":         {output: "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n- {kind: A, replicas: 1}\n", want: "{\"kind\":\"A\",\"replicas\":1}\n"},
		"old version":  {output: `{"apiVersion":"config.kubernetes.io/v1beta1","kind":"ResourceList","items":[{"kind":"A"}]}`, want: "{\"kind\":\"A\"}\n"},
		"other fields": {output: "{" + header + `,"functionConfig":{"kind":"X"},"items":[{"kind":"A"}]}`, want: "{\"kind\":\"A\"}\n"},
		"annotations of functions": {
			output: "{" + header + `,"items":[{"kind":"A","metadata":{"annotations":{"config.kubernetes.io/index":"0","internal.config.kubernetes.io/path":"a","mine":"b"}}},` +
				`{"kind":"B","metadata":{"annotations":{"config.kubernetes.io/path":"a"}}}]}`,
			want: "{\"kind\":\"A\",\"metadata\":{\"annotations\":{\"mine\":\"b\"}}}\n{\"kind\":\"B\",\"metadata\":{}}\n",
		},
		"warnings": {
			output:   "{" + header + `,"results":[{"message":"a","severity":"warning"},{"message":"b","severity":"info","resourceRef":{"kind":"A","name":"x"},"field":{"path":"spec.n"}}]}`,
			warnings: []string{"a", "A x spec.n: b"},
		},
	} {
		got, err := renderer.RenderStep(t.Context(), input(t, hostileModule, map[string]any{"do": "print", "text": test.output}))
		if documents := rendertest.Text(got.Documents); documents != test.want || err != nil {
			t.Errorf("%s: got %s, %v, want %s", name, documents, err, test.want)
		}
		if diff := cmp.Diff(test.warnings, got.Warnings); diff != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", name, diff)
		}
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ do, text, want string }{
		"exit status":        {"exit", "no luck", "bin/render.wasm: the module ended with status 3; its standard error ends: "},
		"panic":              {"panic", "no luck", "bin/render.wasm: the module ended with status 2; its standard error ends: panic: no luck"},
		"no output":          {"print", "", "bin/render.wasm: standard output: is empty, want a ResourceList"},
		"a log":              {"print", "starting: [", "bin/render.wasm: standard output: is neither JSON nor YAML"},
		"a log before":       {"print", "starting\n{" + header + "}", "bin/render.wasm: standard output: is neither JSON nor YAML"},
		"a log behind":       {"print", "{" + header + "}\ndone", "bin/render.wasm: standard output: has more than one ResourceList"},
		"another kind":       {"print", `{"apiVersion":"v1","kind":"List"}`, `bin/render.wasm: standard output: is "List" of "v1", want a ResourceList of config.kubernetes.io/v1`},
		"items of no kind":   {"print", "{" + header + `,"items":[1]}`, "bin/render.wasm: standard output: is not a ResourceList"},
		"items that are not": {"print", "{" + header + `,"items":[{"a":1}]}`, "bin/render.wasm: items[0].a: is a number, want an object of Kubernetes"},
		"an error":           {"print", "{" + header + `,"results":[{"message":"too few","severity":"error","file":{"path":"texts/a.txt","line":3},"field":{"path":"spec.replicas"}},{"message":"more"}]}`, "texts/a.txt:3: spec.replicas: too few; more"},
		"no severity":        {"print", "{" + header + `,"results":[{"message":"bad"}]}`, "bin/render.wasm: bad"},
		"aliases":            {"print", "a: &a [x]\nb: *a\n", "bin/render.wasm: standard output: is neither JSON nor YAML: aliases are not allowed"},
	} {
		_, err := renderer.RenderStep(t.Context(), input(t, hostileModule, map[string]any{"do": test.do, "text": test.text}))
		if problem := new(render.Error); !errors.As(err, &problem) || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		} else if len(err.Error()) > 5<<10 {
			t.Errorf("%s: the message has %d bytes", name, len(err.Error()))
		}
	}
}

// section returns a section of a module, with its length.
func section(id byte, content ...byte) []byte {
	return append([]byte{id, byte(len(content))}, content...)
}

func concat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// TestModulesThatCannotRun are files that are not commands of WASI preview 1.
func TestModulesThatCannotRun(t *testing.T) {
	t.Parallel()
	magic := []byte("\x00asm\x01\x00\x00\x00")
	join := func(parts ...[]byte) []byte { return bytes.Join(append([][]byte{magic}, parts...), nil) }
	types := section(1, 1, 0x60, 0, 0) // one type: func()
	for name, test := range map[string]struct {
		binary []byte
		want   string
	}{
		"empty":     {nil, "m.wasm: is not a usable WebAssembly module"},
		"text":      {[]byte("(module)"), "m.wasm: is not a usable WebAssembly module"},
		"cut":       {join(types)[:10], "m.wasm: is not a usable WebAssembly module"},
		"component": {[]byte("\x00asm\x0d\x00\x01\x00"), "m.wasm: is not a usable WebAssembly module"},
		"library":   {join(types), "m.wasm: has no function _start"},
		"import":    {join(types, section(2, 1, 3, 'e', 'n', 'v', 1, 'f', 0, 0)), "m.wasm: imports env.f, which nobody offers"},
		"memory":    {join(section(2, 1, 3, 'e', 'n', 'v', 1, 'm', 2, 0, 1)), "m.wasm: imports the memory env.m, which nobody offers"},
		"too large": {make([]byte, 33<<20), "m.wasm: the module has more than 32 MiB"},
	} {
		in := render.StepInput{Step: renderstep.Step{WASM: &renderstep.WASMOptions{Module: "m.wasm"}}}
		in.Files = render.NewFiles(map[string][]byte{"m.wasm": test.binary})
		if _, err := renderer.RenderStep(t.Context(), in); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
	in := render.StepInput{Step: renderstep.Step{WASM: &renderstep.WASMOptions{Module: "m.wasm"}}}
	in.Files = render.NewFiles(nil)
	if _, err := renderer.RenderStep(t.Context(), in); err == nil || !strings.HasPrefix(err.Error(), "m.wasm: no such file") {
		t.Errorf("no file: got %v", err)
	}
}

// TestModulesAreKept renders with more modules than are kept, at once.
func TestModulesAreKept(t *testing.T) {
	t.Parallel()
	few := wasm.NewRenderer()
	t.Cleanup(func() {
		if err := few.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	const modules = wasm.MaxCompiled + 4
	var wait sync.WaitGroup
	for i := range byte(modules) {
		// A command whose only function does nothing, and which differs from others by the length of its memory.
		binary := bytes.Join([][]byte{
			[]byte("\x00asm\x01\x00\x00\x00"), section(1, 1, 0x60, 0, 0), section(3, 1, 0), section(5, 1, 0, i+1),
			section(7, 1, 6, '_', 's', 't', 'a', 'r', 't', 0, 0), section(10, 1, 2, 0, 0x0b),
		}, nil)
		in := render.StepInput{Step: renderstep.Step{WASM: &renderstep.WASMOptions{Module: "m.wasm"}}}
		in.Files = render.NewFiles(map[string][]byte{"m.wasm": binary})
		for range 3 {
			wait.Go(func() {
				if _, err := few.RenderStep(t.Context(), in); err == nil || !strings.Contains(err.Error(), "standard output: is empty") {
					t.Errorf("got %v", err)
				}
			})
		}
	}
	wait.Wait()
	if n := few.Compiled(); n != wasm.MaxCompiled {
		t.Errorf("%d modules are kept, want %d", n, wasm.MaxCompiled)
	}
}
