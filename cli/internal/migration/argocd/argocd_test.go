// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package argocd_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/cli/internal/migration"
	"github.com/leatdev/leat/cli/internal/migration/argocd"
	"github.com/leatdev/leat/cli/internal/migration/migrationtest"
)

func translation() migrationtest.Translation {
	return migrationtest.Translation{
		Tool: argocd.Tool(), Translate: argocd.Translate, Settings: migration.Settings{Cluster: "tools"},
		IsNamed: func(kind string) bool { return kind == "Secret" || kind == "AppProject" },
	}
}

func TestExamples(t *testing.T) {
	t.Parallel()
	translation().Examples(t)
}

func TestSecObjectsOfArgoCDAreHostile(t *testing.T) {
	t.Parallel()
	translation().Attack(t)
}

// object returns an object of Argo CD with this spec.
func object(kind, name string, spec map[string]any) migration.Object {
	return migration.NewObject(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": kind, "metadata": map[string]any{"name": name, "namespace": "argocd"}, "spec": spec,
	}}, "x.yaml:1")
}

// reasons returns the reasons of an entry's notes about a field.
func reasons(e migration.Entry, field string) []string {
	var found []string
	for _, n := range e.Notes {
		if n.Field == field {
			found = append(found, n.Reason)
		}
	}
	return found
}

// application returns an Application of a project that takes its content from a URL.
func application(name, project, url string) migration.Object {
	return object("Application", name, map[string]any{
		"project": project, "source": map[string]any{"repoURL": url}, "destination": map[string]any{"name": "edge", "namespace": "shop"},
	})
}

// TestSecProjectsOfArgoCDAreBounded has lists in projects that each Application would be compared with.
func TestSecProjectsOfArgoCDAreBounded(t *testing.T) {
	t.Parallel()
	var many, windows []any
	for i := range 2000 {
		many = append(many, fmt.Sprintf("https://git.example.com/%d/*", i))
		windows = append(windows, map[string]any{"kind": "deny", "schedule": "0 0 * * *", "duration": "1h", "applications": []any{"*"}})
	}
	result := argocd.Translate([]migration.Object{
		object("AppProject", "wide", map[string]any{"sourceRepos": many}), application("of-wide", "wide", "https://git.example.com/1/a"),
		object("AppProject", "timed", map[string]any{
			"sourceRepos": []any{"*"}, "destinations": []any{map[string]any{"name": "*", "namespace": "*"}}, "syncWindows": windows,
		}),
	}, migration.Settings{Cluster: "tools"})
	if got := strings.Join(reasons(result.Entries[0], "spec.sourceRepos"), ""); !strings.Contains(got, "at most 256") {
		t.Errorf("got %q about 2000 patterns, want that a limit has fewer", got)
	}
	if len(result.Entries[1].Documents) > 0 {
		t.Error("an Application is imported whose project is not: nothing limits it")
	}
	left := 0
	for _, n := range result.Entries[2].Notes {
		if strings.HasPrefix(n.Field, "spec.syncWindows[") {
			left++
		}
	}
	if left != 1500 { // two for each window: it, and its pattern
		t.Errorf("got %d windows left out, want 1500", left)
	}
}

// TestSecImportsLoosenNoProject has Applications that Argo CD refuses for what their project does not allow.
func TestSecImportsLoosenNoProject(t *testing.T) {
	t.Parallel()
	project := func(clusters, namespaces string) migration.Object {
		return object("AppProject", "team", map[string]any{
			"sourceRepos": []any{"https://git.example.com/team/*"}, "destinations": []any{map[string]any{"name": clusters, "namespace": namespaces}},
		})
	}
	for name, test := range map[string]struct {
		project migration.Object
		url     string
		want    int // documents: the project, the repository and the service
	}{
		"allowed":           {project("edge", "shop"), "https://git.example.com/team/a", 3},
		"a repository":      {project("edge", "shop"), "https://git.example.com/other/a", 1},
		"a path below":      {project("edge", "shop"), "https://git.example.com/team/a/b", 1},
		"a cluster":         {project("core", "shop"), "https://git.example.com/team/a", 1},
		"a namespace":       {project("edge", "shop-*"), "https://git.example.com/team/a", 1},
		"an unknown server": {project("https://10.0.0.1", "shop"), "https://git.example.com/team/a", 1},
	} {
		result := argocd.Translate([]migration.Object{test.project, application("app", "team", test.url)}, migration.Settings{Cluster: "tools"})
		if len(result.Documents) != test.want {
			t.Errorf("%s: got %d documents, want %d: %+v", name, len(result.Documents), test.want, result.Entries)
		}
	}
}

// TestSecTemplatesDoNotMultiply has texts of a few bytes in a template that would become gigabytes.
func TestSecTemplatesDoNotMultiply(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	element := func(text, value string) migration.Object {
		return object("ApplicationSet", "set", map[string]any{
			"generators": []any{map[string]any{"list": map[string]any{"elements": []any{map[string]any{"a": value}}}}},
			"template": map[string]any{"metadata": map[string]any{"name": "a"}, "spec": map[string]any{
				"source": map[string]any{"repoURL": "https://git.example.com/a", "path": text}, "destination": map[string]any{"name": "edge"},
			}},
		})
	}
	parameter := map[string]any{"name": "a", "value": strings.Repeat("$ARGOCD_APP_NAME", 100_000)}
	named := object("Application", "b", map[string]any{
		"source":      map[string]any{"repoURL": "https://git.example.com/a", "path": "x", "helm": map[string]any{"parameters": []any{parameter}}},
		"destination": map[string]any{"name": "edge", "namespace": long},
	})
	named.Name = long
	for name, o := range map[string]migration.Object{
		"a long value":            element(strings.Repeat("{{a}}", 100_000), long),
		"many errors":             element(strings.Repeat("{{a b}}", 500_000), "x"),
		"a name in its parameter": named,
	} {
		result := argocd.Translate([]migration.Object{o}, migration.Settings{Cluster: "tools"})
		if len(result.Documents) != 0 || len(result.Entries) != 1 || len(result.Entries[0].Notes) != 1 {
			t.Errorf("%s: got %d documents and %.300v", name, len(result.Documents), result.Entries)
		}
	}
}
