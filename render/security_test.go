// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/renderers"
)

// bomb returns a text whose anchors expand to ten times width to the power of depth values.
func bomb(depth, width int) string {
	text := "b0: &b0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i <= depth; i++ {
		text += fmt.Sprintf("b%d: &b%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*b%d, ", i-1), width), ", "))
	}
	return text
}

// bombs returns small files that become large in memory.
func bombs() map[string]map[string]string {
	manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	lists := manifest + bomb(7, 10)
	long := manifest + "long: &l '" + strings.Repeat("x", 64<<10) + "'\nlist: [" + strings.TrimSuffix(strings.Repeat("*l, ", 20_000), ", ") + "]\n"
	merges := manifest + "m0: &m0 {a: b}\n"
	for i := 1; i < 28; i++ {
		merges += fmt.Sprintf("m%d: &m%d {<<: [*m%d, *m%d], k%d: '${X:-}'}\n", i, i, i-1, i-1, i)
	}
	itself := manifest + "loop: &x {next: [*x]}\n"
	all := map[string]map[string]string{"plugin": {
		"kustomization.yaml": "generators:\n- |-\n  " + strings.ReplaceAll(lists, "\n", "\n  ") + "\n",
	}}
	for name, text := range map[string]string{"lists": lists, "long text": long, "merges": merges, "loop": itself} {
		all["plain "+name] = map[string]string{"a.yaml": text}
		all["kustomize "+name] = map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": text}
		all["second document "+name] = map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": configMap("b") + "---\n" + text}
	}
	all["kustomization itself"] = map[string]string{"kustomization.yaml": "resources: [a.yaml]\n" + bomb(7, 10), "a.yaml": manifest}
	return all
}

// TestSecAliasesDoNotMultiply renders bombs of a few hundred bytes to about 150 kB, each of which
// would take gigabytes.
func TestSecAliasesDoNotMultiply(t *testing.T) {
	t.Parallel()
	for name, content := range bombs() {
		files := map[string][]byte{}
		for path, text := range content {
			files[path] = []byte(text)
		}
		var err error
		took := allocated(func() {
			_, err = inProcess().Objects(t.Context(), render.NewFiles(files), "", renderstep.Auto, render.NewSubstitution(render.Variables{}))
		})
		if err == nil || strings.Contains(err.Error(), "kustomize build") {
			t.Errorf("%s: got %v, want it refused before it is built", name, err)
		}
		const enough = 512 << 20 // other tests allocate at the same time
		if took > enough {
			t.Errorf("%s: allocated %d MiB", name, took>>20)
		}
	}
}

// allocated returns how many bytes the process allocated while f ran.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestAliases checks that aliases that do not multiply are kept.
func TestAliases(t *testing.T) {
	t.Parallel()
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: &l {app: a}, annotations: {<<: *l}}\ndata: &d {k: &v '1', w: *v}\nbinaryData: *d\n"
	for _, content := range []map[string][]byte{
		{"a.yaml": []byte(text)},
		{"kustomization.yaml": []byte("resources: [a.yaml]\n"), "a.yaml": []byte(text)},
	} {
		objects, err := inProcess().Objects(t.Context(), render.NewFiles(content), "", renderstep.Auto, nil)
		if err != nil {
			t.Fatal(err)
		}
		if w := objects[0].Object["binaryData"].(map[string]any)["w"]; w != "1" {
			t.Errorf("got %v, want 1", w)
		}
	}
}

// TestSecLimits exceeds each limit a little.
func TestSecLimits(t *testing.T) {
	t.Parallel()
	deep := "apiVersion: v1\nkind: A\nmetadata: {name: a}\nx: " + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "\n"
	for name, test := range map[string]struct {
		text   string
		limits render.Limits
		want   render.Limit
	}{
		"text":       {text: configMap("a") + "---\n" + configMap("b"), limits: render.Limits{Text: 100}, want: render.LimitText},
		"objects":    {text: configMap("a") + "---\n" + configMap("b"), limits: render.Limits{Objects: 1}, want: render.LimitObjects},
		"in a list":  {text: "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: A, metadata: {name: a}}, {apiVersion: v1, kind: A, metadata: {name: b}}]\n", limits: render.Limits{Objects: 1}, want: render.LimitObjects},
		"values":     {text: configMap("a"), limits: render.Limits{Values: 3}, want: render.LimitValues},
		"object":     {text: configMap("a"), limits: render.Limits{ObjectBytes: 20}, want: render.LimitObject},
		"depth":      {text: deep, want: render.LimitDepth},
		"separators": {text: configMap("a") + "x: [" + strings.Repeat("a,", 250_000) + "]\n", want: render.LimitValues},
	} {
		for _, kustomize := range []bool{false, true} {
			files := map[string][]byte{"a.yaml": []byte(test.text)}
			if kustomize {
				files["kustomization.yaml"] = []byte("resources: [a.yaml]\n")
			}
			engine := engine{renderers.Engine(test.limits)}
			_, err := engine.Objects(t.Context(), render.NewFiles(files), "", renderstep.Auto, nil)
			limit := new(render.LimitError)
			if !errors.As(err, &limit) || limit.Limit != test.want {
				t.Errorf("%s: got %v, want limit %s", name, err, test.want)
			}
		}
	}
}

// written returns the bundle that write writes.
func written(t *testing.T, write func(*bundle.Writer) error) *bytes.Reader {
	t.Helper()
	var buffer bytes.Buffer
	w := bundle.NewWriter(&buffer, bundle.Limits{})
	if err := errors.Join(write(w), w.Close()); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(buffer.Bytes())
}

// TestSecLinksDoNotMultiply reads a bundle with many links, each of which leads to all files.
func TestSecLinksDoNotMultiply(t *testing.T) {
	t.Parallel()
	const files, links = 1_000, 19_000
	read := written(t, func(w *bundle.Writer) error {
		for i := range files {
			if err := w.WriteFile(fmt.Sprintf("a/%05d", i), false, 0, strings.NewReader("")); err != nil {
				return err
			}
		}
		for i := range links {
			if err := w.WriteSymlink(fmt.Sprintf("b%05d", i), "a"); err != nil {
				return err
			}
		}
		return nil
	})
	var err error
	took := allocated(func() { _, err = render.Read(bundle.NewReader(read, bundle.Limits{}), render.Limits{}) })
	if limit := new(render.LimitError); !errors.As(err, &limit) || limit.Limit != render.LimitNames {
		t.Errorf("got %v, want limit %s", err, render.LimitNames)
	}
	if took > 512<<20 {
		t.Errorf("allocated %d MiB", took>>20)
	}
}

// TestSecBundleIsBounded reads a bundle that is larger than an agent's memory allows.
func TestSecBundleIsBounded(t *testing.T) {
	t.Parallel()
	read := written(t, func(w *bundle.Writer) error {
		for i := range 3 {
			if err := w.WriteFile(fmt.Sprintf("%d", i), false, 1<<20, strings.NewReader(strings.Repeat("x", 1<<20))); err != nil {
				return err
			}
		}
		return nil
	})
	_, err := render.Read(bundle.NewReader(read, bundle.Limits{}), render.Limits{Bytes: 2 << 20})
	if limit := new(render.LimitError); !errors.As(err, &limit) || limit.Limit != render.LimitBytes {
		t.Errorf("got %v, want limit %s", err, render.LimitBytes)
	}
}

// counted is a Builder that returns err, and counts its builds.
type counted struct {
	err     error
	out     render.Output
	renders int
}

// Render implements render.Renderer.
func (c *counted) Render(context.Context, render.Input) (render.Output, error) {
	c.renders++
	return c.out, c.err
}

// remembering returns a memo of the renderer.
func remembering(t *testing.T, renderer render.Renderer) *render.Memo {
	t.Helper()
	memo, err := render.NewMemo(renderer, render.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return memo
}

// TestSecFailuresAreRemembered builds the same bad content again and again.
func TestSecFailuresAreRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		files := render.NewFiles(map[string][]byte{"kustomization.yaml": []byte("resources: [a.yaml]\n")})
		b := &counted{err: &render.LimitError{Limit: render.LimitMemory, Message: "needs too much memory"}}
		memo := remembering(t, b)
		for range 24 * 60 { // a day
			_, err := memo.Render(t.Context(), render.Input{Files: files, Folder: ""})
			limit := new(render.LimitError)
			if !errors.As(err, &limit) || !limit.RetryAt.After(time.Now()) {
				t.Fatalf("got %v, want a time when it is tried again", err)
			}
			time.Sleep(time.Minute)
		}
		if b.renders < 24 || b.renders > 32 {
			t.Errorf("got %d renders in a day, want one an hour", b.renders)
		}
		renders := b.renders
		if _, err := memo.Render(t.Context(), render.Input{Files: files, Folder: "b"}); err == nil || b.renders != renders+1 {
			t.Errorf("another folder: got %d renders (%v), want 1", b.renders-renders, err)
		}
		if _, err := memo.Render(t.Context(), render.Input{Files: render.NewFiles(map[string][]byte{"kustomization.yaml": nil}), Folder: ""}); err == nil || b.renders != renders+2 {
			t.Errorf("other content: got %d renders (%v), want 1", b.renders-renders-1, err)
		}
	})
}

func TestMemo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want int // renders of three
	}{
		"of the content": {err: &render.Error{Path: "a", Cause: errors.New("is wrong")}, want: 1},
		"of a limit":     {err: &render.LimitError{Limit: render.LimitText, Message: "is too long"}, want: 1},
		"of the machine": {err: errors.New("cannot start"), want: 3},
		"none":           {want: 1},
	} {
		b := &counted{err: test.err}
		memo := remembering(t, b)
		for range 3 {
			if _, err := memo.Render(t.Context(), render.Input{Files: render.NewFiles(nil), Folder: ""}); !errors.Is(err, test.err) {
				t.Errorf("%s: got %v, want %v", name, err, test.err)
			}
		}
		rendered, remembered := memo.Counts()
		if b.renders != test.want || rendered != int64(test.want) || remembered != int64(3-test.want) {
			t.Errorf("%s: got %d renders, counted as %d beside %d remembered answers, want %d of three", name, b.renders, rendered, remembered, test.want)
		}
	}
	b := &counted{err: errors.New("cannot start")}
	memo := remembering(t, b)
	for i := range 3_000 { // more than it remembers
		b.err = &render.Error{Path: "a", Cause: errors.New("is wrong")}
		if _, err := memo.Render(t.Context(), render.Input{Files: render.NewFiles(nil), Folder: fmt.Sprint(i)}); err == nil {
			t.Fatal("got no error")
		}
	}
	if _, err := memo.Render(t.Context(), render.Input{Files: render.NewFiles(nil), Folder: "2999"}); err == nil || b.renders != 3_000 {
		t.Errorf("got %d renders (%v), want the newest remembered", b.renders, err)
	}
}

// TestSecMissingVariables names very many variables that do not exist.
func TestSecMissingVariables(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString(configMap("a") + "data:\n  a: \"")
	for i := range 100_000 {
		fmt.Fprintf(&text, "${V%d}", i)
	}
	text.WriteString("\"\n")
	files := render.NewFiles(map[string][]byte{"a.yaml": []byte(text.String())})
	_, err := inProcess().Objects(t.Context(), files, "", renderstep.Plain, render.NewSubstitution(render.Variables{}))
	missing := new(render.VariableError)
	if !errors.As(err, &missing) || len(missing.Names) > 100 || len(err.Error()) > 2_000 {
		t.Errorf("got an error of %d bytes (%T), want one that names some of them", len(fmt.Sprint(err)), err)
	}
}
