// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helmrelease_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/cli/internal/helmrelease"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	helmrender "github.com/leatdev/leat/render/helm"
)

// packed returns what Helm stores.
func packed(t testing.TB, text []byte) []byte {
	t.Helper()
	var buffer bytes.Buffer
	z := gzip.NewWriter(&buffer)
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return []byte(base64.StdEncoding.EncodeToString(buffer.Bytes()))
}

// recorded is a release with a chart, values and what Helm has applied.
func recorded() map[string]any {
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	return map[string]any{
		"name": "shop", "namespace": "team", "version": 3, "info": map[string]any{"status": "deployed"},
		"config": map[string]any{"color": "red", "db": map[string]any{"password": "hunter2hunter2", "existingSecret": "x"}, "script": "${HOME}"},
		"chart": map[string]any{
			"metadata": map[string]any{"apiVersion": "v2", "name": "web", "version": "1.2.3"},
			"values":   map[string]any{"color": "blue", "replicas": 2},
			"templates": []any{
				map[string]any{"name": "templates/a.yaml", "data": encode("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n" +
					"data: {color: '{{ .Values.color }}', script: '{{ .Values.script }}', upgrade: '{{ .Release.IsUpgrade }}', new: 'x'}\n")},
				map[string]any{"name": "templates/b.yaml", "data": encode("apiVersion: v1\nkind: Secret\nmetadata: {name: b}\ndata: {p: '{{ b64enc .Values.db.password }}'}\n")},
				map[string]any{"name": "templates/c.yaml", "data": encode("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n")},
				map[string]any{"name": "templates/hook.yaml", "data": encode("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: h, annotations: {helm.sh/hook: pre-install}}\n")},
				map[string]any{"name": "templates/hook2.yaml", "data": encode("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: u, annotations: {helm.sh/hook: pre-upgrade}}\n")},
			},
			"files": []any{map[string]any{"name": "crds/x.yaml", "data": encode("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: xs.x.test}\n")}},
		},
		"manifest": "---\n# Source: web/templates/a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: team}\n" +
			"data: {color: 'red', script: '${HOME}', upgrade: 'true', old: 'hunter2hunter2'}\n" +
			"---\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\ndata: {p: aHVudGVyMmh1bnRlcjI=, q: b3RoZXI=}\n" +
			"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: gone}\n" +
			"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n",
	}
}

func decoded(t testing.TB, record map[string]any) helmrelease.Release {
	t.Helper()
	text, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	release, err := helmrelease.Decode(packed(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return release
}

// TestDocument makes the service of a release, and reads its document as leat apply does.
func TestDocument(t *testing.T) {
	t.Parallel()
	release := decoded(t, recorded())
	plan, err := helmrelease.NewPlan(release, "shop", "berlin", helmrelease.Origin{Repository: "charts"}, helmrelease.Choice{Move: []string{"db.password"}})
	if err != nil {
		t.Fatal(err)
	}
	object, err := plan.Document(release)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := document.WriteYAML(&text, object); err != nil {
		t.Fatal(err)
	}
	const want = `apiVersion: leat.dev/v1
kind: Service
metadata:
  name: shop
spec:
  cluster: berlin
  sources:
    - repository: charts
      ref:
        tag: 1.2.3
      chart: web
      mount: chart
  namespace: team
  render:
    - path: chart
      helm:
        releaseName: shop
        values:
          color: red
          db:
            existingSecret: x
            password: ${DB_PASSWORD}
          script: $${HOME}
        crds: create
        installed: true
  config:
    secrets:
      DB_PASSWORD: hunter2hunter2
`
	if diff := cmp.Diff(sections(want), sections(text.String())); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
	if _, err := document.Parse("shop.yaml", &text); err != nil {
		t.Errorf("read as leat apply does: %v", err)
	}
}

// sections returns the lines of a document without their order.
func sections(text string) map[string]int {
	all := map[string]int{}
	for line := range strings.Lines(text) {
		all[line]++
	}
	return all
}

func engine() render.Renderer {
	return &render.Engine{Renderers: map[renderstep.Renderer]render.StepRenderer{renderstep.Helm: helmrender.Renderer{}}}
}

// TestCompare has one object of each kind of difference.
func TestCompare(t *testing.T) {
	t.Parallel()
	release := decoded(t, recorded())
	plan, err := helmrelease.NewPlan(release, "shop", "berlin", helmrelease.Origin{Repository: "charts"}, helmrelease.Choice{Move: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	content, err := release.Chart.Content()
	if err != nil {
		t.Fatal(err)
	}
	got, err := helmrelease.Compare(t.Context(), engine(), release, plan, render.NewFiles(content), render.ClusterFacts{})
	if err != nil {
		t.Fatal(err)
	}
	want := helmrelease.Comparison{
		Same: 1, Created: 1, Hooks: []string{"ConfigMap u"},
		Differences: []helmrelease.Difference{
			{Change: helmrelease.Changed, Object: "ConfigMap team/a", Fields: []string{`data.new: (none) -> "x"`, `data.old: "(masked)" -> (none)`}},
			{Change: helmrelease.Changed, Object: "Secret b", Fields: []string{"data.q: (masked) -> (none)"}},
			{Change: helmrelease.Removed, Object: "ConfigMap gone"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOrigins has one chart in each kind of repository.
func TestOrigins(t *testing.T) {
	t.Parallel()
	release := decoded(t, recorded())
	for name, test := range map[string]struct {
		origin           helmrelease.Origin
		chart, tag, path string
	}{
		"helm": {helmrelease.Origin{Repository: "r"}, "web", "1.2.3", ""},
		"oci":  {helmrelease.Origin{Repository: "r", IsOCI: true}, "", "1.2.3", ""},
		"git":  {helmrelease.Origin{Repository: "r", Path: "charts/web"}, "", "", "charts/web"},
	} {
		plan, err := helmrelease.NewPlan(release, "shop", "berlin", test.origin, helmrelease.Choice{Keep: []string{"*"}})
		if err != nil {
			t.Fatal(err)
		}
		object, err := plan.Document(release)
		if err != nil {
			t.Fatal(err)
		}
		source := object.GetService().GetSpec().GetSources()[0]
		if source.GetChart() != test.chart || source.GetRef().GetTag() != test.tag || source.GetPath() != test.path {
			t.Errorf("%s: got %v", name, source)
		}
		if got := object.GetService().GetSpec().GetConfig(); got != nil {
			t.Errorf("%s: got a configuration with %d secrets, want none", name, len(got.GetSecrets()))
		}
		if got := object.GetService().GetSpec().GetRender()[0].GetHelm().GetValues().AsMap()["script"]; got != "${HOME}" {
			t.Errorf("%s: got script %v, want it as it was: nothing replaces it without a configuration", name, got)
		}
	}
}

// TestChoices decides about values that look like secrets.
func TestChoices(t *testing.T) {
	t.Parallel()
	values := map[string]any{
		"auth":  map[string]any{"password": "a", "passwordSecretName": "n", "empty-token": "", "rounds": 3.0},
		"pin":   map[string]any{"token": 1234.0, "password": "007", "passphrase": "42"},
		"users": []any{map[string]any{"name": "ada", "apiKey": "b"}},
		"tls":   "-----BEGIN RSA PRIVATE KEY-----\nx", "a.token": "c", "image": "x",
	}
	looking := []string{`a\.token`, "auth.password", "pin.passphrase", "pin.password", "pin.token", "tls", "users[0].apiKey"}
	if diff := cmp.Diff(looking, helmrelease.SecretPaths(values)); diff != "" {
		t.Fatalf("paths (-want +got):\n%s", diff)
	}
	_, _, err := helmrelease.Choice{Move: []string{"auth.password"}, Keep: []string{"tls", "pin.token", "pin.password", "pin.passphrase"}}.Separate(values)
	if undecided := new(helmrelease.UndecidedError); !errors.As(err, &undecided) || !cmp.Equal(undecided.Paths, []string{`a\.token`, "users[0].apiKey"}) {
		t.Errorf("undecided: got %v", err)
	}
	_, _, err = helmrelease.Choice{Move: []string{"*", "auth"}}.Separate(values)
	if wrong := new(helmrelease.PathError); !errors.As(err, &wrong) || wrong.Path != "auth" {
		t.Errorf("a path of a map: got %v", err)
	}
	rest, secrets, err := helmrelease.Choice{Move: []string{"*", "image"}, Keep: []string{"tls"}}.Separate(values)
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string]string{
		"A_TOKEN": "c", "AUTH_PASSWORD": "a", "USERS_0_APIKEY": "b", "IMAGE": "x",
		"PIN_TOKEN": "1234", "PIN_PASSWORD": "007", "PIN_PASSPHRASE": "42",
	}
	if diff := cmp.Diff(wanted, secrets); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
	if got := rest["users"].([]any)[0].(map[string]any)["apiKey"]; got != "${USERS_0_APIKEY}" {
		t.Errorf("got %v in its place", got)
	}
	expanded, err := (&render.Variables{Secrets: secrets}).Expand("", rest["pin"])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"token": int64(1234), "password": "007", "passphrase": "42"}, expanded); diff != "" {
		t.Errorf("numbers and texts that look like them (-want +got):\n%s", diff)
	}
	if rest["tls"] != values["tls"] {
		t.Errorf("a kept value changed: %v", rest["tls"])
	}
}

// TestDependencies has a chart whose dependencies Helm does not keep.
func TestDependencies(t *testing.T) {
	t.Parallel()
	record := recorded()
	record["chart"].(map[string]any)["metadata"].(map[string]any)["dependencies"] = []any{map[string]any{"name": "redis", "version": "1.x"}}
	_, err := decoded(t, record).Chart.Content()
	if missing := new(helmrelease.DependenciesError); !errors.As(err, &missing) || !cmp.Equal(missing.Missing, []string{"redis 1.x"}) {
		t.Errorf("got %v, want the missing chart", err)
	}
}

// TestSecDecodeIsBounded has a release of some KiB that decompresses to more than the limit, and
// others that are damaged.
func TestSecDecodeIsBounded(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range helmrelease.MaxRelease>>20 + 1 {
		if _, err := z.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"bomb":      []byte(base64.StdEncoding.EncodeToString(bomb.Bytes())),
		"no base64": []byte("%%"), "empty": nil, "no JSON": packed(t, []byte("x")), "no release": packed(t, []byte("{}")),
		"cut": packed(t, []byte(`{"name":"a"}`))[:20],
	} {
		if _, err := helmrelease.Decode(data); err == nil {
			t.Errorf("%s: got no error", name)
		} else if name == "bomb" && !strings.Contains(err.Error(), "more than 32 MiB") {
			t.Errorf("bomb: got %v, want the limit", err)
		}
	}
}

// TestSecChartStaysInItsFolder has charts whose files have names that lead out of the folder.
func TestSecChartStaysInItsFolder(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"../x", "/etc/x", "a/../../x", `..\x`, "templates/../../x", "", "."} {
		record := recorded()
		record["chart"].(map[string]any)["files"] = []any{map[string]any{"name": name, "data": ""}}
		if _, err := decoded(t, record).Chart.Content(); err == nil {
			t.Errorf("%q: got no error", name)
		}
	}
	outer := t.TempDir()
	if err := helmrelease.WriteChart(filepath.Join(outer, "chart"), map[string][]byte{"../x": []byte("x")}); err == nil {
		t.Error("a file was written out of the folder")
	}
	if _, err := os.Stat(filepath.Join(outer, "x")); err == nil {
		t.Error("a file lies outside of the folder")
	}
}

// TestSecNamesAreSegments has objects whose names would lead a request to other objects.
func TestSecNamesAreSegments(t *testing.T) {
	t.Parallel()
	for _, metadata := range []string{`name: "../secrets/x"`, `name: ".."`, `name: "a%2f..%2fb"`, `name: a, namespace: "../../x"`} {
		record := recorded()
		record["manifest"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {" + metadata + "}\n"
		if objects, err := helmrelease.Applied(t.Context(), engine(), decoded(t, record)); err == nil {
			t.Errorf("%s: got %d objects, want an error", metadata, len(objects))
		}
	}
}

// FuzzDecode reads anything as a release.
func FuzzDecode(f *testing.F) {
	text, err := json.Marshal(recorded())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed(f, text))
	f.Add([]byte(base64.StdEncoding.EncodeToString(text)))
	f.Add([]byte("e30="))
	f.Fuzz(func(t *testing.T, data []byte) {
		release, err := helmrelease.Decode(data)
		if err != nil {
			return
		}
		if release.Name == "" {
			t.Error("a release without a name")
		}
		helmrelease.SecretPaths(release.Values)
		_, _ = release.Chart.Content()
	})
}
