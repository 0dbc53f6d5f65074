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

// TestSecProjectsOfArgoCDAreBounded has lists in one project that each Application would be compared with.
func TestSecProjectsOfArgoCDAreBounded(t *testing.T) {
	t.Parallel()
	var many, windows []any
	for i := range 2000 {
		many = append(many, fmt.Sprintf("https://git.example.com/%d/*", i))
		windows = append(windows, map[string]any{"kind": "deny", "schedule": "0 0 * * *", "duration": "1h", "applications": []any{"*"}})
	}
	objects := []migration.Object{
		object("AppProject", "wide", map[string]any{"sourceRepos": many, "syncWindows": windows}),
		object("AppProject", "used", map[string]any{"sourceRepos": many[:1], "destinations": []any{map[string]any{"name": "*", "namespace": "*"}}}),
	}
	for i := range 300 {
		objects = append(objects, object("Application", fmt.Sprintf("app-%d", i), map[string]any{
			"project": "used", "source": map[string]any{"repoURL": fmt.Sprintf("https://other.example.com/%d", i)}, "destination": map[string]any{"name": "edge"},
		}))
	}
	result := argocd.Translate(objects, migration.Settings{Cluster: "tools"})
	wide, used := result.Entries[0], result.Entries[1]
	if got := strings.Join(reasons(wide, "spec.sourceRepos"), ""); !strings.Contains(got, "256") {
		t.Errorf("got %q about 2000 patterns, want that a limit has fewer", got)
	}
	left := 0
	for _, n := range wide.Notes {
		if strings.HasPrefix(n.Field, "spec.syncWindows[") {
			left++
		}
	}
	if left != 1500 { // two for each window: it, and its pattern
		t.Errorf("got %d windows left out, want 1500", left)
	}
	if got := strings.Join(reasons(used, "spec.sourceRepos"), "\n"); !strings.Contains(got, "use more than the 256") {
		t.Errorf("got %.200q, want that Applications use more than a limit may allow", got)
	}
	for _, d := range result.Documents {
		if limits := d.GetProject().GetSpec().GetLimits(); len(limits.GetRepositories().GetAllow()) > 256 {
			t.Errorf("project %s allows %d repositories, which the hub refuses", d.GetProject().GetMetadata().GetName(), len(limits.GetRepositories().GetAllow()))
		}
	}
}
