// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/render"
	configuration "github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// memoryConfigs holds configurations by digest.
type memoryConfigs struct {
	mu      sync.Mutex
	content map[string]configuration.Configuration
}

func (c *memoryConfigs) set(digest string, v configuration.Configuration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.content == nil {
		c.content = map[string]configuration.Configuration{}
	}
	c.content[digest] = v
}

// Config implements manifest.Configs.
func (c *memoryConfigs) Config(_ context.Context, s plan.Service) (configuration.Configuration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.content[s.ConfigDigest]
	if !ok {
		return v, &reason.Problem{Reason: reason.DependencyUnavailable, Message: "the hub is away"}
	}
	return v, nil
}

// configure changes a service and its configuration; nil stands for an unavailable one.
func (c *cluster) configure(t *testing.T, name string, files map[string]string, spec plan.Spec, v *render.Variables) plan.Service {
	t.Helper()
	sum := "hmac-of " + digest.FromBytes(fmt.Append(nil, name, v)).String()
	if v != nil {
		c.configs.set(sum, configuration.Configuration{Variables: *v})
	}
	d := c.bundles.add(t, files)
	s := plan.Service{
		Name: name, UID: "uid-" + name, SpecDigest: fmt.Sprint(spec), Spec: spec, ConfigDigest: sum,
		Bundles: []plan.Bundle{{Digest: d, Commit: "c-" + d.Hex()[:8]}},
	}
	c.mu.Lock()
	c.services[name] = s
	c.mu.Unlock()
	c.plan()
	return s
}

func (c *cluster) configured(t *testing.T, s plan.Service, phase report.Phase) report.Status {
	t.Helper()
	c.settled(t, s, phase)
	return c.await(t, s.Name, func(got report.Status) bool {
		return got.Phase == phase && (phase == report.Failed || got.Applied.ConfigDigest == s.ConfigDigest)
	})
}

func (c *cluster) data(t *testing.T, name string) string {
	t.Helper()
	status, live := c.request(t, http.MethodGet, configMaps+name, "", "")
	if status != http.StatusOK {
		return fmt.Sprint(status)
	}
	return fmt.Sprint(live["data"])
}

const variableMap = `
apiVersion: v1
kind: ConfigMap
metadata: {name: %s}
data: {greeting: "hello ${NAME:-nobody}", literal: "$${NAME}"}
`

func testConfiguration(t *testing.T, c *cluster) {
	files := map[string]string{
		"a.yaml": fmt.Sprintf(variableMap, "config-a"),
		"b.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: config-b}\nspec:\n  publishNotReadyAddresses: ${READY}\n  ports:\n  - port: ${PORT}\n",
	}
	v := &render.Variables{Values: map[string]string{"NAME": "world", "READY": "true"}, Secrets: map[string]string{"PORT": "8080"}}
	c.configured(t, c.configure(t, "config", files, plan.Spec{}, v), report.Healthy)
	if got := c.data(t, "config-a"); got != "map[greeting:hello world literal:${NAME}]" {
		t.Errorf("got %s", got)
	}
	_, live := c.request(t, http.MethodGet, "/api/v1/namespaces/default/services/config-b", "", "")
	spec, _ := live["spec"].(map[string]any)
	if got := fmt.Sprint(spec["publishNotReadyAddresses"], spec["ports"]); !strings.HasPrefix(got, "true [map[port:8080") {
		t.Errorf("got %s, want a boolean and a number", got)
	}
	// Only the configuration changes.
	v = &render.Variables{Values: map[string]string{"READY": "true", "PORT": "8081"}}
	c.configured(t, c.configure(t, "config", files, plan.Spec{}, v), report.Healthy)
	if got := c.data(t, "config-a"); got != "map[greeting:hello nobody literal:${NAME}]" {
		t.Errorf("got %s", got)
	}
}

// testConfigurationUnavailable shows that a service stays unchanged while its configuration is
// unavailable, and continues automatically afterwards.
func testConfigurationUnavailable(t *testing.T, c *cluster) {
	files := map[string]string{"a.yaml": fmt.Sprintf(variableMap, "unavailable-a")}
	c.configured(t, c.configure(t, "unavailable", files, plan.Spec{}, &render.Variables{}), report.Healthy)
	s := c.configure(t, "unavailable", files, plan.Spec{}, nil)
	got := c.await(t, "unavailable", func(got report.Status) bool { return got.Phase == report.Failed })
	if got.Problem.Reason != reason.DependencyUnavailable || got.Applied.ConfigDigest == s.ConfigDigest {
		t.Errorf("got %v, %v, want DEPENDENCY_UNAVAILABLE and the old configuration", got.Problem, got.Applied)
	}
	if got := c.data(t, "unavailable-a"); got != "map[greeting:hello nobody literal:${NAME}]" {
		t.Errorf("got %s, want what was applied before", got)
	}
	c.configs.set(s.ConfigDigest, configuration.Configuration{Variables: render.Variables{Values: map[string]string{"NAME": "late"}}})
	c.configured(t, s, report.Healthy)
	if got := c.data(t, "unavailable-a"); got != "map[greeting:hello late literal:${NAME}]" {
		t.Errorf("got %s", got)
	}
}

func testVariableMissing(t *testing.T, c *cluster) {
	files := map[string]string{"a.yaml": configMap("missing-a", "1"), "b.yaml": configMap("missing-b", "${NOT_THERE}")}
	s := c.configure(t, "missing", files, plan.Spec{}, &render.Variables{Values: map[string]string{"THERE": "x"}})
	got := c.configured(t, s, report.Failed)
	if got.Problem.Reason != reason.VariableMissing || !strings.Contains(got.Problem.Message, "NOT_THERE") ||
		!strings.Contains(got.Problem.Message, "ConfigMap missing-b") {
		t.Errorf("got %v, want VARIABLE_MISSING with variable and object", got.Problem)
	}
	c.mustNotExist(t, configMaps+"missing-a", configMaps+"missing-b")
	c.configured(t, c.configure(t, "missing", files, plan.Spec{}, &render.Variables{Values: map[string]string{"NOT_THERE": "x"}}), report.Healthy)
	c.mustExist(t, configMaps+"missing-a", configMaps+"missing-b")
}

// testConfidential has the API server reject an object with a message that repeats a secret.
func testConfidential(t *testing.T, c *cluster) {
	const manifest = "apiVersion: v1\nkind: Service\nmetadata: {name: confidential-a}\nspec:\n  type: ${%s}\n  ports: [{port: 80}]\n"
	v := &render.Variables{Values: map[string]string{"OPEN": "not-a-type"}, Secrets: map[string]string{"HIDDEN": "hunter2-of-the-service"}}
	s := c.configure(t, "confidential", map[string]string{"a.yaml": fmt.Sprintf(manifest, "OPEN")}, plan.Spec{}, v)
	if got := c.configured(t, s, report.Failed); !strings.Contains(got.Problem.Message, "not-a-type") {
		t.Errorf("got %v, want the API server's words", got.Problem)
	}
	events, stop := c.engine.Subscribe("confidential")
	defer stop()
	s = c.configure(t, "confidential", map[string]string{"a.yaml": fmt.Sprintf(manifest, "HIDDEN")}, plan.Spec{Namespace: "default"}, v)
	got := c.configured(t, s, report.Failed)
	text := fmt.Sprintf("%+v %+v", got.Problem, got.Objects)
	for _, o := range got.Objects {
		text += fmt.Sprintf(" %+v", o.Problem)
	}
	for len(events) > 0 {
		text += fmt.Sprintf(" %+v", <-events)
	}
	if strings.Contains(text, "hunter2") || !strings.Contains(text, "spec.type") {
		t.Errorf("got %s, want the field and not the secret", text)
	}
}

// testConfidentialDiff compares objects with the current secrets and with the previously applied
// ones.
func testConfidentialDiff(t *testing.T, c *cluster) {
	manifest := func(more string) map[string]string {
		return map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: veil-a}\ndata:\n  url: user:${PASSWORD}@host\n  open: ${OPEN}\n" + more}
	}
	v := func(password, open string) *render.Variables {
		return &render.Variables{Values: map[string]string{"OPEN": open}, Secrets: map[string]string{"PASSWORD": password}}
	}
	diff := func(s plan.Service) string {
		t.Helper()
		c.await(t, "veil", func(report.Status) bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.adopted >= c.planned
		})
		found, err := c.engine.Diff(t.Context(), "veil")
		if err != nil || len(found) != 1 {
			t.Fatalf("got %+v, %v, want one difference", found, err)
		}
		if strings.Contains(fmt.Sprintf("%+v", found), "hunter") {
			t.Errorf("%v: the diff tells a secret:\n%+v", s.Spec, found)
		}
		return found[0].Unified
	}
	c.configured(t, c.configure(t, "veil", manifest("  moved: ${PASSWORD}\n"), plan.Spec{}, v("hunter2", "one")), report.Healthy)

	// The same configuration, another manifest: changes show, except in texts with the secret.
	text := diff(c.configure(t, "veil", manifest("  moved: elsewhere\n"), plan.Spec{Paused: true}, v("hunter2", "one")))
	if !strings.Contains(text, "+  moved: elsewhere") || !strings.Contains(text, "   url: (masked") || !strings.Contains(text, "   open: one") {
		t.Errorf("got\n%s", text)
	}
	// The configuration changes, too: its old secrets are unknown then, and must be masked anyway.
	text = diff(c.configure(t, "veil", manifest("  moved: elsewhere\n"), plan.Spec{Paused: true}, v("hunter3", "two")))
	if !strings.Contains(text, "+  open: two") || !strings.Contains(text, "-  url: (masked") || !strings.Contains(text, "+  url: (masked") ||
		!strings.Contains(text, "-  moved: (masked") {
		t.Errorf("got\n%s", text)
	}
	// The service no longer has a configuration.
	if text = diff(c.put(t, "veil", map[string]string{"a.yaml": configMap("veil-a", "1")}, plan.Spec{Paused: true})); !strings.Contains(text, "-  moved: (masked") || !strings.Contains(text, "+  value: \"1\"") {
		t.Errorf("got\n%s", text)
	}
}
