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

// TestScriptsWithTheHub runs the scripts of testdata and of testdata/hub against the real hub. Those of
// testdata/double need what only agents, tunnels and providers report, or a hub that lies.
func TestScriptsWithTheHub(t *testing.T) {
	t.Parallel()
	runWithTheHub(t, scripts(t, "testdata", "testdata/hub"))
}

// scripts returns the scripts in folders, of which each has some.
func scripts(t *testing.T, folders ...string) []string {
	t.Helper()
	var all []string
	for _, folder := range folders {
		files, err := filepath.Glob(folder + "/*.txtar")
		if err != nil || len(files) == 0 {
			t.Fatalf("no scripts in %s (%v)", folder, err)
		}
		all = append(all, files...)
	}
	return all
}

// TestDocumentedFilters checks that find.txtar runs the commands that docs/guides/find.md shows.
func TestDocumentedFilters(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/guides/find.md")
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
		t.Fatalf("docs/guides/find.md shows %q", commands)
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
			return setEnvironment(env, hubtest.Start(env.T().(testing.TB)), hubtest.Token, examples)
		},
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"mode": checkMode},
		Condition:           onHub(true),
		RequireExplicitExec: true,
	})
}

// setEnvironment has a script's commands call the hub at url with the token, which is in the file
// api-token, too.
func setEnvironment(env *testscript.Env, url, token, examples string) error {
	env.Setenv("LEAT_SERVER", url)
	env.Setenv("LEAT_TOKEN", token)
	env.Setenv("HUB_TOKEN", token)
	env.Setenv("EXAMPLES", examples)
	env.Setenv("LEAT_CONFIG", env.WorkDir+"/config/config.yaml")
	return os.WriteFile(filepath.Join(env.WorkDir, "api-token"), []byte(token+"\n"), 0o600)
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
