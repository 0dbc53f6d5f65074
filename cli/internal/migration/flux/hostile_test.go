// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package flux_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/leatdev/leat/cli/internal/migration"
	"github.com/leatdev/leat/cli/internal/migration/flux"
	"github.com/leatdev/leat/internal/contract/document"
)

// parse returns the objects in a text.
func parse(t testing.TB, text string) []migration.Object {
	t.Helper()
	objects, unread, err := migration.Read(t.Context(), flux.Tool(), []string{"-"}, strings.NewReader(text))
	if err != nil || len(unread) > 0 {
		t.Fatalf("read: %v, %v", unread, err)
	}
	return objects
}

// translate translates objects, and checks what holds for every import. ConfigMaps need no entry.
func translate(t testing.TB, objects []migration.Object) migration.Result {
	t.Helper()
	result := flux.Translate(objects, settings)
	var want, got []string
	for _, o := range objects {
		if o.Kind != "ConfigMap" {
			want = append(want, o.String())
		}
	}
	made := map[string]bool{}
	for _, d := range result.Documents {
		made[migration.ID(d)] = true
		if err := migration.Validate(d); err != nil {
			t.Errorf("%s: %v", migration.ID(d), err)
		}
	}
	for _, entry := range result.Entries {
		if !strings.HasPrefix(entry.Object, "ConfigMap ") {
			got = append(got, entry.Object)
		}
		check(t, entry, made)
	}
	if !slices.Equal(want, got) {
		t.Errorf("got entries of %q, want %q", got, want)
	}
	return result
}

// check checks an entry: it names documents that exist, or says why it names none, in short lines.
func check(t testing.TB, entry migration.Entry, made map[string]bool) {
	t.Helper()
	if len(entry.Documents) == 0 && len(entry.Notes) == 0 {
		t.Errorf("%s became nothing, and no note says why", entry.Object)
	}
	for _, id := range entry.Documents {
		if !made[id] {
			t.Errorf("%s names %s, which was not made", entry.Object, id)
		}
	}
	for _, note := range entry.Notes {
		for _, text := range []string{entry.Object, note.Field, note.Reason} {
			if strings.ContainsAny(text, "\n\r\t") || utf8.RuneCountInString(text) > 301 {
				t.Errorf("not a short line: %q", text)
			}
		}
	}
}

const fleet = `
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: fleet, namespace: a}
spec: {url: "https://git.example.com/fleet"}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: charts, namespace: a}
spec: {url: "https://charts.example.com"}
---
`

// repeat returns a list in YAML.
func repeat(n int, format string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = strings.ReplaceAll(format, "N", fmt.Sprint(i))
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// kustomization returns a Kustomization with more fields.
func kustomization(name, fields string) string {
	return fmt.Sprintf("apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: %q, namespace: a}\n"+
		"spec: {sourceRef: {kind: GitRepository, name: fleet}, path: a, prune: true, %s}\n---\n", name, fields)
}

// release returns a HelmRelease with more fields.
func release(name, fields string) string {
	return fmt.Sprintf("apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: %q, namespace: a}\n"+
		"spec: {chart: {spec: {chart: web, sourceRef: {kind: HelmRepository, name: charts}}}, %s}\n---\n", name, fields)
}

// TestHostileObjects imports what no honest person writes. want is the number of services.
func TestHostileObjects(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("{a: ", 500) + "1" + strings.Repeat("}", 500)
	many := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: many, namespace: a}\ndata: {values.yaml: \"" + strings.Repeat("x", 70<<10) + "\", " +
		"bomb: \"{a: &a [1,1,1,1,1,1,1,1], b: &b [*a,*a,*a,*a,*a,*a,*a,*a], c: &c [*b,*b,*b,*b,*b,*b,*b,*b], d: &d [*c,*c,*c,*c,*c,*c,*c,*c], " +
		"e: &e [*d,*d,*d,*d,*d,*d,*d,*d], f: &f [*e,*e,*e,*e,*e,*e,*e,*e], g: &g [*f,*f,*f,*f,*f,*f,*f,*f], h: [*g,*g,*g,*g,*g,*g,*g,*g]}\", " +
		"set: \"1,a" + strings.Repeat("[999]", 200) + "=2\"}\n---\n"
	for name, test := range map[string]struct {
		text string
		want int
	}{
		"names of other writing":        {kustomization("\u202egnp", "interval: 1m") + kustomization("ä\u2066\n", "targetNamespace: \"\u202e\""), 1},
		"a path of other writing":       {kustomization("a", "path: \"\u202e/b\nc\"") + kustomization("b", `path: "a\\b"`), 1},
		"services that wait for others": {kustomization("a", "dependsOn: [{name: b}]") + kustomization("b", "dependsOn: [{name: c}]") + kustomization("c", "dependsOn: [{name: a}]"), 3},
		"a service that waits for many": {kustomization("a", "dependsOn: "+repeat(500, "{name: b}")) + kustomization("b", "interval: 1m"), 2},
		"many rules":                    {kustomization("a", "ignore: "+repeat(500, "{paths: [/a/N]}")), 1},
		"a rule of many fields":         {kustomization("a", "ignore: [{paths: "+repeat(500, "/a/N")+"}]"), 1},
		"many rules of health":          {kustomization("a", "healthCheckExprs: "+repeat(200, "{apiVersion: v1, kind: KN, current: status.a}")), 1},
		"a rule that is no expression":  {kustomization("a", `healthCheckExprs: [{apiVersion: v1, kind: K, current: "true) || (true"}, {apiVersion: v1, kind: K, current: "(("}]`), 1},
		"many variables":                {kustomization("a", "postBuild: {substitute: {"+strings.Trim(repeat(300, "KN: a"), "[]")+"}}"), 0},
		"a long variable":               {kustomization("a", "postBuild: {substitute: {A: "+strings.Repeat("x", 65<<10)+"}}"), 0},
		"many maps of variables":        {kustomization("a", "postBuild: {substituteFrom: "+repeat(500, "{kind: ConfigMap, name: many}")+"}") + many, 1},
		"deep values":                   {release("a", "values: "+deep), 0},
		"long values":                   {release("a", "values: {a: "+strings.Repeat("x", 65<<10)+"}"), 0},
		"long values of a map":          {release("a", "valuesFrom: "+repeat(500, "{kind: ConfigMap, name: many}")) + many, 1},
		"values that grow":              {release("a", "valuesFrom: [{kind: ConfigMap, name: many, valuesKey: bomb}]") + many, 1},
		"a path of many places": {
			release("a", "valuesFrom: [{kind: ConfigMap, name: many, valuesKey: set, targetPath: b}, {kind: ConfigMap, name: many, valuesKey: bomb, targetPath: \"a[9999999999999999999]\"}]") + many, 1,
		},
		"many files of values": {release("a", "chart: {spec: {chart: web, sourceRef: {kind: HelmRepository, name: charts}, valuesFiles: "+repeat(500, "fN.yaml")+"}}"), 0},
		"a chart in itself": {
			"apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmChart\nmetadata: {name: c, namespace: a}\nspec: {chart: c, sourceRef: {kind: HelmChart, name: c}}\n---\n" +
				"apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: r, namespace: a}\nspec: {chartRef: {kind: HelmChart, name: c}}\n---\n", 0,
		},
		"a command in a name": {release("a", `releaseName: "$(reboot)"`) + release("b", `storageNamespace: "; reboot"`), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.ReplaceAll(fleet+test.text, "path: a, prune: true, path:", "prune: true, path:")
			text = strings.ReplaceAll(text, "spec: {chart: {spec: {chart: web, sourceRef: {kind: HelmRepository, name: charts}}}, chart:", "spec: {chart:")
			result, got := translate(t, parse(t, text)), 0
			for _, d := range result.Documents {
				if d.GetService() != nil {
					got++
				}
			}
			if got != test.want {
				t.Errorf("got %d services, want %d: %+v", got, test.want, result.Entries)
			}
			for _, entry := range result.Entries {
				for _, note := range entry.Notes {
					if strings.Contains(note.Reason, "reboot") && strings.Contains(note.Reason, "leat import") {
						t.Errorf("a command holds a text of others: %s", note.Reason)
					}
				}
			}
		})
	}
}

// TestServicesWaitInACircle keeps what the objects say: each waits for the next one.
func TestServicesWaitInACircle(t *testing.T) {
	t.Parallel()
	result := translate(t, parse(t, fleet+kustomization("a", "dependsOn: [{name: b}]")+kustomization("b", "dependsOn: [{name: a}]")))
	got := map[string]string{}
	for _, d := range result.Documents {
		for _, on := range d.GetService().GetSpec().GetPolicy().GetDependsOn() {
			got[d.GetService().GetMetadata().GetName()] = on.GetService()
		}
	}
	if want := map[string]string{"a": "b", "b": "a"}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestLittleMakesNoHugeOutput copies the patterns of one source into many services, up to the bound of an import.
func TestLittleMakesNoHugeOutput(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: fleet, namespace: a}\nspec:\n" +
		"  url: https://git.example.com/fleet\n  ignore: |\n" + strings.Repeat("    "+strings.Repeat("x", 1000)+"\n", 100) + "---\n")
	for i := range 700 {
		text.WriteString(kustomization(fmt.Sprint("k", i), "interval: 1m"))
	}
	result := translate(t, parse(t, text.String()))
	bytes, without := 0, 0
	for _, d := range result.Documents {
		bytes += proto.Size(d)
		if spec := d.GetService().GetSpec(); spec != nil && spec.GetSources()[0].GetExclude() == nil {
			without++
		}
	}
	if bytes > 65<<20 || without == 0 {
		t.Errorf("got %d bytes of documents, %d of which are without the patterns", bytes, without)
	}
	if documents := len(result.Documents); documents != 701 {
		t.Errorf("got %d documents", documents)
	}
}

// TestNobodyKnowsTheCluster imports no service without the cluster in which Flux runs, and names the flag.
func TestNobodyKnowsTheCluster(t *testing.T) {
	t.Parallel()
	result := flux.Translate(read(t, "kustomizations"), migration.Settings{})
	for _, entry := range result.Entries {
		if strings.HasPrefix(entry.Object, "Kustomization tenants/full") {
			if len(entry.Documents) > 0 || entry.Notes[0].Reason != "say with --cluster NAME in which cluster Flux runs" {
				t.Errorf("got %+v", entry)
			}
			return
		}
	}
	t.Error("the object has no entry")
}

// TestLiveServicesOfAProject makes services that deliver at once, in a project of their own.
func TestLiveServicesOfAProject(t *testing.T) {
	t.Parallel()
	result := flux.Translate(read(t, "charts"), migration.Settings{Project: "web", Cluster: "prod", Live: true})
	for _, d := range result.Documents {
		if document.Metadata(d).GetProject() != "web" || d.GetService().GetSpec().GetDryRun() {
			t.Errorf("got %v", d)
		}
	}
}

// TestKinds lists each kind that the cases have, and no other one but Terraform's, which stands for many.
func TestKinds(t *testing.T) {
	t.Parallel()
	has, listed := map[string]bool{}, map[string]bool{}
	for _, name := range cases(t) {
		for _, o := range read(t, name) {
			if o.Kind != "ConfigMap" {
				has[o.Group+" "+o.Kind] = true
			}
		}
	}
	for _, kind := range flux.Kinds() {
		listed[kind.Group+" "+kind.Kind] = true
	}
	if !maps.Equal(has, listed) {
		t.Errorf("the cases have %v, and the list has %v", slices.Sorted(maps.Keys(has)), slices.Sorted(maps.Keys(listed)))
	}
}
