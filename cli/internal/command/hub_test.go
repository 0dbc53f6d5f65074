// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leatdev/leat/cli/internal/hubtest"
)

// TestScriptsWithTheHub runs the scripts of testdata/hub, in which people have roles, against the real
// hub, and two that the double answers, too.
func TestScriptsWithTheHub(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/hub/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in testdata/hub (%v)", err)
	}
	runWithTheHub(t, append(files, "testdata/apply.txtar", "testdata/cluster.txtar"))
}

// TestSlowScriptsWithTheHub runs the other scripts that need no agent against the real hub: the double
// answers them as it does. The rest need what only agents and gitcache report, or a fault at one
// moment.
func TestSlowScriptsWithTheHub(t *testing.T) {
	t.Parallel()
	if os.Getenv("LEAT_SLOW") == "" {
		t.Skip("LEAT_SLOW is not set: these scripts run against the double alone; both are left to `make test-all`")
	}
	runWithTheHub(t, []string{"testdata/examples.txtar", "testdata/people.txtar", "testdata/projects.txtar"})
}

// TestDocumentedFilters checks that find.txtar runs the commands that docs/find.md shows.
func TestDocumentedFilters(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/find.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("testdata/hub/find.txtar")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```sh\n")
	commands, _, _ := strings.Cut(rest, "```")
	if strings.Count(commands, "\n") < 5 {
		t.Fatalf("docs/find.md shows %q", commands)
	}
	for command := range strings.Lines(commands) {
		if !strings.Contains(string(script), "\nexec "+command) {
			t.Errorf("find.txtar does not run %s", command)
		}
	}
}

func runWithTheHub(t *testing.T, files []string) {
	t.Helper()
	examples, err := filepath.Abs("../../../examples")
	if err != nil {
		t.Fatal(err)
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
