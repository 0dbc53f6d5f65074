// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/expression"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/health"
)

// mill is an object of a kind without built-in rules; status may be nil.
func mill(status map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "mill.test/v1", "kind": "Mill", "metadata": map[string]any{"name": "a", "generation": int64(2)},
	}}
	if status != nil {
		o.Object["status"] = status
	}
	return o
}

func rules(t testing.TB, sources ...syncpolicy.HealthRule) *health.Rules {
	t.Helper()
	compiled, errs := health.Compile(sources)
	if errs != nil {
		t.Fatal(errs)
	}
	return compiled
}

func TestRule(t *testing.T) {
	t.Parallel()
	full := syncpolicy.HealthRule{
		Group: "mill.test", Kind: "Mill",
		Healthy: "self.status.turns > 10", Progressing: "self.status.turns > 0 && self.status.turns <= 10", Degraded: "has(self.status.broken)",
		Message: "self.?status.?broken.orValue('turns slowly')",
	}
	bare := syncpolicy.HealthRule{Kind: "Mill", Healthy: "self.status.turns > 10"}
	ready := []any{map[string]any{"type": "Ready", "status": "False", "reason": "Calm", "message": "no wind"}}
	library := health.NewLibrary()
	for name, test := range map[string]struct {
		rule   syncpolicy.HealthRule
		status map[string]any
		want   health.Verdict
	}{
		"healthy":                       {full, map[string]any{"turns": int64(11)}, health.Verdict{State: health.Healthy}},
		"degraded before progressing":   {full, map[string]any{"turns": int64(11), "broken": "the shaft"}, health.Verdict{State: health.Degraded, Message: "the shaft"}},
		"progressing":                   {full, map[string]any{"turns": int64(2)}, health.Verdict{State: health.Progressing, Message: "turns slowly"}},
		"none of them":                  {full, map[string]any{"turns": int64(0)}, health.Verdict{State: health.Progressing, Message: "turns slowly"}},
		"no message of its own":         {bare, map[string]any{"turns": int64(0), "conditions": ready}, health.Verdict{State: health.Progressing, Message: "Calm: no wind"}},
		"no message at all":             {bare, map[string]any{"turns": int64(0)}, health.Verdict{State: health.Progressing, Message: "is not healthy yet, and its status does not say why"}},
		"no status":                     {bare, nil, health.Verdict{State: health.Progressing, Message: "its controller has not reported a status yet"}},
		"older than the newest version": {full, map[string]any{"turns": int64(11), "observedGeneration": int64(1)}, health.Verdict{State: health.Progressing, Message: "its controller has seen generation 1, the newest is 2"}},
		"a field is missing": {full, map[string]any{}, health.Verdict{
			State: health.Progressing, Message: "the rule for the state progressing cannot be evaluated: line 1, column 12: the object has no such field",
		}},
		"a value of another type": {bare, map[string]any{"turns": "many"}, health.Verdict{
			State:   health.Progressing,
			Message: "the rule for the state healthy cannot be evaluated: line 1, column 19: a value has another type than the expression expects",
		}},
		"a message that fails": {
			syncpolicy.HealthRule{Kind: "Mill", Healthy: "false", Message: "self.status.lost"},
			map[string]any{"conditions": ready},
			health.Verdict{State: health.Progressing, Message: "Calm: no wind"},
		},
	} {
		if got := library.Judge(mill(test.status), rules(t, test.rule)); got != test.want {
			t.Errorf("%s: got %v %q, want %v %q", name, got.State, got.Message, test.want.State, test.want.Message)
		}
	}
}

// The rule that is closest to the object decides.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	says := func(group, kind, message string) *health.Rules {
		return rules(t, syncpolicy.HealthRule{Group: group, Kind: kind, Degraded: "true", Message: "'" + message + "'"})
	}
	library := health.NewLibrary()
	deployment := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"}}
	certificate := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "cert-manager.io/v1", "kind": "Certificate"}}
	secret := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret"}}
	for name, test := range map[string]struct {
		object *unstructured.Unstructured
		rules  []*health.Rules
		want   string
	}{
		"service before fleet":            {certificate, []*health.Rules{says("cert-manager.io", "Certificate", "service"), says("*", "*", "fleet")}, "service"},
		"fleet before library":            {certificate, []*health.Rules{says("other.io", "Certificate", "service"), says("*.io", "Cert*", "fleet")}, "fleet"},
		"fleet before core kinds":         {deployment, []*health.Rules{nil, says("apps", "Deploy?ent", "fleet")}, "fleet"},
		"any group":                       {secret, []*health.Rules{says("", "Secret", "any")}, "any"},
		"the group without a name":        {secret, []*health.Rules{says("core", "Secret", "core")}, "core"},
		"library":                         {certificate, []*health.Rules{says("other.io", "*", "service")}, "its controller has not reported a status yet"},
		"core":                            {deployment, []*health.Rules{says("core", "*", "service"), says("apps", "Deployment?", "fleet")}, "its controller has not reported a status yet"},
		"the first of several that match": {secret, []*health.Rules{rules(t, syncpolicy.HealthRule{Kind: "S*", Degraded: "true", Message: "'first'"}, syncpolicy.HealthRule{Kind: "Secret", Healthy: "true"})}, "first"},
	} {
		if got := library.Judge(test.object, test.rules...); got.Message != test.want {
			t.Errorf("%s: got %v %q, want %q", name, got.State, got.Message, test.want)
		}
	}
}

func TestCompileLeavesOutWhatIsWrong(t *testing.T) {
	t.Parallel()
	compiled, errs := health.Compile([]syncpolicy.HealthRule{
		{Group: "mill.test", Kind: "Mill", Healthy: "status.turns > 1"},
		{Kind: "Mill", Healthy: "true", Message: "1"},
		{Kind: "Mill", Message: "'never'"},
		{Healthy: "true"},
		{Kind: "Mill", Degraded: "true", Message: "'the last'"},
	})
	if got := health.NewLibrary().Judge(mill(nil), compiled); got.Message != "the last" {
		t.Errorf("got %q, want the rule that is right", got.Message)
	}
	want := []string{
		"health rule for mill.test/Mill: healthy: line 1, column 1: undeclared reference to 'status'",
		"health rule for Mill: message: line 1, column 1: the expression makes int, and should make a text",
		"health rule for Mill: healthy: a rule without any condition would leave every object progressing",
		"health rule for : kind: a rule needs a kind",
	}
	if len(errs) != len(want) {
		t.Fatalf("got %v, want %d errors", errs, len(want))
	}
	for i := range want {
		if !strings.HasPrefix(errs[i].Error(), want[i]) {
			t.Errorf("got %v, want %s", errs[i], want[i])
		}
	}
	if _, ok := errors.AsType[*expression.CompileError](errs[0]); !ok {
		t.Errorf("got %T inside, want a CompileError", errs[0])
	}
}

// TestSecHealthRulesShowNoSecret has rules describe Secrets, by their messages and by their errors.
func TestSecHealthRulesShowNoSecret(t *testing.T) {
	t.Parallel()
	const content = "aHVudGVyMg=="
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "db"}, "data": map[string]any{"password": content},
	}}
	for _, source := range []syncpolicy.HealthRule{
		{Kind: "Secret", Degraded: "true", Message: "self.data.map(k, k + '=' + self.data[k]).join(',')"},
		{Kind: "Secret", Degraded: "true", Message: "string(base64.decode(self.data.password))"},
		{Kind: "Secret", Degraded: "timestamp(self.data.password) > timestamp(0)"},
		{Kind: "*", Degraded: "self.data.password.startsWith('aHVu')"},
	} {
		got := health.NewLibrary().Judge(secret, rules(t, source))
		if strings.Contains(got.Message, content) || strings.Contains(got.Message, "hunter2") || (source.Kind == "*" && got.State == health.Degraded) {
			t.Errorf("got %v %q, want nothing of the Secret from %+v", got.State, got.Message, source)
		}
	}
}
