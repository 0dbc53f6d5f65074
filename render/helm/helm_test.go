// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helm_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/testkit/golden"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/helm"
)

// kubernetesVersion is the version that both renderers are told.
const kubernetesVersion = "v1.36.1"

// program is the Helm that results are compared with. It is built once, by make test before the
// tests.
func program(t *testing.T) string {
	t.Helper()
	binaries, err := localkube.Build(t.Context(), localkube.BuildParams{Helm: true})
	if err != nil {
		t.Fatal(err)
	}
	return binaries.Helm
}

// example is a chart of testdata/charts and how it is rendered. The file settings.yaml of the
// archive holds it, beside the folder chart and files of values.
type example struct {
	renderstep.HelmOptions // in the words of a service's step

	// Feature and Cases describe the chart, for docs/guides/renderers/charts.md.
	Feature string   `json:"feature"`
	Cases   []string `json:"cases"`

	Upgrade     bool     `json:"upgrade"`
	KubeVersion string   `json:"kubeVersion"` // empty: kubernetesVersion
	APIVersions []string `json:"apiVersions"` // that the cluster has besides Helm's defaults
	Pack        []string `json:"pack"`        // folders of dependencies that are archives in the chart
	Windows     []string `json:"windows"`     // files with a byte order mark and CRLF
	// Error is a part of the error that both report, or Leat alone if Differs is set. Empty: both
	// succeed.
	Error string `json:"error"`
	// Differs is why the two results differ on purpose. Empty: they are equal.
	Differs string `json:"differs"`
	// Empty: the chart makes no objects.
	Empty bool `json:"empty"`
}

// tree is the files of an example, in memory and on the disk.
type tree struct {
	files *render.Files
	dir   string
}

func readExample(t *testing.T, name string) (e example, content map[string][]byte) {
	t.Helper()
	archive, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	content = map[string][]byte{}
	for _, file := range archive.Files {
		if file.Name == "settings.yaml" {
			if err := yaml.UnmarshalStrict(file.Data, &e); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			continue
		}
		content[file.Name] = file.Data
	}
	if e.Feature == "" || len(e.Cases) == 0 {
		t.Errorf("%s does not say which feature and cases it shows", name)
	}
	for _, name := range e.Windows {
		content[name] = append([]byte("\xef\xbb\xbf"), bytes.ReplaceAll(content[name], []byte("\n"), []byte("\r\n"))...)
	}
	for _, folder := range e.Pack {
		pack(t, content, folder)
	}
	return e, content
}

// write returns the files of an example as a tree.
func write(t testing.TB, content map[string][]byte) tree {
	t.Helper()
	dir := t.TempDir()
	for name, data := range content {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return tree{files: render.NewFiles(content), dir: dir}
}

// pack replaces a folder by an archive of the same name.
func pack(t *testing.T, content map[string][]byte, folder string) {
	t.Helper()
	entries := map[string]string{}
	for name, data := range content {
		if inside, ok := strings.CutPrefix(name, folder+"/"); ok {
			entries[path.Base(folder)+"/"+inside] = string(data)
			delete(content, name)
		}
	}
	content[folder+"-1.0.0.tgz"] = archived(t, entries)
}

// archived returns an archive with those files.
func archived(t testing.TB, entries map[string]string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	zipped := gzip.NewWriter(&buffer)
	w := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(entries[name]))}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(entries[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// leat returns the objects that Leat makes, by their identity.
func (e example) leat(t *testing.T, files *render.Files) (map[string]any, error) {
	t.Helper()
	var versions []string // none: Helm's defaults
	if len(e.APIVersions) > 0 {
		versions = slices.Concat(common.DefaultVersionSet, e.APIVersions)
	}
	engine := render.Engine{Renderers: map[renderstep.Renderer]render.StepRenderer{renderstep.Helm: helm.Renderer{}}}
	out, err := engine.Render(t.Context(), render.Input{
		Files: files, Installed: e.Upgrade,
		Facts: render.Facts{
			Cluster: render.ClusterFacts{KubernetesVersion: cmp.Or(e.KubeVersion, kubernetesVersion), APIVersions: versions},
			Service: render.ServiceFacts{Name: "demo", Namespace: "apps"},
		},
		Steps: []renderstep.Step{{Path: "chart", Renderer: renderstep.Helm, Helm: &e.HelmOptions}},
	})
	objects := map[string]any{}
	for _, o := range out.Objects {
		add(objects, o.Path, o.Object)
	}
	return objects, err
}

// add adds an object under its place and identity. Two of the same identity in one file are told
// apart by their order. Lists are replaced by their items, as Leat does.
func add(objects map[string]any, place string, object map[string]any) {
	if items, isList := object["items"].([]any); isList && strings.HasSuffix(fmt.Sprint(object["kind"]), "List") {
		for _, item := range items {
			if fields, ok := item.(map[string]any); ok {
				add(objects, place, fields)
			}
		}
		return
	}
	metadata, _ := object["metadata"].(map[string]any)
	for i := 1; ; i++ {
		key := fmt.Sprintf("%s: %v %v/%v #%d", place, object["kind"], metadata["namespace"], metadata["name"], i)
		if _, taken := objects[key]; !taken {
			objects[key] = object
			return
		}
	}
}

// helm returns the objects that helm template makes.
func (e example) helm(t *testing.T, dir string) (map[string]any, error) {
	t.Helper()
	args := []string{"template", cmp.Or(e.ReleaseName, "demo"), "chart", "--namespace", "apps", "--kube-version", cmp.Or(e.KubeVersion, kubernetesVersion)}
	for _, name := range e.ValuesFiles {
		if _, err := os.Stat(filepath.Join(dir, strings.TrimSuffix(name, "?"))); err == nil || !strings.HasSuffix(name, "?") {
			args = append(args, "-f", strings.TrimSuffix(name, "?"))
		}
	}
	if len(e.Values) > 0 {
		text, err := yaml.Marshal(e.Values)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "set.yaml"), text, 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-f", "set.yaml")
	}
	for _, key := range slices.Sorted(maps.Keys(e.Parameters)) {
		args = append(args, "--set-string", key+"="+strings.NewReplacer(",", `\,`, "{", `\{`).Replace(e.Parameters[key]))
	}
	for _, version := range e.APIVersions {
		args = append(args, "--api-versions", version)
	}
	for flag, isSet := range map[string]bool{
		"--is-upgrade": e.Upgrade, "--skip-tests": e.SkipTests, "--no-hooks": e.SkipHooks, "--include-crds": e.CRDs != renderstep.CRDsSkip,
		"--skip-schema-validation": e.SkipSchema,
	} {
		if isSet {
			args = append(args, flag)
		}
	}
	cmd := exec.CommandContext(t.Context(), program(t), args...)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "PATH="}
	var output, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &words
	if err := cmd.Run(); err != nil {
		return nil, errors.New(words.String())
	}
	return objectsOf(t, output.String()), nil
}

// objectsOf returns the objects of a text, whose comments name the source of each.
func objectsOf(t *testing.T, text string) map[string]any {
	t.Helper()
	objects, file := map[string]any{}, ""
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document+"\n"), &object); err != nil {
			t.Fatalf("%v: %s", err, document)
		}
		if object == nil {
			continue
		}
		if _, source, named := strings.Cut(document, "# Source: "); named { // else it is of the same file
			source, _, _ = strings.Cut(source, "\n")
			_, file, _ = strings.Cut(source, "/") // after the chart's name
		}
		add(objects, "chart/"+file, object)
	}
	return objects
}

// TestEqualToHelm compares the objects of each chart in testdata/charts with the objects that helm
// template makes, place by place.
func TestEqualToHelm(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/charts/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("got %d charts, %v", len(names), err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			t.Parallel()
			e, content := readExample(t, name)
			tree := write(t, content)
			got, gotErr := e.leat(t, tree.files)
			want, wantErr := e.helm(t, tree.dir)
			if e.Error != "" {
				if gotErr == nil || !strings.Contains(gotErr.Error(), e.Error) || (wantErr == nil) != (e.Differs != "") {
					t.Errorf("got %v, want an error with %q; Helm says: %v", gotErr, e.Error, wantErr)
				}
				return
			}
			if gotErr != nil || wantErr != nil {
				t.Fatalf("got %v; Helm says: %v", gotErr, wantErr)
			}
			diff := gocmp.Diff(normal(t, want), normal(t, got))
			if diff != "" && e.Differs == "" {
				t.Errorf("Helm's objects are -, Leat's are +:\n%s", diff)
			}
			if diff == "" && e.Differs != "" {
				t.Errorf("the results are equal; settings.yaml says that they differ: %s", e.Differs)
			}
			if (len(want) == 0) != e.Empty {
				t.Errorf("Helm makes %d objects", len(want))
			}
		})
	}
}

// normal returns objects with all their numbers as encoding/json decodes them.
func normal(t *testing.T, objects map[string]any) map[string]any {
	t.Helper()
	text, err := yaml.Marshal(objects)
	if err != nil {
		t.Fatal(err)
	}
	var same map[string]any
	if err := yaml.Unmarshal(text, &same); err != nil {
		t.Fatal(err)
	}
	return same
}

// TestDocumentedCharts compares the table in docs/guides/renderers/charts.md with the charts. Run
// it with
// -update after a change of them.
func TestDocumentedCharts(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/charts/*.txtar")
	if err != nil || len(names) < 40 {
		t.Fatalf("got %d charts, %v", len(names), err)
	}
	var rows []string
	for _, name := range names {
		e, _ := readExample(t, name)
		result := "equal"
		switch {
		case e.Differs != "":
			result = e.Differs
		case e.Error != "":
			result = "both refuse it"
		}
		for _, shown := range e.Cases {
			rows = append(rows, fmt.Sprintf("| %s | %s | `%s` | %s |\n", e.Feature, shown, filepath.Base(name), result))
		}
	}
	slices.Sort(rows)
	table := "| feature | case | file | result |\n|---|---|---|---|\n" + strings.Join(rows, "")
	golden.AssertSection(t, "../../../docs/guides/renderers/charts.md", "cases", []byte(table))
}

// TestPackedDependencies applies a chart's .helmignore to the archives in charts, as Helm does, and not
// to what they hold: neither where they are archives, nor where the hub has unpacked them.
func TestPackedDependencies(t *testing.T) {
	t.Parallel()
	chart := map[string]string{
		"Chart.yaml":               "apiVersion: v2\nname: shop\nversion: 1.0.0\ndependencies: [{name: web, version: 1.x, alias: front}, {name: web, version: 2.x, alias: back}]\n",
		".helmignore":              "tests/\ncharts/old-*\n",
		"templates/tests/own.yaml": manifest("own", "ignored"), "charts/plain/Chart.yaml": "{apiVersion: v2, name: plain, version: 1.0.0}",
		"charts/plain/templates/tests/a.yaml":            manifest("plain", "ignored"),
		"charts/old-1.0.0.tgz.unpacked/Chart.yaml":       "{apiVersion: v2, name: old, version: 1.0.0}",
		"charts/old-1.0.0.tgz.unpacked/templates/a.yaml": manifest("old", "ignored"),
	}
	for _, version := range []string{"1.2.0", "2.0.0"} {
		folder := "charts/web-" + version + ".tgz.unpacked/"
		chart[folder+"Chart.yaml"] = "{apiVersion: v2, name: web, version: " + version + "}"
		chart[folder+"templates/tests/a.yaml"] = manifest("{{ .Chart.Name }}", version)
	}
	out, err := renderChart(t, chartOf(chart), render.Input{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range out.Objects {
		names = append(names, o.GetName())
	}
	slices.Sort(names)
	if want := []string{"back", "front"}; !slices.Equal(names, want) {
		t.Errorf("got objects %q, want %q", names, want)
	}
}

// TestPackedByTheHub compares what charts with archives make where the hub has unpacked these with what
// Helm makes of the archives.
func TestPackedByTheHub(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/charts/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, name := range names {
		e, content := readExample(t, name)
		unpacked := maps.Clone(content)
		for file, data := range content {
			if path.Dir(file) != "chart/charts" || path.Ext(file) != ".tgz" {
				continue
			}
			inside, err := archive.LoadArchiveFiles(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			delete(unpacked, file)
			for _, f := range inside {
				unpacked[file+".unpacked/"+f.Name] = f.Data
			}
		}
		if len(unpacked) <= len(content) || e.Error != "" || e.Differs != "" {
			continue
		}
		compared++
		got, gotErr := e.leat(t, render.NewFiles(unpacked))
		want, wantErr := e.helm(t, write(t, content).dir)
		if gotErr != nil || wantErr != nil {
			t.Fatalf("%s: got %v; Helm says: %v", name, gotErr, wantErr)
		}
		if diff := gocmp.Diff(normal(t, want), normal(t, got)); diff != "" {
			t.Errorf("%s: Helm's objects are -, Leat's are +:\n%s", name, diff)
		}
	}
	if compared == 0 {
		t.Error("no chart has archives")
	}
}
