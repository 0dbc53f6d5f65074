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
	checkDocumented(t, "docs/guides/find.md", "", "testdata/hub/find.txtar", 5)
}

// TestDocumentedBootstrap checks that bootstrap.txtar runs the commands that docs/operations/kubernetes.md
// shows for many clusters.
func TestDocumentedBootstrap(t *testing.T) {
	t.Parallel()
	checkDocumented(t, "docs/operations/kubernetes.md", "\n## Many clusters\n", "testdata/bootstrap.txtar", 2)
}

// checkDocumented checks that a script runs the commands, at least so many, of the first block of shell
// commands in a section of a page.
func checkDocumented(t *testing.T, name, section, script string, least int) {
	t.Helper()
	page, err := os.ReadFile("../../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	run, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), section)
	_, rest, _ = strings.Cut(rest, "```sh\n")
	commands, _, _ := strings.Cut(rest, "```")
	if strings.Count(commands, "\n") < least {
		t.Fatalf("%s shows %q", name, commands)
	}
	for command := range strings.Lines(commands) {
		if !strings.Contains(string(run), "\nexec "+command) {
			t.Errorf("%s does not run %s", script, command)
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
