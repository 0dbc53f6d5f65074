// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// takeoverScenarios take over a release that the real Helm program has installed. Helm 4 applies on
// the server, and without that it works as Helm 3.
func takeoverScenarios() map[string]func(*scenario) {
	return map[string]func(*scenario){
		"a release of Helm 4 is taken over without a restart": func(s *scenario) { s.takeOver("--server-side=true") },
		"a release as of Helm 3 is taken over as well":        func(s *scenario) { s.takeOver("--server-side=false") },
	}
}

// releasedChart is a chart with a workload, a Secret, a hook for the installation, and objects that
// differ between an installation and an upgrade.
var releasedChart = map[string]string{
	"Chart.yaml":  "apiVersion: v2\nname: web\nversion: 1.2.3\n",
	"values.yaml": "image: registry.example/web:1\nreplicas: 1\npassword: none\n",
	"templates/web.yaml": `apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}-web
  labels: {app.kubernetes.io/managed-by: {{ .Release.Service }}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {checksum: "{{ .Values.password | sha256sum }}"}}
    spec: {containers: [{name: web, image: {{ .Values.image | quote }}, env: [{name: NAME, value: {{ .Release.Name }}}]}]}
`,
	"templates/secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData: {password: {{ .Values.password | quote }}}\n",
	"templates/first.yaml":  "{{ if .Release.IsInstall }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: first, annotations: {helm.sh/resource-policy: keep}}\n{{ end }}\n",
	"templates/hook.yaml":   "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: seeded, annotations: {helm.sh/hook: post-install}}\n",
}

// helm runs the Helm program in the scenario's namespace, and returns what it prints.
func (s *scenario) helm(args ...string) string {
	s.t.Helper()
	binaries, err := localkube.Build(s.t.Context(), localkube.BuildParams{Helm: true})
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(s.t.Context(), binaries.Helm, append(args, "--namespace", s.name)...)
	home := s.t.TempDir()
	cmd.Env = []string{"HOME=" + home, "PATH=", "KUBECONFIG=" + s.cp.KubeconfigPath()}
	var words bytes.Buffer
	cmd.Stderr = &words
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("helm %s: %v: %s", strings.Join(args, " "), err, words.String())
	}
	return string(out)
}

// releases returns the releases that helm list shows, as "NAME REVISION STATUS CHART".
func (s *scenario) releases() []string {
	s.t.Helper()
	var list []struct{ Name, Revision, Status, Chart string }
	if err := json.Unmarshal([]byte(s.helm("list", "--output", "json")), &list); err != nil {
		s.t.Fatal(err)
	}
	var all []string
	for _, r := range list {
		all = append(all, strings.Join([]string{r.Name, r.Revision, r.Status, r.Chart}, " "))
	}
	return all
}

// takeOver installs a release with Helm, lets the service take it over with the step that leat
// import helm writes, and compares the cluster before and after.
func (s *scenario) takeOver(install string) {
	dir := s.t.TempDir()
	for name, content := range releasedChart {
		path := filepath.Join(dir, "web", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	s.helm("install", "shop", filepath.Join(dir, "web"), "--create-namespace", "--set=replicas=2,password=hunter2", install, "--wait", "--timeout=60s")
	workload := func() (uids []string) { // of ReplicaSets and Pods
		for _, collection := range []string{"/apis/apps/v1/namespaces/" + s.name + "/replicasets", "/api/v1/namespaces/" + s.name + "/pods"} {
			_, list := s.request(s.t, "GET", collection+"?labelSelector=app=web", "", "")
			items, _ := list["items"].([]any)
			for _, item := range items {
				o, _ := item.(map[string]any)
				uids = append(uids, uidOf(o))
			}
		}
		slices.Sort(uids)
		return uids
	}
	before := map[string]map[string]any{}
	for _, name := range []string{"Deployment/shop-web", "Secret/web", "ConfigMap/seeded", "ConfigMap/first"} {
		kind, name, _ := strings.Cut(name, "/")
		before[kind+"/"+name] = s.get(kind, name)
	}
	running := workload()
	if len(running) != 3 {
		s.t.Fatalf("got %d ReplicaSets and Pods of the release, want 1 and 2", len(running))
	}

	step := func(replicas float64) renderstep.Step {
		return renderstep.Step{Path: "chart", Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{
			ReleaseName: "shop", Installed: true, Values: map[string]any{"replicas": replicas, "password": "hunter2"},
		}}
	}
	status := s.applied(s.chart(map[string]map[string]string{"chart": releasedChart}, step(2)))
	if status.Counts.Total != 2 {
		s.t.Errorf("got %d objects of the service, want the Deployment and the Secret", status.Counts.Total)
	}
	for _, name := range []string{"Deployment/shop-web", "Secret/web"} {
		kind, name, _ := strings.Cut(name, "/")
		was, is := before[kind+"/"+name], s.get(kind, name)
		if uidOf(is) != uidOf(was) {
			s.t.Errorf("%s %s was created again", kind, name)
		}
		for _, part := range []string{"spec", "data"} {
			if fmt.Sprint(is[part]) != fmt.Sprint(was[part]) {
				s.t.Errorf("%s %s: %s changed from %v to %v", kind, name, part, was[part], is[part])
			}
		}
		if got := at(is, "metadata", "labels", k8s.ServiceLabel); got != s.name {
			s.t.Errorf("%s %s: got service %v, want %s", kind, name, got, s.name)
		}
		if got := at(is, "metadata", "annotations", "meta.helm.sh/release-name"); got != nil {
			s.t.Errorf("%s %s: still names Helm's release %v", kind, name, got)
		}
	}
	if now := workload(); !slices.Equal(now, running) {
		s.t.Errorf("ReplicaSets and Pods: got %v, want the same as before, %v", now, running)
	}
	// Objects that the chart makes for an installation only stay as Helm has left it.
	for _, name := range []string{"seeded", "first"} {
		is := s.get("ConfigMap", name)
		if uidOf(is) != uidOf(before["ConfigMap/"+name]) || at(is, "metadata", "labels", k8s.ServiceLabel) != nil {
			s.t.Errorf("ConfigMap %s: got labels %v, want it untouched", name, at(is, "metadata", "labels"))
		}
	}
	// The release's Secrets are Helm's: helm list shows them until a person retires the release.
	if got := s.releases(); !slices.Equal(got, []string{"shop 1 deployed web-1.2.3"}) {
		s.t.Errorf("helm list: got %v, want the release as it was", got)
	}
	// A later change is a change like any other.
	s.applied(s.chart(map[string]map[string]string{"chart": releasedChart}, step(3)))
	if got := fmt.Sprint(at(s.get("Deployment", "shop-web"), "spec", "replicas")); got != "3" {
		s.t.Errorf("after a change: got %s replicas, want 3", got)
	}
}
