// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/renderstep/renderstepwire"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/contract/syncrequest"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	configuration "github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// shopChart is a chart with a definition, an object of it, hooks, a test, a subchart and a generated
// password.
func shopChart(version, hook string) map[string]string {
	return map[string]string{
		"Chart.yaml":                    "apiVersion: v2\nname: shop\nversion: " + version + "\ndependencies: [{name: cache, version: 1.x, condition: cache.enabled}]\n",
		"values.yaml":                   "color: blue\ncache: {enabled: true}\n",
		"charts/cache/Chart.yaml":       "apiVersion: v2\nname: cache\nversion: 1.0.0\n",
		"charts/cache/templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}-cache\"}\n",
		"templates/_helpers.tpl":        "{{- define \"color\" }}{{ .Values.color }}{{ end }}",
		"templates/config.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data:
  chart: {{ .Chart.Version | quote }}
  color: {{ include "color" . }}
  release: "{{ .Release.Name }} {{ .Release.Namespace }} {{ .Release.IsInstall }} {{ .Release.IsUpgrade }}"
  kubernetes: {{ .Capabilities.KubeVersion.Version }}
  knows: "{{ .Capabilities.APIVersions.Has "apps/v1/Deployment" }} {{ .Capabilities.APIVersions.Has "nothing.test/v1" }}"
`,
		"templates/password.yaml": `apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {password: {{ randAlphaNum 16 | quote }}}
`,
		"templates/hooks.yaml": job("before", "helm.sh/hook=pre-install") + "\n---\n" + job("migrate", "helm.sh/hook=pre-upgrade", "helm.sh/hook-delete-policy=before-hook-creation"),
		"templates/hook.yaml":  hook,
		"templates/test.yaml":  job("check", "helm.sh/hook=test"),
		"templates/NOTES.txt":  "Thank you.\n",
	}
}

// chart plans the files of sources at their mounts, with render steps.
func (s *scenario) chart(sources map[string]map[string]string, steps ...renderstep.Step) plan.Service {
	s.t.Helper()
	s.spec.Render = steps
	var bundles []plan.Bundle
	for _, mount := range slices.Sorted(maps.Keys(sources)) {
		d := s.bundles.add(s.t, sources[mount])
		bundles = append(bundles, plan.Bundle{Digest: d, Commit: "c", Repository: "demo", Path: mount, Mount: mount})
	}
	return s.set(s.name, s.spec, bundles...)
}

// applied waits until exactly these sources are applied and healthy.
func (s *scenario) applied(service plan.Service) report.Status {
	s.t.Helper()
	var want []string
	for _, b := range service.Bundles {
		want = append(want, b.Digest.String())
	}
	return s.await(s.t, service.Name, func(got report.Status) bool {
		return got.Phase == report.Healthy && got.Observed.SpecDigest == service.SpecDigest && slices.Equal(got.Applied.Digests, want)
	})
}

func (s *scenario) data(kind, name, key string) string {
	s.t.Helper()
	return fmt.Sprint(at(s.get(kind, name), "data", key))
}

func chartScenarios() map[string]func(*scenario) {
	helm := func(o renderstep.HelmOptions) renderstep.Step {
		return renderstep.Step{Path: "chart", Renderer: renderstep.Helm, Helm: &o}
	}
	return map[string]func(*scenario){
		"a chart is installed, upgraded, fails in a hook and goes back": func(s *scenario) {
			first := s.chart(map[string]map[string]string{"chart": shopChart("1.0.0", "")}, helm(renderstep.HelmOptions{ReleaseName: "shop"}))
			s.applied(first)
			s.present("ConfigMap/web", "ConfigMap/shop-cache", "Secret/password", "Job/before")
			s.absent("Job/migrate")
			password := s.data("Secret", "password", "password")
			if got := s.data("ConfigMap", "web", "release"); got != "shop "+s.name+" true false" {
				s.t.Errorf("installation: got %q", got)
			}
			if got := s.data("ConfigMap", "web", "knows"); got != "true false" {
				s.t.Errorf("capabilities: got %q", got)
			}
			if got := s.data("ConfigMap", "web", "kubernetes"); !strings.HasPrefix(got, "v1.") {
				s.t.Errorf("version: got %q", got)
			}

			s.refresh(first)
			if got := s.data("ConfigMap", "web", "release"); got != "shop "+s.name+" true false" {
				s.t.Errorf("rendered again: got %q, want what was installed", got)
			}

			second := s.chart(map[string]map[string]string{"chart": shopChart("1.1.0", "")}, helm(renderstep.HelmOptions{ReleaseName: "shop"}))
			s.applied(second)
			s.present("Job/migrate")
			if got := s.data("ConfigMap", "web", "release"); got != "shop "+s.name+" false true" {
				s.t.Errorf("upgrade: got %q", got)
			}

			bad := s.chart(map[string]map[string]string{"chart": shopChart("1.2.0", failingJob("bad", "helm.sh/hook=pre-upgrade"))},
				helm(renderstep.HelmOptions{ReleaseName: "shop"}))
			s.await(s.t, s.name, func(got report.Status) bool {
				return got.Phase == report.Failed && got.Problem.Reason == reason.HookFailed && got.Observed.Digests[0] == bad.Bundles[0].Digest.String()
			})
			if got := s.data("ConfigMap", "web", "chart"); got != "1.1.0" {
				s.t.Errorf("after a failed hook: got version %s applied, want 1.1.0", got)
			}

			s.applied(s.chart(map[string]map[string]string{"chart": shopChart("1.1.0", "")}, helm(renderstep.HelmOptions{ReleaseName: "shop"})))
			if got := s.data("Secret", "password", "password"); got != password {
				s.t.Errorf("the generated password changed on the way")
			}
		},
		"a chart, values from another repository, and patches behind it": func(s *scenario) {
			service := s.chart(map[string]map[string]string{
				"chart": shopChart("1.0.0", ""),
				"deploy": {
					"values.yaml":                "color: green\ncache: {enabled: false}\n",
					"patches/kustomization.yaml": "commonAnnotations: {patched: \"yes\"}\n",
					"extra/a.yaml":               "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n",
				},
			},
				helm(renderstep.HelmOptions{ValuesFiles: []string{"deploy/values.yaml", "deploy/values-eu.yaml?"}, Parameters: map[string]string{"other": "x"}, SkipTests: true}),
				renderstep.Step{Path: "deploy/patches", FromPrevious: true, Renderer: renderstep.Kustomize},
				renderstep.Step{Path: "deploy/extra", Renderer: renderstep.Plain})
			s.applied(service)
			s.present("ConfigMap/extra")
			s.absent("ConfigMap/" + s.name + "-cache")
			if got := s.data("ConfigMap", "web", "color"); got != "green" {
				s.t.Errorf("values: got %q, want green", got)
			}
			if got := at(s.get("ConfigMap", "web"), "metadata", "annotations", "patched"); got != "yes" {
				s.t.Errorf("patch: got %v", got)
			}
			if got := at(s.get("ConfigMap", "extra"), "metadata", "annotations", "patched"); got != nil {
				s.t.Errorf("what was not patched: got %v", got)
			}
		},
		"generated values stay, and go with the service": func(s *scenario) {
			service := s.put(s.t, s.name, shopChart("1.0.0", ""), s.spec) // the chart is recognised without any step
			s.healthy(service)
			password, version := s.data("Secret", "password", "password"), at(s.get("Secret", "password"), "metadata", "resourceVersion")
			generated, err := s.client.Generated().Load(s.t.Context(), s.name)
			if err != nil || len(generated) != 1 {
				s.t.Fatalf("kept values: got %d, %v, want 1", len(generated), err)
			}
			for range 3 {
				s.refresh(service)
			}
			if got := s.data("Secret", "password", "password"); got != password || at(s.get("Secret", "password"), "metadata", "resourceVersion") != version {
				s.t.Errorf("the generated password was written again")
			}
			request := syncrequest.New(true)
			s.again(service, request)
			s.await(s.t, s.name, func(got report.Status) bool {
				return got.ObservedSyncRequest == request && got.Phase == report.Healthy
			})
			if s.data("Secret", "password", "password") == password {
				s.t.Errorf("a person asked for another password, and it stays")
			}
			s.drop(s.name)
			s.gone(s.t, s.name)
			if generated, err := s.client.Generated().Load(s.t.Context(), s.name); err != nil || len(generated) != 0 {
				s.t.Errorf("after the removal: got %d values kept, %v, want none", len(generated), err)
			}
		},
		"the example of charts": func(s *scenario) {
			steps, variables := exampleSteps(s.t)
			s.configs.set("config-of-the-example", configuration.Configuration{Variables: variables})
			service := s.chart(map[string]map[string]string{
				"chart": filesBelow(s.t, "charts/web"), "deploy": filesBelow(s.t, "deploy/shop"),
			}, steps...)
			service.ConfigDigest = "config-of-the-example"
			s.applied(s.again(service, "with the configuration"))
			if got := fmt.Sprint(at(s.get("Deployment", s.name+"-web"), "spec", "template", "spec", "containers")); !strings.Contains(got, variables.Values["TAG"]) {
				s.t.Errorf("Deployment: got containers %s, want the tag %s", got, variables.Values["TAG"])
			}
		},
		"what templates look up": func(s *scenario) {
			s.create("ConfigMap", `{"metadata":{"name":"there"},"data":{"a":"1"}}`)
			s.create("ConfigMap", `{"metadata":{"name":"hidden"},"data":{"a":"2"}}`)
			files := map[string]string{
				"Chart.yaml": "apiVersion: v2\nname: looks\nversion: 1.0.0\n",
				"templates/a.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: seen}
data:
  there: {{ (lookup "v1" "ConfigMap" .Release.Namespace "there").data.a | quote }}
  hidden: {{ len (lookup "v1" "ConfigMap" .Release.Namespace "hidden") | quote }}
  missing: {{ len (lookup "v1" "ConfigMap" .Release.Namespace "missing") | quote }}
  namespace: {{ (lookup "v1" "Namespace" "" .Release.Namespace).metadata.name }}
  unknown: {{ len (lookup "nothing.test/v1" "Nothing" "" "").items | quote }}
  jobs: {{ len (lookup "batch/v1" "Job" .Release.Namespace "").items | quote }}
`,
			}
			s.applied(s.chart(map[string]map[string]string{"chart": files}, helm(renderstep.HelmOptions{Lookup: []renderstep.LookupRule{
				{APIVersion: "v1", Kind: "ConfigMap", Name: "there"},
				{APIVersion: "v1", Kind: "ConfigMap", Name: "missing"},
				{APIVersion: "v1", Kind: "Namespace", Name: s.name},
				{APIVersion: "nothing.test/v1", Kind: "Nothing", Name: "*"},
				{APIVersion: "batch/v1", Kind: "Job", Name: "*"},
			}})))
			for key, want := range map[string]string{"there": "1", "hidden": "0", "missing": "0", "namespace": s.name, "unknown": "0", "jobs": "0"} {
				if got := s.data("ConfigMap", "seen", key); got != want {
					s.t.Errorf("%s: got %q, want %q", key, got, want)
				}
			}
		},
		"warnings of a chart are in its status until they are gone": func(s *scenario) {
			files := func(template string) map[string]string {
				return map[string]string{
					"Chart.yaml":       "apiVersion: v2\nname: warns\nversion: 1.0.0\n",
					"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {found: \"" + template + "\"}\n",
				}
			}
			warned := s.chart(map[string]map[string]string{"chart": files(`{{ len (lookup "v1" "Namespace" "" "default") }}`)}, helm(renderstep.HelmOptions{}))
			status := s.applied(warned)
			if len(status.Warnings) != 1 || !strings.Contains(status.Warnings[0], "function lookup") {
				s.t.Errorf("got warnings %q, want the one about lookup", status.Warnings)
			}
			s.refresh(warned)
			if status = s.applied(warned); len(status.Warnings) != 1 {
				s.t.Errorf("after a refresh: got warnings %q, want the same", status.Warnings)
			}
			if status = s.applied(s.chart(map[string]map[string]string{"chart": files("0")}, helm(renderstep.HelmOptions{}))); len(status.Warnings) != 0 {
				s.t.Errorf("after a correction: got warnings %q, want none", status.Warnings)
			}
		},
		"definitions of a chart": func(s *scenario) {
			definition := func(field string) string {
				return `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.charts.test}
spec:
  group: charts.test
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {` + field + `: {type: string}}}}}}
`
			}
			files := func(field string) map[string]string {
				return map[string]string{
					"Chart.yaml":            "apiVersion: v2\nname: gadgets\nversion: 1.0.0\n",
					"crds/gadgets.yaml":     definition(field),
					"templates/gadget.yaml": "apiVersion: charts.test/v1\nkind: Gadget\nmetadata: {name: a}\nspec: {" + field + ": \"yes\"}\n",
				}
			}
			s.applied(s.chart(map[string]map[string]string{"chart": files("old")}, helm(renderstep.HelmOptions{})))
			s.applied(s.chart(map[string]map[string]string{"chart": files("new")}, helm(renderstep.HelmOptions{})))
			if _, o := s.request(s.t, "GET", "/apis/charts.test/v1/namespaces/"+s.name+"/gadgets/a", "", ""); at(o, "spec", "new") != "yes" {
				s.t.Errorf("the definition was not upgraded: got %v", o["spec"])
			}
		},
		"definitions of a chart that are only created": createdDefinitions,
		"a chart that cannot be rendered changes nothing": func(s *scenario) {
			s.applied(s.chart(map[string]map[string]string{"chart": shopChart("1.0.0", "")}, helm(renderstep.HelmOptions{})))
			broken := shopChart("1.1.0", "{{ .Values.db.host }}\n")
			s.chart(map[string]map[string]string{"chart": broken}, helm(renderstep.HelmOptions{}))
			got := s.await(s.t, s.name, func(got report.Status) bool { return got.Phase == report.Failed })
			if got.Problem.Reason != reason.ManifestInvalid || !strings.Contains(got.Problem.Message, "chart/templates/hook.yaml:1") {
				s.t.Errorf("got %v, want the template and its line", got.Problem)
			}
			s.present("ConfigMap/web", "ConfigMap/"+s.name+"-cache")
		},
	}
}

// createdDefinitions has a chart with two definitions under the policy create: one that another
// client has made in an older form, and one that is missing.
func createdDefinitions(s *scenario) {
	definition := func(plural, field string) string {
		kind := strings.ToUpper(plural[:1]) + plural[1:len(plural)-1]
		return `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ` + plural + `.created.test}
spec:
  group: created.test
  scope: Namespaced
  names: {kind: ` + kind + `, plural: ` + plural + `}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {` + field + `: {type: string}}}}}}
`
	}
	files := func(field, value string) map[string]string {
		return map[string]string{
			"Chart.yaml":         "apiVersion: v2\nname: created\nversion: 1.0.0\n",
			"crds/a.yaml":        definition("bolts", field),
			"crds/b.yaml":        definition("nuts", field),
			"templates/nut.yaml": "apiVersion: created.test/v1\nkind: Nut\nmetadata: {name: a}\nspec: {old: \"" + value + "\"}\n",
		}
	}
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
	read := func(name string) map[string]any {
		s.t.Helper()
		status, o := s.request(s.t, "GET", definitions+name, "", "")
		if status != 200 {
			s.t.Fatalf("definition %s: got status %d", name, status)
		}
		return o
	}
	helm := func(crds renderstep.CRDPolicy) renderstep.Step {
		return renderstep.Step{Path: "chart", Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{CRDs: crds}}
	}
	s.createAs(s.t, "somebody", definitions, definition("bolts", "theirs"))

	status := s.applied(s.chart(map[string]map[string]string{"chart": files("old", "1")}, helm(renderstep.CRDsCreate)))
	if status.Counts.Total != 1 {
		s.t.Errorf("got %d objects of the service, want the Nut alone", status.Counts.Total)
	}
	bolts, nuts := read("bolts.created.test"), read("nuts.created.test")
	if managers := fmt.Sprint(at(bolts, "metadata", "managedFields")); strings.Contains(managers, "manager:leat") || at(bolts, "metadata", "labels") != nil {
		s.t.Errorf("existing definition: got managers %v, labels %v, want it untouched", managers, at(bolts, "metadata", "labels"))
	}
	if got := at(nuts, "metadata", "labels"); got != nil {
		s.t.Errorf("created definition: got labels %v, want none: it is not the service's", got)
	}

	s.applied(s.chart(map[string]map[string]string{"chart": files("new", "2")}, helm(renderstep.CRDsCreate)))
	for name, before := range map[string]map[string]any{"bolts.created.test": bolts, "nuts.created.test": nuts} {
		if now := read(name); at(now, "metadata", "generation") != at(before, "metadata", "generation") || at(now, "metadata", "uid") != at(before, "metadata", "uid") {
			s.t.Errorf("definition %s was changed by an upgrade of the chart", name)
		}
	}
	if _, o := s.request(s.t, "GET", "/apis/created.test/v1/namespaces/"+s.name+"/nuts/a", "", ""); at(o, "spec", "old") != "2" {
		s.t.Errorf("object of the definition: got %v, want the second version", o["spec"])
	}

	// Under apply the definitions become the service's; under create they have no owner again.
	s.spec.ForceConflicts = true // with the manager that has made one of them
	s.applied(s.chart(map[string]map[string]string{"chart": files("old", "3")}, helm(renderstep.CRDsApply)))
	if got := at(read("nuts.created.test"), "metadata", "labels", k8s.ServiceLabel); got != s.name {
		s.t.Errorf("under apply: got service %v, want %s", got, s.name)
	}
	// A garbage collector learns of new kinds every 30 s, and deletion in the foreground waits for it.
	s.spec.Policy.Deletion = syncpolicy.Deletion{Definitions: true, Propagation: syncpolicy.DeleteBackground}
	s.applied(s.chart(map[string]map[string]string{"chart": files("new", "4")}, helm(renderstep.CRDsCreate)))
	if now := read("nuts.created.test"); at(now, "metadata", "labels", k8s.ServiceLabel) != nil || at(now, "metadata", "uid") != at(nuts, "metadata", "uid") {
		s.t.Errorf("back under create: got labels %v, want the same definition without the service's", at(now, "metadata", "labels"))
	}
	s.drop(s.name)
	s.gone(s.t, s.name)
	read("nuts.created.test")
}

// exampleFolder is the example of a chart with values and patches from another repository.
const exampleFolder = "../../../../examples/charts/"

// filesBelow returns the files of a folder of the example.
func filesBelow(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	tree := os.DirFS(exampleFolder + folder)
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(tree, name)
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// exampleSteps returns the render steps of the example's service, and its configuration.
func exampleSteps(t *testing.T) ([]renderstep.Step, render.Variables) {
	t.Helper()
	text, err := os.ReadFile(exampleFolder + "fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(string(text), "\n---\n")
	encoded, err := yaml.YAMLToJSON([]byte(documents[len(documents)-1]))
	if err != nil {
		t.Fatal(err)
	}
	var document struct{ Spec json.RawMessage }
	if err := json.Unmarshal(encoded, &document); err != nil {
		t.Fatal(err)
	}
	var spec fleetv1.ServiceSpec
	if err := protojson.Unmarshal(document.Spec, &spec); err != nil {
		t.Fatal(err)
	}
	steps, err := renderstepwire.Steps("render", spec.GetRender())
	if err != nil {
		t.Fatal(err)
	}
	return steps, render.Variables{Values: spec.GetConfig().GetValues(), Secrets: spec.GetConfig().GetSecrets()}
}
