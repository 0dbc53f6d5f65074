// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/testkit/canarytest"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// quoting is a health rule that repeats what a ConfigMap holds, as it is and in a header.
var quoting = []syncpolicy.HealthRule{{
	Kind: "ConfigMap", Degraded: "self.data.mode == 'on'",
	Message: "'mode ' + self.data.mode + ' ' + self.data.url + ' Basic ' + base64.encode(bytes('user:' + self.data.url))",
}}

// TestSecHealthQuotesNoSecret has health rules repeat secrets of a configuration, for the service
// itself, for a service that depends on the object, and after a restart of the agent.
func TestSecHealthQuotesNoSecret(t *testing.T) {
	t.Parallel()
	c, set := startCluster(t), &canarytest.Set{}
	events, stop := c.engine.Subscribe("")
	defer stop()
	degraded := func(service string, s plan.Service) {
		t.Helper()
		c.await(t, service, func(got report.Status) bool {
			return got.Phase == report.Degraded && got.Applied.ConfigDigest == s.ConfigDigest && strings.Contains(got.Problem.Message, "mode on (masked) Basic (masked)")
		})
	}
	const manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: quoted}\ndata: {mode: 'on', url: '${URL}'}\n"
	spec := plan.Spec{Policy: syncpolicy.Policy{HealthRules: quoting}}
	configure := func() plan.Service {
		return c.configure(t, "quoted", map[string]string{"a.yaml": manifest}, spec, &render.Variables{Secrets: map[string]string{"URL": set.Plant("a configuration")}})
	}
	degraded("quoted", configure())

	// A later wave waits for the object, and so does another service.
	waves := c.configure(t, "waves", map[string]string{
		"a.yaml": strings.Replace(manifest, "name: quoted", "name: first-wave", 1),
		"b.yaml": strings.Replace(configMap("second-wave", "1"), "metadata:\n", "metadata:\n  annotations: {leat.dev/wave: '1'}\n", 1),
	}, spec, &render.Variables{Secrets: map[string]string{"URL": set.Plant("a configuration of waves")}})
	c.await(t, waves.Name, func(got report.Status) bool {
		return got.Phase == report.Failed && strings.Contains(got.Problem.Message, "is not healthy: ConfigMap default/first-wave: mode on (masked)")
	})
	if objects, err := c.engine.Objects("quoted"); err != nil || !strings.Contains(fmt.Sprint(objects), "mode on (masked)") {
		t.Errorf("got %v, %v, want the masked message in the inventory", objects, err)
	} else {
		set.Check(t, "the inventory", fmt.Sprintf("%+v", objects))
	}
	waiting := plan.Spec{Policy: syncpolicy.Policy{DependsOn: []syncpolicy.Dependency{{Object: &syncpolicy.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Name: "quoted"}}}}}
	c.put(t, "waiting", map[string]string{"a.yaml": configMap("waiting", "1")}, waiting)
	c.await(t, "waiting", func(got report.Status) bool {
		return got.Phase == report.Pending && got.Problem != nil && strings.Contains(got.Problem.Message, "Degraded: mode on (masked)")
	})

	// The agent restarts, and learns the secrets from what it keeps.
	set.Check(t, "the first engine", c.shown(t, events))
	c.restart(t)
	events, stop = c.engine.Subscribe("")
	defer stop()
	last := c.services["quoted"]
	degraded("quoted", last)
	set.Check(t, "the second engine", c.shown(t, events))

	// An agent that cannot read them withholds the message until it has applied the service again.
	c.configs.mu.Lock()
	delete(c.configs.content, last.ConfigDigest)
	c.configs.mu.Unlock()
	c.restart(t)
	events, stop = c.engine.Subscribe("")
	defer stop()
	c.await(t, "quoted", func(got report.Status) bool {
		return got.Phase == report.Degraded && strings.Contains(got.Problem.Message, "(withheld")
	})
	degraded("quoted", configure())
	set.Check(t, "the engine", c.shown(t, events))
}

// TestSecLookedUpSecretsAreMasked has a chart look up a Secret, and put its value into an object
// that is compared and judged, and into the error of a template.
func TestSecLookedUpSecretsAreMasked(t *testing.T) {
	t.Parallel()
	c, set := startCluster(t), &canarytest.Set{}
	events, stop := c.engine.Subscribe("")
	defer stop()
	secret := set.Plant("a Secret that a chart looks up")
	c.keep(t, "default", "seen", map[string]string{"password": secret})
	files := map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: quoted\nversion: 1.0.0\n",
		"templates/a.yaml": `{{- $s := (lookup "v1" "Secret" .Release.Namespace "seen").data.password | b64dec }}
apiVersion: v1
kind: ConfigMap
metadata: {name: looked-up}
data:
  mode: 'on'
  url: {{ $s | toJson }}
  header: {{ printf "user:%s" $s | b64enc }}
  raw: {{ $s | toRawJson | quote }}
  open: {{ .Values.open | quote }}
{{- if eq .Values.open "fail" }}{{ fail (printf "cannot use %s or %s" $s (printf "user:%s" $s | b64enc)) }}{{ end }}
`,
	}
	put := func(open string, change func(*plan.Spec)) plan.Service {
		spec := plan.Spec{
			Render: []renderstep.Step{{Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{
				Parameters: map[string]string{"open": open}, Lookup: []renderstep.LookupRule{{APIVersion: "v1", Kind: "Secret", Name: "seen"}},
			}}},
			Policy: syncpolicy.Policy{HealthRules: quoting},
		}
		change(&spec)
		return c.put(t, "looked-up", files, spec)
	}
	put("first", func(*plan.Spec) {})
	c.await(t, "looked-up", func(got report.Status) bool {
		return got.Phase == report.Degraded && strings.Contains(got.Problem.Message, "mode on (masked) Basic (masked)")
	})
	if live := fmt.Sprint(c.get(t, configMaps+"looked-up")["data"]); len(set.Find(live)) == 0 {
		t.Errorf("found no secret in %s", live)
	}
	put("second", func(spec *plan.Spec) { spec.Paused = true })
	c.await(t, "looked-up", func(got report.Status) bool { return got.Phase == report.Paused })
	found, err := c.engine.Diff(t.Context(), "looked-up")
	if err != nil || len(found) != 1 || !strings.Contains(found[0].Unified, "+  open: second") {
		t.Errorf("got %+v, %v, want the change of the parameter", found, err)
	}
	set.Check(t, "the comparison", fmt.Sprintf("%+v", found))
	put("fail", func(*plan.Spec) {})
	got := c.await(t, "looked-up", func(got report.Status) bool { return got.Phase == report.Failed })
	if !strings.Contains(got.Problem.Message, "cannot use (masked) or (masked)") {
		t.Errorf("got %q, want the error of the template without the secret", got.Problem.Message)
	}
	set.Check(t, "the engine", c.shown(t, events))
}
