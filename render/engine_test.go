// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/renderers"
)

// tree returns files.
func tree(content map[string]string) *render.Files {
	all := map[string][]byte{}
	for name, text := range content {
		all[name] = []byte(text)
	}
	return render.NewFiles(all)
}

// chart returns the files of a chart with one template.
func chart(folder, template string) map[string]string {
	return map[string]string{folder + "/Chart.yaml": "apiVersion: v2\nname: demo\nversion: 1.0.0\n", folder + "/templates/a.yaml": template}
}

// withFiles adds files to others.
func withFiles(content map[string]string, more map[string]string) map[string]string {
	for name, text := range more {
		content[name] = text
	}
	return content
}

// texts returns the data of ConfigMaps and Secrets by name, under one key.
func texts(out render.Output, key string) map[string]any {
	all := map[string]any{}
	for _, o := range out.Objects {
		data, _ := o.Object["data"].(map[string]any)
		all[o.GetName()] = data[key]
	}
	return all
}

// recorder passes inputs on, and records them.
type recorder struct {
	render.Renderer
	inputs []render.Input
}

// Render implements render.Renderer.
func (r *recorder) Render(ctx context.Context, in render.Input) (render.Output, error) {
	r.inputs = append(r.inputs, in)
	return r.Renderer.Render(ctx, in)
}

// TestSteps carries out lists of steps, in one process and split over two.
func TestSteps(t *testing.T) {
	t.Parallel()
	files := withFiles(chart("chart", configMap("{{ .Release.Name }}")+"data: {text: \"{{ .Values.text }} ${HOME}\"}\n"), map[string]string{
		"plain/a.yaml":                configMap("plain") + "data: {text: \"${TEXT}\"}\n",
		"kustom/kustomization.yaml":   "resources: [a.yaml]\n",
		"kustom/a.yaml":               configMap("kustom") + "data: {text: \"${TEXT}\"}\n",
		"patches/kustomization.yaml":  "commonAnnotations: {patched: \"yes\"}\n",
		"patches2/kustomization.yaml": "namePrefix: x-\n",
	})
	helm := &renderstep.HelmOptions{Values: map[string]any{"text": "${TEXT}"}}
	for name, test := range map[string]struct {
		steps []renderstep.Step
		want  map[string]any
	}{
		"detected": {
			steps: []renderstep.Step{{Path: "plain"}, {Path: "kustom"}, {Path: "chart"}},
			want:  map[string]any{"plain": "$${x}", "kustom": "$${x}", "shop": " ${HOME}"},
		},
		"patched once": {
			steps: []renderstep.Step{{Path: "plain"}, {Path: "patches", FromPrevious: true, Renderer: renderstep.Kustomize}},
			want:  map[string]any{"plain": "$${x}"},
		},
		"only the step before is patched": {
			steps: []renderstep.Step{{Path: "kustom"}, {Path: "plain"}, {Path: "patches2", FromPrevious: true, Renderer: renderstep.Kustomize}},
			want:  map[string]any{"kustom": "$${x}", "x-plain": "$${x}"},
		},
		"patched twice": {
			steps: []renderstep.Step{
				{Path: "plain"},
				{Path: "patches", FromPrevious: true, Renderer: renderstep.Kustomize},
				{Path: "patches2", FromPrevious: true, Renderer: renderstep.Kustomize},
			},
			want: map[string]any{"x-plain": "$${x}"},
		},
		"charts are not replaced": {
			steps: []renderstep.Step{
				{Path: "chart", Renderer: renderstep.Helm, Helm: helm}, {Path: "patches2", FromPrevious: true, Renderer: renderstep.Kustomize},
			},
			want: map[string]any{"x-shop": "$${x} ${HOME}"},
		},
		"not replaced on request": {
			steps: []renderstep.Step{{Path: "plain", Substitute: new(false)}},
			want:  map[string]any{"plain": "${TEXT}"},
		},
	} {
		in := render.Input{
			Files: tree(files), Steps: test.steps, Variables: &render.Variables{Values: map[string]string{"TEXT": "$${x}"}},
			Facts: render.Facts{Service: render.ServiceFacts{Name: "shop", Namespace: "shop"}},
		}
		others := &recorder{Renderer: renderers.Engine(render.Limits{})}
		for place, renderer := range map[string]render.Renderer{"one process": renderers.Engine(render.Limits{}), "two": render.Split{Others: others}} {
			out, err := renderer.Render(t.Context(), in)
			if err != nil {
				t.Errorf("%s in %s: %v", name, place, err)
				continue
			}
			if diff := cmp.Diff(test.want, texts(out, "text")); diff != "" {
				t.Errorf("%s in %s: %s", name, place, diff)
			}
		}
	}
}

// TestSecKustomizeLearnsNoConfiguration splits renders over two processes: the one that builds
// kustomizations is given neither values nor secrets, also if it works on objects of another step.
func TestSecKustomizeLearnsNoConfiguration(t *testing.T) {
	t.Parallel()
	const canary = "canary-6f1d"
	others := &recorder{Renderer: renderers.Engine(render.Limits{})}
	out, err := render.Split{Others: others}.Render(t.Context(), render.Input{
		Service: "shop",
		Files: tree(map[string]string{
			"plain/a.yaml":               configMap("plain") + "data: {text: \"${PASSWORD}\"}\n",
			"patches/kustomization.yaml": "namePrefix: x-\n",
		}),
		Steps:     []renderstep.Step{{Path: "plain"}, {Path: "patches", FromPrevious: true, Renderer: renderstep.Kustomize}},
		Variables: &render.Variables{Secrets: map[string]string{"PASSWORD": canary}},
	})
	if err != nil || !cmp.Equal(texts(out, "text"), map[string]any{"x-plain": canary}) || !cmp.Equal(out.Tainted, []string{canary}) {
		t.Fatalf("got %v, tainted %q, %v", texts(out, "text"), out.Tainted, err)
	}
	for _, in := range others.inputs {
		var sent bytes.Buffer
		if err := in.Encode(&sent); err != nil || bytes.Contains(sent.Bytes(), []byte(canary)) {
			t.Errorf("the other process is sent the secret (%v)", err)
		}
		if in.Service != "shop" {
			t.Errorf("the render is charged to %q, want shop", in.Service)
		}
	}
	if len(others.inputs) != 1 {
		t.Errorf("got %d renders elsewhere, want 1", len(others.inputs))
	}
}

// TestSecSecretsOfTemplates renders a chart with a secret in its values. The texts that contain it are
// known, however the template has encoded it; errors and warnings do not repeat it.
func TestSecSecretsOfTemplates(t *testing.T) {
	t.Parallel()
	const canary = "can/ary+6f1d\"x"
	variables := &render.Variables{Secrets: map[string]string{"PASSWORD": canary, "SHORT": "1"}}
	render1 := func(template string) (render.Output, error) {
		return renderers.Engine(render.Limits{}).Render(t.Context(), render.Input{
			Files: tree(chart("c", template)), Variables: variables,
			Steps: []renderstep.Step{{Path: "c", Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{
				Parameters: map[string]string{"password": "${PASSWORD}", "short": "${SHORT}"},
			}}},
		})
	}
	for name, expression := range map[string]string{
		"as it is":         `.Values.password | quote`,
		"base64":           `.Values.password | b64enc`,
		"inside of base64": `printf "user:%s" .Values.password | b64enc`,
		"JSON":             `dict "a" .Values.password | toJson | quote`,
		"URL":              `printf "https://u:%s@host" (.Values.password | urlquery)`,
	} {
		out, err := render1(configMap("a") + "data:\n  text: {{ " + expression + " }}\n  other: \"1 of 10\"\n")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text := texts(out, "text")["a"]
		if !cmp.Equal(out.Tainted, []string{fmt.Sprint(text)}) {
			t.Errorf("%s: got %q tainted, want %q alone", name, out.Tainted, text)
		}
	}
	for name, template := range map[string]string{
		"an error":    `{{ fail (printf "the password is %s" .Values.password) }}`,
		"an encoding": `{{ fail (printf "the password is %s" (.Values.password | b64enc)) }}`,
		"a name":      configMap("{{ .Values.password | b64enc | lower }}") + "data: [" + `{{ .Values.password }}`,
		"a label":     configMap("a") + "  labels: {a: {{ .Values.password | quote }}}\n",
		"metadata":    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {a: {{ .Values.password | quote }}}}\n",
	} {
		_, err := render1(template)
		if err == nil || strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), base64.StdEncoding.EncodeToString([]byte(canary))) {
			t.Errorf("%s: got %v, want an error without the secret", name, err)
		}
	}
}

// TestMount puts sources together.
func TestMount(t *testing.T) {
	t.Parallel()
	at := func(mount string, content map[string]string) render.Mounted {
		return render.Mounted{Files: tree(content), Mount: mount, Origin: "source " + mount}
	}
	for name, test := range map[string]struct {
		sources []render.Mounted
		limits  render.Limits
		want    []string
		fails   string
	}{
		"apart":         {sources: []render.Mounted{at("a", map[string]string{"x": "1"}), at("", map[string]string{"x": "2"})}, want: []string{"a/x", "x"}},
		"inside":        {sources: []render.Mounted{at("a", map[string]string{"x": "1"}), at("a/b", map[string]string{"x": "2"})}, want: []string{"a/b/x", "a/x"}},
		"the same":      {sources: []render.Mounted{at("", map[string]string{"x": "1"}), at("", map[string]string{"x": "1"})}, want: []string{"x"}},
		"different":     {sources: []render.Mounted{at("", map[string]string{"x": "1"}), at("./", map[string]string{"x": "2"})}, fails: "x: comes from"},
		"file, folder":  {sources: []render.Mounted{at("x", map[string]string{"y": "1"}), at("", map[string]string{"x": "2"})}, fails: "x: is a file"},
		"out of it":     {sources: []render.Mounted{at("../..", map[string]string{"x": "1"})}, want: []string{"x"}},
		"too many":      {sources: []render.Mounted{at("a", map[string]string{"x": "1", "y": "1"})}, limits: render.Limits{Names: 1}, fails: "more than 1 files"},
		"too many byte": {sources: []render.Mounted{at("a", map[string]string{"x": "1"}), at("b", map[string]string{"x": "1"})}, limits: render.Limits{Bytes: 1}, fails: "more than"},
	} {
		files, err := render.Mount(test.sources, test.limits)
		if test.fails != "" {
			if err == nil || !strings.Contains(err.Error(), test.fails) {
				t.Errorf("%s: got %v, want %q", name, err, test.fails)
			}
			continue
		}
		if err != nil || !cmp.Equal(files.Below(""), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// TestMemoKnowsWhatIsAsked changes facts of a cluster: only charts that ask for them are rendered
// again.
func TestMemoKnowsWhatIsAsked(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		template string
		change   func(*render.Facts)
		renders  int
	}{
		"nothing":            {template: "a", change: func(*render.Facts) {}, renders: 1},
		"versions, asked":    {template: `{{ .Capabilities.APIVersions.Has "x/v1" }}`, change: func(f *render.Facts) { f.Cluster.APIVersions = []string{"v1", "x/v1"} }, renders: 2},
		"versions, unasked":  {template: "a", change: func(f *render.Facts) { f.Cluster.APIVersions = []string{"v1", "x/v1"} }, renders: 1},
		"labels, unasked":    {template: "a", change: func(f *render.Facts) { f.Cluster.Labels = map[string]string{"a": "b"} }, renders: 1},
		"the commit alone":   {template: "a", change: func(f *render.Facts) { f.Sources[0].Commit = "other" }, renders: 1},
		"the service's name": {template: "a", change: func(f *render.Facts) { f.Service.Name = "other" }, renders: 2},
	} {
		counted := &recorder{Renderer: renderers.Engine(render.Limits{})}
		memo := remembering(t, counted)
		facts := render.Facts{
			Cluster: render.ClusterFacts{KubernetesVersion: "v1.36.1", APIVersions: []string{"v1"}},
			Service: render.ServiceFacts{Name: "shop"}, Sources: []render.SourceFacts{{Commit: "one"}},
		}
		files := tree(chart("c", configMap("a")+"data: {text: \""+test.template+"\"}\n"))
		var outputs []render.Output
		for range 3 {
			out, err := memo.Render(t.Context(), render.Input{Files: files, Steps: []renderstep.Step{{Path: "c"}}, Facts: facts})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			outputs = append(outputs, out)
			test.change(&facts)
		}
		if len(counted.inputs) != test.renders {
			t.Errorf("%s: got %d renders, want %d", name, len(counted.inputs), test.renders)
		}
		if diff := cmp.Diff(outputs[1].Objects, outputs[2].Objects); diff != "" {
			t.Errorf("%s: what is remembered differs: %s", name, diff)
		}
	}
}

// TestInputTravels encodes and decodes an input with everything that it can hold.
func TestInputTravels(t *testing.T) {
	t.Parallel()
	want := render.Input{
		Files: tree(map[string]string{"a.yaml": "a"}), Folder: "a", Except: "b", Installed: true,
		Steps:     []renderstep.Step{{Path: "c", Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{Values: map[string]any{"a": 1.5}}}},
		Variables: &render.Variables{Values: map[string]string{"A": "a"}, Secrets: map[string]string{"B": "b"}},
		Facts:     render.Facts{Cluster: render.ClusterFacts{Name: "eu-1", APIVersions: []string{"v1"}}, Sources: []render.SourceFacts{{Commit: "c"}}},
		Generated: render.Generated{"place": "value"}, Lookups: []render.Lookup{{Kind: "Secret", Object: []byte("{}")}},
	}
	var sent bytes.Buffer
	if err := want.Encode(&sent); err != nil {
		t.Fatal(err)
	}
	got, err := render.DecodeInput(bufio.NewReader(&sent), render.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if !cmp.Equal(got.Files.Below(""), want.Files.Below("")) {
		t.Errorf("got files %q", got.Files.Below(""))
	}
	want.Files, got.Files = nil, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestSecOutputIsBounded decodes what no renderer writes.
func TestSecOutputIsBounded(t *testing.T) {
	t.Parallel()
	good, err := renderers.Engine(render.Limits{}).Render(t.Context(), render.Input{Files: tree(map[string]string{"a.yaml": configMap("a")}), Steps: []renderstep.Step{{}}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := good.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := render.DecodeOutput(text, render.Limits{}); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		text   []byte
		limits render.Limits
	}{
		"nothing":        {},
		"cut off":        {text: text[:len(text)-1]},
		"too long":       {text: append(bytes.Clone(text), 0)},
		"huge length":    {text: append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, text...)},
		"too many":       {text: text, limits: render.Limits{Objects: 1, ObjectBytes: 10}},
		"no object":      {text: bytes.Replace(text, []byte(`"kind"`), []byte(`"kinx"`), 1)},
		"negative count": {text: bytes.Replace(text, []byte(`"objects":1`), []byte(`"objects":-`), 1)},
	} {
		if _, err := render.DecodeOutput(test.text, test.limits); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// panics is a renderer whose library fails.
type panics struct{}

// RenderStep implements render.StepRenderer.
func (panics) RenderStep(context.Context, render.StepInput) (render.StepOutput, error) { panic("oh") }

// TestPanicOfALibrary is an error of the content.
func TestPanicOfALibrary(t *testing.T) {
	t.Parallel()
	engine := render.Engine{Renderers: map[renderstep.Renderer]render.StepRenderer{renderstep.Jsonnet: panics{}}}
	_, err := engine.Render(t.Context(), render.Input{Files: tree(map[string]string{"a/b": ""}), Steps: []renderstep.Step{{Path: "a", Renderer: renderstep.Jsonnet}}})
	invalid := new(render.Error)
	if !errors.As(err, &invalid) || invalid.Path != "a" {
		t.Errorf("got %v, want an error of the folder", err)
	}
}
