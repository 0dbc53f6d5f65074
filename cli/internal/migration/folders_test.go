// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package migration_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/cli/internal/migration"
)

// TestFoldersWith finds the folders of a repository that files are in, wherever the repository lies.
func TestFoldersWith(t *testing.T) {
	t.Parallel()
	var objects []migration.Object
	for _, origin := range []string{
		"/home/ada/fleet/clusters/prod/apps.yaml:1", "clusters/test/apps/web/web.yaml:7", "x.yaml:1", "the cluster", strings.Repeat("a/", 5000) + "deep/x.yaml:1",
	} {
		objects = append(objects, migration.NewObject(&unstructured.Unstructured{Object: map[string]any{
			"kind": "A", "metadata": map[string]any{"name": migration.Label(origin[:min(len(origin), 20)])},
		}}, origin))
	}
	got := migration.FoldersWith(objects, []string{"clusters/prod", "clusters/test", "clusters", "apps", "prod/apps", "clusters/pro", "", "deep", "web"})
	want := map[string]string{
		"clusters/prod": "A home-ada-fleet-clus", "clusters": "A home-ada-fleet-clus", "clusters/test": "A clusters-test-apps-w", "apps": "A clusters-test-apps-w",
		"web": "A clusters-test-apps-w",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("folders (-want +got):\n%s", diff)
	}
}
