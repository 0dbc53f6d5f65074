// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package argocd_test

import (
	"testing"

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
