// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package flux_test

import (
	"path/filepath"
	"testing"

	"github.com/leatdev/leat/cli/internal/migration"
	"github.com/leatdev/leat/cli/internal/migration/flux"
	"github.com/leatdev/leat/cli/internal/migration/migrationtest"
)

// settings are those of all examples.
var settings = migration.Settings{Cluster: "prod", Clusters: map[string]string{"edge-kubeconfig": "edge", "tenants/edge": "edge"}}

func translation() migrationtest.Translation {
	return migrationtest.Translation{
		Tool: flux.Tool(), Translate: flux.Translate, Settings: settings,
		IsNamed: func(kind string) bool { return kind != "Kustomization" && kind != "HelmRelease" },
	}
}

func TestExamples(t *testing.T) {
	t.Parallel()
	translation().Examples(t)
}

func TestSecObjectsOfFluxAreHostile(t *testing.T) {
	t.Parallel()
	translation().Attack(t)
}

// cases returns the names of the examples.
func cases(t testing.TB) []string {
	t.Helper()
	folders, err := filepath.Glob("testdata/*/in")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no examples (%v)", err)
	}
	for i, folder := range folders {
		folders[i] = filepath.Base(filepath.Dir(folder))
	}
	return folders
}

// read returns the objects of an example.
func read(t testing.TB, name string) []migration.Object {
	t.Helper()
	objects, unread, err := migration.Read(t.Context(), flux.Tool(), []string{"testdata/" + name + "/in"}, nil)
	if err != nil || len(unread) > 0 || len(objects) == 0 {
		t.Fatalf("read %s: %d objects, %v, %v", name, len(objects), unread, err)
	}
	return objects
}
