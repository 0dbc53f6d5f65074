// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package syncpolicy_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// full is a policy that uses every field, and whose every field is acceptable.
func full() *syncpolicy.Policy {
	return &syncpolicy.Policy{
		Drift: syncpolicy.DriftReport,
		Ignore: []syncpolicy.IgnoreRule{{
			Objects:  syncpolicy.Selector{Group: "apps", Kind: "Deployment", Namespace: "shop-*", Name: "web?", Labels: "tier=front,!legacy"},
			Pointers: []string{"/spec/replicas", "/metadata/annotations/example.com~1hash", "/spec/containers/[name=app]/image", "/spec/ports/0"},
			Managers: []string{"kube-controller-manager", "*-operator", "Go-http-client"},
		}},
		Conflicts:      []syncpolicy.ConflictRule{{Manager: "kubectl-*", Action: syncpolicy.ConflictForce}, {Action: syncpolicy.ConflictYield}},
		Adoption:       syncpolicy.AdoptNever,
		Recreate:       true,
		Deletion:       syncpolicy.Deletion{Propagation: syncpolicy.DeleteOrphan, Timeout: time.Hour, Detach: true, Namespaces: true},
		DependsOn:      []syncpolicy.Dependency{{Service: "base"}, {Object: &syncpolicy.ObjectReference{APIVersion: "example.com/v1", Kind: "Database", Name: "main"}, Condition: "self.status.ready == true"}},
		Windows:        []syncpolicy.Window{{Schedule: "0 22 * * 1-5", Duration: 2 * time.Hour, TimeZone: "Europe/Berlin"}, {Schedule: "*/5 * * * *", Duration: time.Minute, Deny: true, Strict: true}},
		Tests:          &syncpolicy.Tests{Path: "tests/smoke", Timeout: time.Minute},
		ServiceAccount: "tenants/shop.deployer",
		HealthRules:    []syncpolicy.HealthRule{{Group: "*.example.com", Kind: "Database", Healthy: "self.status.phase == 'Ready'", Message: "self.status.message"}},
	}
}

func TestValidPolicies(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]*syncpolicy.Policy{"empty": {}, "full": full()} {
		if err := p.Validate("shop"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestInvalidPolicies spoils one field of a good policy at a time.
func TestInvalidPolicies(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 300)
	for _, test := range []struct {
		want  string
		spoil func(p *syncpolicy.Policy)
	}{
		{"drift", func(p *syncpolicy.Policy) { p.Drift = "7" }},
		{"ignore", func(p *syncpolicy.Policy) { p.Ignore = slices.Repeat(p.Ignore, 65) }},
		{"ignore[0]", func(p *syncpolicy.Policy) { p.Ignore[0].Pointers, p.Ignore[0].Managers = nil, nil }},
		{"ignore[0].objects.group", func(p *syncpolicy.Policy) { p.Ignore[0].Objects.Group = long }},
		{"ignore[0].objects.kind", func(p *syncpolicy.Policy) { p.Ignore[0].Objects.Kind = "a\nb" }},
		{"ignore[0].objects.namespace", func(p *syncpolicy.Policy) { p.Ignore[0].Objects.Namespace = "\x00" }},
		{"ignore[0].objects.name", func(p *syncpolicy.Policy) { p.Ignore[0].Objects.Name = long }},
		{"ignore[0].objects.labels", func(p *syncpolicy.Policy) { p.Ignore[0].Objects.Labels = "a==b==c" }},
		{"ignore[0].pointers", func(p *syncpolicy.Policy) { p.Ignore[0].Pointers = slices.Repeat([]string{"/a"}, 65) }},
		{"ignore[0].pointers[0]", func(p *syncpolicy.Policy) { p.Ignore[0].Pointers[0] = "spec/replicas" }},
		{"ignore[0].pointers[0]", func(p *syncpolicy.Policy) { p.Ignore[0].Pointers[0] = "" }},
		{"ignore[0].pointers[0]", func(p *syncpolicy.Policy) { p.Ignore[0].Pointers[0] = "/" }},
		{"ignore[0].pointers[0]", func(p *syncpolicy.Policy) { p.Ignore[0].Pointers[0] = "/spec/" }},
		{"ignore[0].pointers[0]", func(p *syncpolicy.Policy) { p.Ignore[0].Pointers[0] = "/a/~2" }},
		{"ignore[0].pointers[0]", func(p *syncpolicy.Policy) { p.Ignore[0].Pointers[0] = "/a/b~" }},
		{"ignore[0].pointers[0]", func(p *syncpolicy.Policy) { p.Ignore[0].Pointers[0] = "/a/[name]" }},
		{"ignore[0].pointers[0]", func(p *syncpolicy.Policy) { p.Ignore[0].Pointers[0] = "/a/[name=x" }},
		{"ignore[0].pointers[0]", func(p *syncpolicy.Policy) { p.Ignore[0].Pointers[0] = "/metadata/name" }},
		{"ignore[0].pointers[0]", func(p *syncpolicy.Policy) { p.Ignore[0].Pointers[0] = "/kind" }},
		{"ignore[0].pointers[1]", func(p *syncpolicy.Policy) { p.Ignore[0].Pointers[1] = "/" + strings.Repeat("a", 2000) }},
		{"ignore[0].managers[1]", func(p *syncpolicy.Policy) { p.Ignore[0].Managers[1] = "" }},
		{"conflicts", func(p *syncpolicy.Policy) { p.Conflicts = slices.Repeat(p.Conflicts, 33) }},
		{"conflicts[0].manager", func(p *syncpolicy.Policy) { p.Conflicts[0].Manager = long }},
		{"conflicts[1].action", func(p *syncpolicy.Policy) { p.Conflicts[1].Action = "take" }},
		{"adoption", func(p *syncpolicy.Policy) { p.Adoption = "sometimes" }},
		{"deletion.propagation", func(p *syncpolicy.Policy) { p.Deletion.Propagation = "x" }},
		{"deletion.timeout", func(p *syncpolicy.Policy) { p.Deletion.Timeout = -1 }},
		{"deletion.timeout", func(p *syncpolicy.Policy) { p.Deletion.Timeout = 25 * time.Hour }},
		{"depends_on", func(p *syncpolicy.Policy) { p.DependsOn = slices.Repeat(p.DependsOn, 33) }},
		{"depends_on[0]", func(p *syncpolicy.Policy) { p.DependsOn[0] = syncpolicy.Dependency{} }},
		{"depends_on[0]", func(p *syncpolicy.Policy) { p.DependsOn[0].Object = p.DependsOn[1].Object }},
		{"depends_on[0].service", func(p *syncpolicy.Policy) { p.DependsOn[0].Service = "shop" }},
		{"depends_on[0].service", func(p *syncpolicy.Policy) { p.DependsOn[0].Service = "Base" }},
		{"depends_on[0].condition", func(p *syncpolicy.Policy) { p.DependsOn[0].Condition = "true" }},
		{"depends_on[1].object.api_version", func(p *syncpolicy.Policy) { p.DependsOn[1].Object.APIVersion = "" }},
		{"depends_on[1].object.api_version", func(p *syncpolicy.Policy) { p.DependsOn[1].Object.APIVersion = "a/b/c" }},
		{"depends_on[1].object.kind", func(p *syncpolicy.Policy) { p.DependsOn[1].Object.Kind = "" }},
		{"depends_on[1].object.name", func(p *syncpolicy.Policy) { p.DependsOn[1].Object.Name = "" }},
		{"depends_on[1].object.namespace", func(p *syncpolicy.Policy) { p.DependsOn[1].Object.Namespace = "A" }},
		{"depends_on[1].condition", func(p *syncpolicy.Policy) { p.DependsOn[1].Condition = "other.status" }},
		{"windows", func(p *syncpolicy.Policy) { p.Windows = slices.Repeat(p.Windows, 17) }},
		{"windows[0].schedule", func(p *syncpolicy.Policy) { p.Windows[0].Schedule = "" }},
		{"windows[0].schedule", func(p *syncpolicy.Policy) { p.Windows[0].Schedule = "@daily" }},
		{"windows[0].schedule", func(p *syncpolicy.Policy) { p.Windows[0].Schedule = "@every 1h" }},
		{"windows[0].schedule", func(p *syncpolicy.Policy) { p.Windows[0].Schedule = "0 0 22 * * *" }},
		{"windows[0].schedule", func(p *syncpolicy.Policy) { p.Windows[0].Schedule = "CRON_TZ=UTC 0 22 * * *" }},
		{"windows[0].schedule", func(p *syncpolicy.Policy) { p.Windows[0].Schedule = "61 * * * *" }},
		{"windows[0].schedule", func(p *syncpolicy.Policy) { p.Windows[0].Schedule = "0 0 30 2 *" }},
		{"windows[0].duration", func(p *syncpolicy.Policy) { p.Windows[0].Duration = 0 }},
		{"windows[0].duration", func(p *syncpolicy.Policy) { p.Windows[0].Duration = 32 * 24 * time.Hour }},
		{"windows[0].time_zone", func(p *syncpolicy.Policy) { p.Windows[0].TimeZone = "Berlin" }},
		{"windows[0].time_zone", func(p *syncpolicy.Policy) { p.Windows[0].TimeZone = "Local" }},
		{"windows[0].time_zone", func(p *syncpolicy.Policy) { p.Windows[0].TimeZone = "../../etc/passwd" }},
		{"tests.path", func(p *syncpolicy.Policy) { p.Tests.Path = "/tests" }},
		{"tests.path", func(p *syncpolicy.Policy) { p.Tests.Path = "a/../.." }},
		{"tests.path", func(p *syncpolicy.Policy) { p.Tests.Path = `a\b` }},
		{"tests.timeout", func(p *syncpolicy.Policy) { p.Tests.Timeout = 25 * time.Hour }},
		{"service_account", func(p *syncpolicy.Policy) { p.ServiceAccount = "a/b/c" }},
		{"service_account", func(p *syncpolicy.Policy) { p.ServiceAccount = "/b" }},
		{"service_account", func(p *syncpolicy.Policy) { p.ServiceAccount = "a/" }},
		{"service_account", func(p *syncpolicy.Policy) { p.ServiceAccount = "system:admin" }},
		{"health_rules", func(p *syncpolicy.Policy) { p.HealthRules = slices.Repeat(p.HealthRules, 65) }},
		{"", func(p *syncpolicy.Policy) {
			p.HealthRules[0].Healthy = "true" + strings.Repeat(" ", 4000)
			p.HealthRules = slices.Repeat(p.HealthRules, 20)
		}},
		{"health_rules[0]", func(p *syncpolicy.Policy) { p.HealthRules[0].Healthy = "" }},
		{"health_rules[0].kind", func(p *syncpolicy.Policy) { p.HealthRules[0].Kind = "" }},
		{"health_rules[0].group", func(p *syncpolicy.Policy) { p.HealthRules[0].Group = long }},
		{"health_rules[0].healthy", func(p *syncpolicy.Policy) { p.HealthRules[0].Healthy = "self.status.phase == " }},
		{"health_rules[0].progressing", func(p *syncpolicy.Policy) { p.HealthRules[0].Progressing = "'text'" }},
		{"health_rules[0].degraded", func(p *syncpolicy.Policy) { p.HealthRules[0].Degraded = strings.Repeat(" ", 5000) }},
		{"health_rules[0].message", func(p *syncpolicy.Policy) { p.HealthRules[0].Message = "1 + 1" }},
	} {
		p := full()
		test.spoil(p)
		err := p.Validate("shop")
		if field, ok := errors.AsType[*fielderr.Error](err); !ok || field.Path != test.want {
			t.Errorf("got %v, want an error at %s", err, test.want)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	good := syncpolicy.AgentSettings{
		HealthRules: full().HealthRules, DefaultServiceAccount: "leat/tenant", LockDown: true, RefreshInterval: time.Hour, Workers: 8, LogLevel: "debug",
		Metrics: "monitoring/https:prometheus:9090",
	}
	if err := errors.Join(good.Validate(), syncpolicy.AgentSettings{}.Validate(), syncpolicy.AgentSettings{Metrics: "a/b:1"}.Validate()); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"prometheus:9090", "monitoring/prometheus", "monitoring/prometheus:http", "monitoring/prometheus:09090", "monitoring/prometheus:65536",
		"monitoring/prometheus:0", "monitoring/http:prometheus:9090", "Monitoring/prometheus:9090", "monitoring/prometheus:9090/x", "a/b.c:1",
		"monitoring/" + strings.Repeat("a", 64) + ":1", "monitoring/user@prometheus:9090", "/prometheus:9090", "a/b:1\n",
	} {
		bad := syncpolicy.AgentSettings{Metrics: text}
		if field, ok := errors.AsType[*fielderr.Error](bad.Validate()); !ok || field.Path != "metrics" {
			t.Errorf("%q: got %v, want an error at metrics", text, bad.Validate())
		}
	}
	for want, spoil := range map[string]func(s *syncpolicy.AgentSettings){
		"health_rules":            func(s *syncpolicy.AgentSettings) { s.HealthRules = slices.Repeat(s.HealthRules, 257) },
		"health_rules[0].kind":    func(s *syncpolicy.AgentSettings) { s.HealthRules = []syncpolicy.HealthRule{{Healthy: "true"}} },
		"default_service_account": func(s *syncpolicy.AgentSettings) { s.DefaultServiceAccount = "A" },
		"refresh_interval":        func(s *syncpolicy.AgentSettings) { s.RefreshInterval = time.Second },
		"workers":                 func(s *syncpolicy.AgentSettings) { s.Workers = -1 },
		"log_level":               func(s *syncpolicy.AgentSettings) { s.LogLevel = "trace" },
	} {
		bad := good
		spoil(&bad)
		if field, ok := errors.AsType[*fielderr.Error](bad.Validate()); !ok || field.Path != want {
			t.Errorf("got %v, want an error at %s", bad.Validate(), want)
		}
	}
}

func TestClusterSettingsComeFirst(t *testing.T) {
	t.Parallel()
	rule := func(kind string) syncpolicy.HealthRule { return syncpolicy.HealthRule{Kind: kind, Healthy: "true"} }
	fleet := syncpolicy.AgentSettings{
		HealthRules: []syncpolicy.HealthRule{rule("A"), rule("B")}, DefaultServiceAccount: "a/b", LockDown: true, RefreshInterval: time.Hour, Workers: 4, LogLevel: "warn",
		Metrics: "monitoring/prometheus:9090",
	}
	if got := (syncpolicy.AgentSettings{}).Over(fleet); !got.Equal(fleet) {
		t.Errorf("a cluster that says nothing: got %+v, want the fleet's", got)
	}
	own := syncpolicy.AgentSettings{HealthRules: []syncpolicy.HealthRule{rule("B")}, Workers: 2, LogLevel: "debug", Metrics: "own/prometheus:80"}
	want := fleet
	want.HealthRules, want.Workers, want.LogLevel, want.Metrics = []syncpolicy.HealthRule{rule("B"), rule("A"), rule("B")}, 2, "debug", "own/prometheus:80"
	if diff := cmp.Diff(want, own.Over(fleet)); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if got := own.Over(syncpolicy.AgentSettings{}); !got.Equal(own) {
		t.Errorf("a fleet that says nothing: got %+v, want the cluster's", got)
	}
}

// TestRenderSteps has steps beside the renderer that they replace.
func TestRenderSteps(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]syncpolicy.Options{
		"":                       {Render: []renderstep.Step{{Renderer: renderstep.Helm}, {Renderer: renderstep.Kustomize, FromPrevious: true}}},
		"renderer":               {Renderer: syncpolicy.RenderPlain, Render: []renderstep.Step{{}}},
		"render[0].path":         {Render: []renderstep.Step{{Path: ".."}}},
		"render[1].wasm.module":  {Render: []renderstep.Step{{}, {Renderer: renderstep.WASM}}},
		"render[0].helm.lookup":  {Render: []renderstep.Step{{Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{Lookup: make([]renderstep.LookupRule, 33)}}}},
		"render":                 {Render: make([]renderstep.Step, 17)},
		"policy.service_account": {Render: []renderstep.Step{{}}, Policy: syncpolicy.Policy{ServiceAccount: "a/b/c"}},
	} {
		err := o.Validate("shop")
		field, ok := errors.AsType[*fielderr.Error](err)
		if ok != (want != "") || ok && field.Path != want {
			t.Errorf("want an error at %q, got %v", want, err)
		}
	}
	steps := syncpolicy.Options{Render: []renderstep.Step{{Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{Parameters: map[string]string{"a": "b"}}}}}
	other := syncpolicy.Options{Render: []renderstep.Step{{Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{Parameters: map[string]string{"a": "c"}}}}}
	if steps.IsZero() || steps.Equal(other) || !steps.Equal(steps) {
		t.Error("options do not differ by their steps")
	}
}
