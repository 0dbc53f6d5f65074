// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package document_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/document"
)

type badDocument struct{ name, text, want string }

// service returns a document with the given lines in its spec, the first of which is line 5.
func service(spec string) string {
	return "apiVersion: leat.dev/v1\nkind: Service\nmetadata: {name: shop}\nspec:\n" + spec
}

func badDocuments() []badDocument {
	return []badDocument{
		{"not YAML", "a: b: c", "f.yaml:1: not YAML: mapping values are not allowed in this context"},
		{"second document not YAML", "---\n---\na: [", "f.yaml:3: not YAML: did not find expected node content"},
		{"no mapping", "- a", "f.yaml:1:1: want a document with apiVersion, kind, metadata and spec, got a list"},
		{"no apiVersion", "kind: Service", "f.yaml:1:1: apiVersion: is required; write apiVersion: leat.dev/v1"},
		{"newer version", "apiVersion: leat.dev/v2\nkind: Service", `f.yaml:1:13: apiVersion: unknown version "leat.dev/v2"; this leat knows leat.dev/v1`},
		{
			"a manifest", "apiVersion: apps/v1\nkind: Deployment",
			`f.yaml:1:13: apiVersion: "apps/v1" is not one of Leat's documents (leat.dev/v1); Kubernetes manifests belong in a repository that a Service names`,
		},
		{"no kind", "apiVersion: leat.dev/v1", "f.yaml:1:1: kind: is required; one of AccessBinding, AccessRequest, Cluster, ConfigBackend, ConfigSet, FleetSource, GlobalService, IdentityProvider, ImagePolicy, Notifier, Project, Repository, Role, RolloutPolicy, Service, TrustRule, User"},
		{"unknown kind", "apiVersion: leat.dev/v1\nkind: Servce", `f.yaml:2:7: kind: unknown kind "Servce"; did you mean "Service"?`},
		{"kind is a list", "apiVersion: leat.dev/v1\nkind: [Service]", "f.yaml:2:7: kind: want text, got a list"},
		{"kind twice", "apiVersion: leat.dev/v1\nkind: Cluster\nmetadata: {name: a}\nkind: Service", "f.yaml:4:1: kind: unknown field"},
		{"no metadata", "apiVersion: leat.dev/v1\nkind: Cluster\nspec: {}", "f.yaml:1:1: metadata.name: is required"},
		{"no name", "apiVersion: leat.dev/v1\nkind: Cluster\nmetadata: {labels: {a: b}}", "f.yaml:3:11: metadata.name: is required"},
		{"unknown field", service("  clutser: demo"), `f.yaml:5:3: spec.clutser: unknown field; did you mean "cluster"?`},
		{"protocol's spelling", service("  sync:\n    health_timeout: 2m"), `f.yaml:6:5: spec.sync.health_timeout: unknown field; did you mean "healthTimeout"?`},
		{"unknown field, nothing near", service("  frobnicate: 1"), "f.yaml:5:3: spec.frobnicate: unknown field"},
		{"unknown field at the top", "apiVersion: leat.dev/v1\nkind: Cluster\nmetadata: {name: a}\nspecs: {}", `f.yaml:4:1: specs: unknown field; did you mean "spec"?`},
		{"given twice", service("  cluster: a\n  namespace: b\n  cluster: c"), "f.yaml:7:3: spec.cluster: given twice; first on line 5"},
		{"label given twice", "apiVersion: leat.dev/v1\nkind: Cluster\nmetadata:\n  name: a\n  labels: {a: b, a: c}", "f.yaml:5:18: metadata.labels[a]: given twice"},
		{"number for text", service("  sources: [{repository: r, ref: {tag: 1.10}}]"), `f.yaml:5:40: spec.sources[0].ref.tag: want text, got the number 1.10; put it into quotes: "1.10"`},
		{"text for boolean", service("  paused: yes"), `f.yaml:5:11: spec.paused: want true or false, got the text "yes"`},
		{"text for duration", service("  sync: {healthTimeout: soon}"), `f.yaml:5:25: spec.sync.healthTimeout: want a time span with its unit, such as "30s", "2m" or "1h30m", got the text "soon"`},
		{"duration without unit", service("  sync: {healthTimeout: 30}"), `f.yaml:5:25: spec.sync.healthTimeout: want a time span with its unit, such as "30s", "2m" or "1h30m", got the number 30`},
		{"mapping for duration", service("  sync: {healthTimeout: {seconds: 3}}"), `f.yaml:5:25: spec.sync.healthTimeout: want a time span with its unit, such as "30s", "2m" or "1h30m", got a mapping`},
		{"unknown enum value", service("  renderer: kustomise"), `f.yaml:5:13: spec.renderer: unknown value "kustomise", want one of plain, kustomize; did you mean "kustomize"?`},
		{"zero enum value", service("  renderer: unspecified"), `f.yaml:5:13: spec.renderer: unknown value "unspecified", want one of plain, kustomize`},
		{"mapping for list", service("  sources:\n    repository: r"), `f.yaml:6:5: spec.sources: want a list, got a mapping; begin each item with "- "`},
		{"text for mapping", service("  sources: [main]"), `f.yaml:5:13: spec.sources[0]: want fields such as repository, got text`},
		{"list for text", service("  cluster: [a]"), "f.yaml:5:12: spec.cluster: want text, got a list"},
		{"two of a oneof", service("  sources: [{repository: r, ref: {branch: a, tag: b}}]"), "f.yaml:5:46: spec.sources[0].ref.tag: branch and tag exclude each other; keep one"},
		{"text for a step", service("  render: [{plain: yes}]"), `f.yaml:5:20: spec.render[0].plain: want {}, got text`},
		{"two renderers", service("  render: [{helm: {}, kustomize: {}}]"), "f.yaml:5:23: spec.render[0].kustomize: helm and kustomize exclude each other; keep one"},
		{"unknown renderer", service("  render:\n  - hellm: {}"), `f.yaml:6:5: spec.render[0].hellm: unknown field; did you mean "helm"?`},
		{"number for a parameter", service("  render: [{helm: {parameters: {replicas: 3}}}]"), `f.yaml:5:43: spec.render[0].helm.parameters[replicas]: want text, got the number 3; put it into quotes: "3"`},
		{"list for values", service("  render: [{helm: {values: [a]}}]"), "f.yaml:5:28: spec.render[0].helm.values: want pairs such as key: value, got a list"},
		{"list as a key", service("  render: [{helm: {values: {? [a] : b}}}]"), "f.yaml:5:31: spec.render[0].helm.values: want text as a key, got a list"},
		{"boolean as a key", service("  render: [{helm: {values: {a: {true: b}}}}]"), `f.yaml:5:33: spec.render[0].helm.values[a]: want text as a key, got the boolean true; put it into quotes: "true"`},
		{"merge key in values", service("  render: [{helm: {values: {<<: {a: b}}}}]"), "f.yaml:5:29: spec.render[0].helm.values: merge keys (<<) are not supported; use an alias for the whole value"},
		{"key of values twice", service("  render: [{helm: {values: {a: {b: 1, b: 2}}}}]"), "f.yaml:5:39: spec.render[0].helm.values[a][b]: given twice"},
		{"number of too many digits", service("  render: [{helm: {values: {a: [1, 12345678901234567890]}}}]"), `f.yaml:5:36: spec.render[0].helm.values[a][1]: the number has too many digits to travel unchanged; put it into quotes: "12345678901234567890"`},
		{"no number of JSON", service("  render: [{helm: {values: {a: .nan}}}]"), "f.yaml:5:32: spec.render[0].helm.values[a]: want a number that JSON knows, got .nan"},
		{"tag in values", service("  render: [{wasm: {config: {a: !!binary aGk=}}}]"), "f.yaml:5:32: spec.render[0].wasm.config[a]: the YAML tag !!binary is not supported here"},
		{"text for labels", "apiVersion: leat.dev/v1\nkind: Cluster\nmetadata: {name: a, labels: b}", `f.yaml:3:29: metadata.labels: want pairs such as key: value, got the text "b"`},
		{
			"secrets that are not text", service("  config: {secrets: {PIN: 1234, OPEN: true}, values: {N: 5678}}"),
			"f.yaml:5:27: spec.config.secrets[PIN]: want text; put it into quotes\n" +
				"f.yaml:5:39: spec.config.secrets[OPEN]: want text; put it into quotes\n" +
				`f.yaml:5:58: spec.config.values[N]: want text, got the number 5678; put it into quotes: "5678"`,
		},
		{"merge key", "apiVersion: leat.dev/v1\nkind: Cluster\nmetadata: {name: a, <<: {labels: {}}}", "f.yaml:3:21: metadata.<<: merge keys (<<) are not supported; use an alias for the whole value"},
		{"list within a list", "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: List}]", "f.yaml:3:32: kind: a List inside a List is not supported"},
		{
			"several at once", service("  clutser: demo\n  paused: 1\n---\nkind: X"),
			"f.yaml:5:3: spec.clutser: unknown field; did you mean \"cluster\"?\n" +
				"f.yaml:6:11: spec.paused: want true or false, got the number 1\n" +
				"f.yaml:8:1: apiVersion: is required; write apiVersion: leat.dev/v1",
		},
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	for _, test := range badDocuments() {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := document.Parse("f.yaml", strings.NewReader(test.text))
			if diff := cmp.Diff(test.want, fmt.Sprint(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// A small file must not become a large fleet by aliases of aliases.
func TestAliasesAreBounded(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("apiVersion: leat.dev/v1\nkind: List\nitems:\n")
	text.WriteString("- &a {apiVersion: leat.dev/v1, kind: Cluster, metadata: {name: a}}\n")
	for range 80_000 {
		text.WriteString("- *a\n")
	}
	_, err := document.Parse("f.yaml", strings.NewReader(text.String()))
	if err == nil || !strings.Contains(err.Error(), "too many fields") {
		t.Errorf("got error %v, want one about too many fields", err)
	}
}

// TestTreesAreBounded has values that contain themselves, and values that aliases multiply.
func TestTreesAreBounded(t *testing.T) {
	t.Parallel()
	multiplied := "    a: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		multiplied += fmt.Sprintf("    b%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i+1, i, i, i, i, i, i, i, i, i, i)
	}
	for want, values := range map[string]string{
		"does an anchor contain itself": "    a: &a [*a]\n",
		"nested more than 100 deep":     "    a: " + strings.Repeat("[", 101) + strings.Repeat("]", 101) + "\n",
		"do the aliases in this file":   multiplied,
	} {
		_, err := document.Parse("f.yaml", strings.NewReader(service("  render:\n  - helm:\n     values:\n"+strings.ReplaceAll(values, "    ", "      "))))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %.300v, want an error with %q", err, want)
		}
	}
}
