// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	_ "github.com/leatdev/leat/gen/go/leat/agent/v1"
	_ "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	_ "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	_ "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	optionsv1 "github.com/leatdev/leat/gen/go/leat/options/v1"
	_ "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/test/charts"
)

// installation is one way to install a chart.
type installation struct {
	chart  string
	values string // YAML
}

// installations are the ones that the tests render, lint and install.
func installations() map[string]installation {
	return map[string]installation{
		"trial": {chart: charts.Hub, values: `
database: { mode: trial }
gitcache: { replicas: 1 }
distributor: { replicas: 1 }
tunnel: { replicas: 1 }
networkPolicy: { fromNamespaces: [agents] }
`},
		"external": {chart: charts.Hub, values: `
hub: { url: "https://leat.example.com", tunnelURL: "https://tunnel.example.com:8443" }
image: { registry: registry.example.com, pullSecrets: [registry], digests: { tunnel: "sha256:` + strings.Repeat("a", 64) + `" } }
database: { cidrs: [10.1.0.0/16, "fd00::/64"], port: 6432 }
redis: { mode: external, cidrs: [10.2.0.0/16], port: 6380 }
routes: { kind: ingress, className: nginx, tlsSecretName: leat-public, annotations: { all: "yes" }, agents: { host: agents.example.com, annotations: { all: "no" } } }
gitcache: { egress: [{ to: [{ namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: git } } }], ports: [{ port: 3000 }] }] }
`},
		"ha": {chart: charts.Hub, values: `
size: large
hub: { url: "https://leat.example.com" }
tls: { mode: generated }
routes: { kind: gateway, gateway: { name: public, namespace: gateways } }
gitcache: { replicas: 3, storageClass: fast, pod: { labels: { team: a }, priorityClassName: system-cluster-critical } }
distributor:
  settings: { LEAT_LOG_LEVEL: debug, LEAT_DISTRIBUTOR_AGENT_RATE: 500 }
  env: [{ name: HTTPS_PROXY, value: "http://proxy:3128" }]
  volumes: [{ name: settings, configMap: { name: agent-settings } }]
  volumeMounts: [{ name: settings, mountPath: /etc/leat-agents, readOnly: true }]
  serviceAccountAnnotations: { eks.amazonaws.com/role-arn: "arn:aws:iam::1:role/leat" }
  pod: { annotations: { scrape: "no" }, nodeSelector: { disk: fast }, tolerations: [{ operator: Exists }], affinity: { nodeAffinity: {} } }
tunnel:
  autoscaling: { enabled: true }
  service: { type: LoadBalancer, annotations: { a: b } }
  resources: { requests: { cpu: 1, memory: 1Gi }, limits: { memory: 1Gi } }
monitoring: { serviceMonitor: true, labels: { release: prometheus }, rules: { enabled: true, labels: { release: prometheus } }, dashboards: { enabled: true } }
`},
		"certificates": {chart: charts.Hub, values: `
database: { mode: trial }
tls: { mode: certManager }
`},
		"agent": {chart: charts.Agent, values: `
hub: { url: "https://leat.example.com" }
join: { token: leatjoin_example }
`},
		"newcomer": {chart: charts.Agent, values: `
name: leat-newcomer
hub: { url: "https://leat.example.com" }
join: { token: leatboot_example, cluster: edge-berlin }
`},
		"dialled": {chart: charts.Agent, values: `
name: leat-dialled
dialled: { enabled: true, hubKeys: key, serviceAnnotations: { a: b } }
hub: { ca: "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n" }
replicas: 2
size: large
rights: { view: false, people: none, services: false, groups: { admins: "", operators: "", viewers: "" } }
monitoring: { serviceMonitor: true }
settings: { LEAT_LOG_LEVEL: debug }
pod: { labels: { team: a }, annotations: { b: c } }
`},
		"tenants": {chart: charts.Agent, values: `
name: leat-locked
hub: { url: "https://leat.example.com" }
rights: { services: false, people: constrained, clusterGroups: [dba], groups: { admins: "", operators: "", viewers: "" } }
lockDown: { enabled: true }
tenants: [{ namespace: team-a, createNamespace: true }, { namespace: team-b, account: ci, role: edit, createNamespace: true }]
`},
	}
}

// render returns the objects of an installation by kind and name, in YAML.
func render(t *testing.T, in installation) map[string][]byte {
	t.Helper()
	objects := map[string][]byte{}
	for _, document := range charts.Documents(renderTexts(t, in)) {
		var kind struct {
			metav1.TypeMeta
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		objects[kind.Kind+"/"+kind.Metadata.Name] = []byte(document)
	}
	return objects
}

func renderTexts(t *testing.T, in installation) map[string]string {
	t.Helper()
	texts, err := renderValues(t, in.chart, in.values)
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func renderValues(t *testing.T, name, text string) (map[string]string, error) {
	t.Helper()
	loaded, err := charts.Load(top, name)
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return charts.Render(loaded, charts.Release{Name: "x", Namespace: "hub"}, values)
}

// object returns one of the objects.
func object[T any](t *testing.T, objects map[string][]byte, name string) T {
	t.Helper()
	var into T
	if objects[name] == nil {
		t.Fatalf("there is no %s among %v", name, slices.Sorted(maps.Keys(objects)))
	}
	if err := yaml.UnmarshalStrict(objects[name], &into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return into
}

// TestManifestsFollowFromTheCharts compares the tree with what make manifests would write.
func TestManifestsFollowFromTheCharts(t *testing.T) {
	t.Parallel()
	files, err := charts.Files(top)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(top, name)); err != nil || string(got) != want {
			t.Errorf("%s is stale (%v): run make manifests", name, err)
		}
	}
	for _, folder := range []string{"deploy/kubernetes/*.yaml", "deploy/helm/leat/files/*/*"} {
		found, err := filepath.Glob(filepath.Join(top, folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			name, err := filepath.Rel(top, file)
			if err != nil {
				t.Fatal(err)
			}
			if files[name] == "" {
				t.Errorf("%s is made from nothing", name)
			}
		}
	}
}

// schema is a part of a JSON schema.
type schema struct {
	Type        any               `json:"type"`
	Description string            `json:"description"`
	Additional  any               `json:"additionalProperties"`
	Properties  map[string]schema `json:"properties"`
	Items       *schema           `json:"items"`
}

// TestChartSchemasAreClosed requires that a chart's schema names every value, and nothing else, so
// that a wrong name is an error and not ignored.
func TestChartSchemasAreClosed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{charts.Hub, charts.Agent} {
		folder := filepath.Join(top, "deploy", "helm", name)
		var whole schema
		if err := json.Unmarshal(read(t, folder, "values.schema.json"), &whole); err != nil {
			t.Fatal(err)
		}
		values, err := charts.Values(read(t, folder, "values.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		named := map[string]bool{"global": true}
		for _, v := range values {
			named[v.Path] = true
		}
		var walk func(way string, s schema)
		walk = func(way string, s schema) {
			switch {
			case s.Items != nil:
				walk(way+"[]", *s.Items)
			case s.Type != "object":
			case s.Additional == nil && s.Description == "":
				t.Errorf("%s: %s takes anything, and does not say why", name, way)
			case s.Additional == true:
				t.Errorf("%s: %s takes anything", name, way)
			}
			if strings.HasSuffix(way, "[]") || named[way] {
				return
			}
			if len(s.Properties) == 0 || s.Additional != false {
				t.Errorf("%s: values.schema.json has %s, which values.yaml has not", name, way)
			}
			for key, below := range s.Properties {
				walk(strings.TrimPrefix(way+"."+key, "."), below)
			}
		}
		walk("", whole)
		for _, v := range values {
			at := whole
			for part := range strings.SplitSeq(v.Path, ".") {
				below, isNamed := at.Properties[part]
				if !isNamed {
					t.Errorf("%s: values.schema.json does not have %s", name, v.Path)
					break
				}
				at = below
			}
		}
	}
}

// TestChartsRefuseWrongValues renders with mistakes that people make.
func TestChartsRefuseWrongValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ chart, values, want string }{
		{charts.Agent, `{}`, "hub.url is missing"},
		{charts.Agent, `{hub: {url: leat.example.com}}`, "/hub/url"},
		{charts.Agent, `{hub: {url: "https://x", ur: y}}`, "'ur' not allowed"},
		{charts.Agent, `{dialled: {enabled: true}}`, "dialled.hubKeys is missing"},
		{charts.Agent, `{dialled: {enabled: true, hubKeys: k, port: 8703}}`, "/dialled/port"},
		{charts.Agent, `{hub: {url: "https://x"}, tenants: [{ns: a}]}`, "/tenants/0"},
		{charts.Agent, `{hub: {url: "https://x"}, lockDown: {allowedAccounts: [deployer]}}`, "/lockDown/allowedAccounts/0"},
		{charts.Agent, `{hub: {url: "https://x"}, settings: {loglevel: debug}}`, "loglevel"},
		{charts.Agent, `{hub: {url: "https://x"}, join: {cluster: shop/edge}}`, "/join/cluster"},
		{charts.Hub, `{replicas: 3}`, "'replicas' not allowed"},
		{charts.Hub, `{size: huge}`, "/size"},
		{charts.Hub, `{gitcache: {replicas: "2"}}`, "/gitcache/replicas"},
		{charts.Hub, `{gitcache: {storage: ""}}`, "/gitcache/storage"},
		{charts.Hub, `{database: {mode: sqlite}}`, "/database/mode"},
		{charts.Hub, `{image: {digests: {redis: "sha256:aa"}}}`, "/image/digests"},
		{charts.Hub, `{routes: {people: {paths: [/]}}}`, "/routes/people"},
		{charts.Hub, `{routes: {kind: ingress}}`, "routes need a host"},
		{charts.Hub, `{routes: {kind: gateway, host: a.example.com}}`, "routes.gateway.name is missing"},
	} {
		if _, err := renderValues(t, c.chart, c.values); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: got %v, want an error with %q", c.chart, c.values, err, c.want)
		}
	}
}

// TestChartsRefuseValuesOfAnotherKind gives each value in turn one that is of no kind that it could have,
// and requires an error that names it.
func TestChartsRefuseValuesOfAnotherKind(t *testing.T) {
	t.Parallel()
	wrong := map[byte]string{'{': `"text"`, '[': `"text"`, '"': `[1]`, 't': `"yes"`, 'f': `"yes"`}
	for _, name := range []string{charts.Hub, charts.Agent} {
		values, err := charts.Values(read(t, top, "deploy", "helm", name, "values.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			value, isKnown := wrong[v.Default[0]]
			if !isKnown {
				value = `"2"` // in place of a number
			}
			parts := strings.Split(v.Path, ".")
			document := "{" + strings.Join(parts, ": {") + ": " + value + strings.Repeat("}", len(parts))
			if _, err := renderValues(t, name, document); err == nil || !strings.Contains(err.Error(), "/"+strings.Join(parts, "/")) {
				t.Errorf("%s with %s: got %v, want an error that names the value", name, document, err)
			}
		}
	}
}

// TestChartsAreLinted runs helm lint, strictly.
func TestChartsAreLinted(t *testing.T) {
	t.Parallel()
	helm := helmProgram(t)
	for name, in := range installations() {
		file := filepath.Join(t.TempDir(), "values.yaml")
		if err := os.WriteFile(file, []byte(in.values), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := helm("lint", "--strict", filepath.Join(top, "deploy", "helm", in.chart), "-f", file); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// helmProgram returns a function that runs Helm.
func helmProgram(t *testing.T) func(args ...string) (string, error) {
	t.Helper()
	binaries, err := localkube.Build(t.Context(), localkube.BuildParams{Helm: true})
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	return func(args ...string) (string, error) {
		command := exec.CommandContext(t.Context(), binaries.Helm, args...)
		command.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
		out, err := command.CombinedOutput()
		return string(bytes.TrimSpace(out)), err
	}
}

// TestHubStandsDisruptions checks what keeps the hub up while pods come and go.
func TestHubStandsDisruptions(t *testing.T) {
	t.Parallel()
	objects := render(t, installations()["ha"])
	templates := map[string]corev1.PodTemplateSpec{
		"gitcache":    object[appsv1.StatefulSet](t, objects, "StatefulSet/gitcache").Spec.Template,
		"distributor": object[appsv1.StatefulSet](t, objects, "StatefulSet/distributor").Spec.Template,
		"tunnel":      object[appsv1.Deployment](t, objects, "Deployment/tunnel").Spec.Template,
	}
	const drain = 25 // seconds; the default of LEAT_DRAIN_TIMEOUT
	for name, template := range templates {
		c := template.Spec.Containers[0]
		if c.Lifecycle == nil || c.Lifecycle.PreStop == nil || c.Lifecycle.PreStop.Sleep == nil ||
			c.Lifecycle.PreStop.Sleep.Seconds+drain >= *template.Spec.TerminationGracePeriodSeconds {
			t.Errorf("%s: got %+v and %d s, want a pause before the stop, and time to drain after it", name, c.Lifecycle, *template.Spec.TerminationGracePeriodSeconds)
		}
		budget := object[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget/"+name)
		if budget.Spec.MaxUnavailable.IntVal != 1 || budget.Spec.Selector.MatchLabels["app.kubernetes.io/name"] != name {
			t.Errorf("%s: got budget %+v, want one pod away at a time", name, budget.Spec)
		}
		if spread := template.Spec.TopologySpreadConstraints; len(spread) != 2 || spread[0].LabelSelector.MatchLabels["app.kubernetes.io/name"] != name {
			t.Errorf("%s: got %+v, want replicas spread over nodes and zones", name, spread)
		}
		if env(c, "LEAT_ALLOW_PLAINTEXT_SERVICES") != "" || env(c, "LEAT_TLS_CERT_FILE") == "" {
			t.Errorf("%s: services speak without TLS", name)
		}
	}
	if d := object[appsv1.Deployment](t, objects, "Deployment/tunnel"); d.Spec.Replicas != nil {
		t.Error("the tunnel's Deployment has replicas, which every upgrade would set back for the autoscaler")
	}
	scaler := object[autoscalingv2.HorizontalPodAutoscaler](t, objects, "HorizontalPodAutoscaler/tunnel")
	if scaler.Spec.ScaleTargetRef.Name != "tunnel" || *scaler.Spec.MinReplicas < 2 || *scaler.Spec.Behavior.ScaleDown.StabilizationWindowSeconds < 300 {
		t.Errorf("got autoscaler %+v, want at least two replicas, and fewer slowly", scaler.Spec)
	}
	for name := range render(t, installations()["trial"]) {
		if strings.HasPrefix(name, "PodDisruptionBudget/") {
			t.Errorf("the trial has %s: a budget for one replica stops every drain", name)
		}
	}
}

// TestHubMemoryLimits requires that the garbage collector of every size works before the kernel ends
// the container.
func TestHubMemoryLimits(t *testing.T) {
	t.Parallel()
	for _, size := range []string{"small", "medium", "large"} {
		for _, in := range []installation{
			{charts.Hub, "size: " + size}, {charts.Agent, "{hub: {url: 'https://x'}, size: " + size + "}"},
		} {
			for name, template := range podTemplates(t, render(t, in)) {
				c := template.Spec.Containers[0]
				limit := env(c, "GOMEMLIMIT")
				if limit == "" {
					continue // no program of ours
				}
				goLimit, err := parseMiB(limit)
				if memory := c.Resources.Limits.Memory().Value(); err != nil || goLimit > memory*92/100 || c.Resources.Requests.Memory().Value() > memory {
					t.Errorf("%s, %s: GOMEMLIMIT is %s (%v) of %d bytes, want some room", size, name, limit, err, memory)
				}
			}
		}
	}
}

// TestOwnResources gives a service more memory than its size has. Its heap may use it.
func TestOwnResources(t *testing.T) {
	t.Parallel()
	objects := render(t, installation{charts.Hub, "distributor: {resources: {limits: {memory: 8Gi}}}"})
	templates := podTemplates(t, objects)
	if limit := env(templates["distributor"].Spec.Containers[0], "GOMEMLIMIT"); limit != "" {
		t.Errorf("the heap of a distributor with 8Gi is limited to %s", limit)
	}
	if env(templates["gitcache"].Spec.Containers[0], "GOMEMLIMIT") == "" {
		t.Error("gitcache, with the resources of its size, has no limit of the heap")
	}
}

// TestPodsOfTestsDoNotAskThemselves requires that the pods of helm test name no server by their own
// name, which leads to themselves in a pod.
func TestPodsOfTestsDoNotAskThemselves(t *testing.T) {
	t.Parallel()
	for name, in := range installations() {
		for id, document := range render(t, in) {
			if pod, isPod := strings.CutPrefix(id, "Pod/"); isPod && strings.Contains(string(document), "://"+pod+":") {
				t.Errorf("%s: %s asks itself", name, id)
			}
		}
	}
}

// TestAgentProposesItsName requires that an agent proposes the name in its values, and none without one.
func TestAgentProposesItsName(t *testing.T) {
	t.Parallel()
	for installation, want := range map[string]string{"newcomer": "edge-berlin", "agent": ""} {
		templates := podTemplates(t, render(t, installations()[installation]))
		name := map[string]string{"newcomer": "leat-newcomer", "agent": "leat-agent"}[installation]
		if got := env(templates[name].Spec.Containers[0], "LEAT_AGENT_CLUSTER"); got != want {
			t.Errorf("%s: the agent proposes %q, want %q", installation, got, want)
		}
	}
}

func parseMiB(text string) (int64, error) {
	var number int64
	err := json.Unmarshal([]byte(strings.TrimSuffix(text, "MiB")), &number)
	return number << 20, err
}

// podTemplates returns the templates of all workloads, and the pods of tests, by their name.
func podTemplates(t *testing.T, objects map[string][]byte) map[string]corev1.PodTemplateSpec {
	t.Helper()
	found := map[string]corev1.PodTemplateSpec{}
	for id := range objects {
		switch kind, name, _ := strings.Cut(id, "/"); kind {
		case "Deployment":
			found[name] = object[appsv1.Deployment](t, objects, id).Spec.Template
		case "StatefulSet":
			found[name] = object[appsv1.StatefulSet](t, objects, id).Spec.Template
		case "Pod":
			p := object[corev1.Pod](t, objects, id)
			found[name] = corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}
		case "Job", "CronJob", "DaemonSet", "ReplicaSet":
			t.Errorf("this test does not support %s; add it", id)
		}
	}
	return found
}

// TestSettingsOfChartsExist compares the variables that charts set with the variables that programs
// read.
func TestSettingsOfChartsExist(t *testing.T) {
	t.Parallel()
	known := settings(t)
	for name, in := range installations() {
		for pod, template := range podTemplates(t, render(t, in)) {
			for _, c := range template.Spec.Containers {
				for _, e := range c.Env {
					checkSetting(t, known, name+": "+pod, e.Name)
				}
			}
		}
	}
}

// TestSecRoutesLeadToPublicCallsAlone compares the paths that are routed from outside with the
// callers that the protocol declares: what only the hub's services call is not reached, and what
// people and agents call leads to the service that answers.
func TestSecRoutesLeadToPublicCallsAlone(t *testing.T) {
	t.Parallel()
	objects := render(t, installations()["external"])
	routed := map[string]map[string]string{} // by the part: the service by the path
	for _, part := range []string{"people", "ui", "agents", "webhooks"} {
		routed[part] = map[string]string{}
		ingress := object[networkingv1.Ingress](t, objects, "Ingress/leat-"+part)
		for _, rule := range ingress.Spec.Rules {
			for _, path := range rule.HTTP.Paths {
				routed[part][path.Path] = path.Backend.Service.Name
				atTunnel := path.Backend.Service.Name == "tunnel"
				want := map[bool]string{true: "tunnel.example.com", false: "leat.example.com"}[atTunnel]
				if part == "agents" && !atTunnel {
					want = "agents.example.com"
				}
				if rule.Host != want {
					t.Errorf("%s of %s is at host %s, want %s", path.Path, part, rule.Host, want)
				}
			}
		}
		if got, want := ingress.Annotations["all"], map[bool]string{true: "no", false: "yes"}[part == "agents"]; got != want {
			t.Errorf("%s has the annotation %q, want %q", part, got, want)
		}
	}
	reaches := func(part, path string) string {
		longest := ""
		for prefix := range routed[part] {
			if (path == prefix || strings.HasPrefix(path, prefix+"/")) && len(prefix) > len(longest) {
				longest = prefix
			}
		}
		return routed[part][longest]
	}
	packages := map[protoreflect.FullName]string{
		"leat.fleet.v1": "distributor", "leat.distributor.v1": "distributor", "leat.gitcache.v1": "gitcache", "leat.tunnel.v1": "tunnel",
	}
	checked := 0
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		server, isHubs := packages[file.Package()]
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				access, _ := proto.GetExtension(method.Options(), optionsv1.E_Access).(*optionsv1.Access)
				path := "/" + string(service.FullName()) + "/" + string(method.Name())
				for part, caller := range map[string]optionsv1.Caller{"people": optionsv1.Caller_CALLER_PERSON, "agents": optionsv1.Caller_CALLER_AGENT} {
					got := reaches(part, path)
					if calls := isHubs && slices.Contains(access.GetCallers(), caller); calls && got != server {
						t.Errorf("%s of %s leads to %q, want %s", path, part, got, server)
					}
					isPublic := slices.ContainsFunc(access.GetCallers(), func(c optionsv1.Caller) bool {
						return c == optionsv1.Caller_CALLER_PERSON || c == optionsv1.Caller_CALLER_AGENT || c == optionsv1.Caller_CALLER_ANYONE
					})
					if !isPublic && got != "" {
						t.Errorf("%s is reached from outside, at %s", path, got)
					}
				}
				checked++
			}
		}
		return true
	})
	if checked < 50 {
		t.Errorf("looked at %d methods, want those of the hub", checked)
	}
	for _, c := range []struct{ part, path, want string }{
		{"people", "/clusters/berlin/api/v1/pods", "tunnel"},
		{"people", "/oauth/token", "distributor"},
		{"ui", "/login/callback", "distributor"},
		{"ui", "/device", "distributor"},
		{"agents", "/v1/bundles/sha256:00", "distributor"},
		{"agents", "/tunnel/v1/connect", "tunnel"},
		{"webhooks", "/webhooks/github/shop", "gitcache"},
		{"webhooks", "/webhooks/config/vault", "distributor"},
		{"people", "/tunnel/v1/hop/x", ""},
		{"agents", "/tunnel/v1/hop/x", ""},
		{"webhooks", "/leat.gitcache.v1.GitCacheService/Fetch", ""},
		{"people", "/metrics", ""},
		{"people", "/", ""},
	} {
		if got := reaches(c.part, c.path); got != c.want {
			t.Errorf("%s of %s leads to %q, want %q", c.path, c.part, got, c.want)
		}
	}
	gateway := render(t, installations()["ha"])
	for part := range routed {
		var route struct {
			metav1.TypeMeta
			Metadata metav1.ObjectMeta `json:"metadata"`
			Spec     struct {
				ParentRefs []map[string]string `json:"parentRefs"`
				Hostnames  []string            `json:"hostnames"`
				Rules      []struct {
					Matches []struct {
						Path struct{ Type, Value string }
					}
					BackendRefs []struct {
						Name string
						Port int
					}
					Timeouts struct{ Request string }
				}
			}
		}
		if err := yaml.UnmarshalStrict(gateway["HTTPRoute/leat-"+part], &route); err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for _, rule := range route.Spec.Rules {
			for _, match := range rule.Matches {
				found[match.Path.Value] = rule.BackendRefs[0].Name
			}
		}
		if !maps.Equal(found, routed[part]) || !slices.Equal(route.Spec.Hostnames, []string{"leat.example.com"}) {
			t.Errorf("HTTPRoute leat-%s leads %v to %v, want %v as an Ingress does", part, route.Spec.Hostnames, found, routed[part])
		}
	}
}

// TestSecChartMakesSecrets compares the generated secrets with what the programs make of them.
func TestSecChartMakesSecrets(t *testing.T) {
	t.Parallel()
	first, second := render(t, installations()["trial"]), render(t, installations()["trial"])
	var public []string
	for _, service := range []string{identity.ServiceDistributor, identity.ServiceGitCache, identity.ServiceTunnel} {
		secret := object[corev1.Secret](t, first, "Secret/leat-"+service)
		key, err := identity.NewServiceKey(secret.Data["service-secret"], service)
		if err != nil {
			t.Fatalf("%s: %v", service, err)
		}
		public = append(public, key.Public())
	}
	keys := object[corev1.ConfigMap](t, first, "ConfigMap/leat-service-keys").Data["service-keys"]
	if keys != strings.Join(public, ",") {
		t.Errorf("got keys %s, want those of the secrets, %s", keys, public)
	}
	hub, redis := object[corev1.Secret](t, first, "Secret/leat-hub").Data, object[corev1.Secret](t, first, "Secret/leat-redis").Data
	if token := string(hub["admin-token"]); !strings.HasPrefix(token, "leat_") || len(token) < 64 {
		t.Errorf("got an admin token of %d bytes", len(token))
	}
	for _, user := range []string{"gitcache", "tunnel"} {
		u, err := url.Parse(string(redis[user+"-url"]))
		if err != nil {
			t.Fatal(err)
		}
		if password, _ := u.User.Password(); u.Scheme != "redis" || u.User.Username() != user || len(password) < 32 || password != string(redis[user+"-password"]) {
			t.Errorf("%s comes to Redis as %s", user, u.Redacted())
		}
	}
	for id, text := range first {
		if !strings.HasPrefix(id, "Secret/") {
			continue
		}
		for name, value := range object[corev1.Secret](t, first, id).Data {
			if other := object[corev1.Secret](t, second, id).Data[name]; bytes.Equal(value, other) {
				t.Errorf("%s: %s is the same in two installations", id, name)
			}
		}
		if !bytes.Contains(text, []byte("helm.sh/resource-policy: keep")) {
			t.Errorf("%s goes with the release, and with it what it opens", id)
		}
	}
	for id := range render(t, installation{charts.Hub, "secrets: { generate: false }"}) {
		if strings.HasPrefix(id, "Secret/") {
			t.Errorf("with secrets that are given, the chart makes %s", id)
		}
	}
}
