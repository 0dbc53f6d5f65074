// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leatdev/leat/cli/internal/hubtest"
)

// sharedScripts also run against the real hub, so the double answers them as it does. The others need
// what only agents and gitcache report, or a fault at one moment.
var sharedScripts = []string{"apply", "cluster", "examples", "people", "projects"}

// TestScriptsWithTheHub runs the scripts that need no agent against the real hub, and those of
// testdata/hub, in which people have roles.
func TestScriptsWithTheHub(t *testing.T) {
	t.Parallel()
	examples, err := filepath.Abs("../../../examples")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/hub/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in testdata/hub (%v)", err)
	}
	for _, name := range sharedScripts {
		files = append(files, filepath.Join("testdata", name+".txtar"))
	}
	testscript.Run(t, testscript.Params{
		Files: files,
		Setup: func(env *testscript.Env) error {
			env.Setenv("LEAT_SERVER", hubtest.Start(env.T().(testing.TB)))
			env.Setenv("LEAT_TOKEN", hubtest.Token)
			env.Setenv("EXAMPLES", examples)
			env.Setenv("LEAT_CONFIG", env.WorkDir+"/config/config.yaml")
			return nil
		},
		Condition:           onHub(true),
		RequireExplicitExec: true,
	})
}

// onHub returns the conditions of scripts: [hub] holds for lines about the real hub, and [double] for
// lines about the double.
func onHub(isReal bool) func(string) (bool, error) {
	return func(condition string) (bool, error) {
		switch condition {
		case "hub":
			return isReal, nil
		case "double":
			return !isReal, nil
		}
		return false, fmt.Errorf("unknown condition %q", condition)
	}
}
