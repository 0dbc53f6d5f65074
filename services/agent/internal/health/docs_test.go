// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/internal/testkit/golden"
	"github.com/leatdev/leat/services/agent/internal/health"
)

// TestDocumentedKinds keeps docs/health-kinds.md as the library is; run it with -update after a change of the library.
func TestDocumentedKinds(t *testing.T) {
	t.Parallel()
	var page bytes.Buffer
	page.WriteString("# Kinds that Leat knows\n\nMade by the tests of services/agent/internal/health from the rules in its folder library; do not edit.\n\n" +
		"How these are used, and how to write your own, stands in [health.md](health.md). A kind that *fails at once* has states that nothing but a change\n" +
		"mends; the others are given until the health timeout.\n")
	for _, v := range vendors(t) {
		fmt.Fprintf(&page, "\n## %s\n\n| group | kind | fails at once |\n|---|---|---|\n", v.Name)
		for _, r := range v.Rules {
			fails := "no"
			if r.Degraded != "" {
				fails = "yes"
			}
			fmt.Fprintf(&page, "| `%s` | `%s` | %s |\n", r.Group, r.Kind, fails)
		}
	}
	golden.Assert(t, "../../../../../docs/health-kinds.md", page.Bytes())
}

// The example of the page is a rule that does what the page says.
func TestDocumentedExample(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../../../docs/health.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(content)
	if block == nil {
		t.Fatal("got no example in docs/health.md, want one")
	}
	var example struct {
		Rules []syncpolicy.HealthRule `json:"healthRules"`
	}
	if err := yaml.UnmarshalStrict(block[1], &example); err != nil {
		t.Fatal(err)
	}
	mill := func(status map[string]any) *unstructured.Unstructured {
		o := mill(status)
		o.Object["apiVersion"], o.Object["spec"] = "mill.example.com/v1", map[string]any{"wheels": int64(2)}
		return o
	}
	condition := func(kind, message string) []any {
		return []any{map[string]any{"type": kind, "status": "True", "message": message}}
	}
	documented := rules(t, example.Rules...)
	for name, test := range map[string]struct {
		status map[string]any
		want   health.Verdict
	}{
		"no status": {nil, health.Verdict{State: health.Progressing, Message: "0 of 2 wheels turn"}},
		"broken":    {map[string]any{"conditions": condition("Broken", "the shaft")}, health.Verdict{State: health.Degraded, Message: "the shaft"}},
		"slow":      {map[string]any{"turning": int64(1), "conditions": condition("Ready", "")}, health.Verdict{State: health.Progressing, Message: "1 of 2 wheels turn"}},
		"well":      {map[string]any{"turning": int64(2), "conditions": condition("Ready", "")}, health.Verdict{State: health.Healthy}},
	} {
		if got := health.NewLibrary().Judge(mill(test.status), documented); got != test.want {
			t.Errorf("%s: got %v %q, want %v %q", name, got.State, got.Message, test.want.State, test.want.Message)
		}
	}
}
