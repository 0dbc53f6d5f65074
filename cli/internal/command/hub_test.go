// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leatdev/leat/cli/internal/hubtest"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/registrytest"
)

// TestScriptsWithTheHub runs the scripts of testdata and of testdata/hub against the real hub.
// Scripts of testdata/double need what only agents, tunnels and providers report, or a hub that
// lies.
func TestScriptsWithTheHub(t *testing.T) {
	t.Parallel()
	runWithTheHub(t, hubtest.Start, scripts(t, "testdata", "testdata/hub"))
}

// TestScriptsWithGit runs the scripts of testdata/fleet against the real hub with a real gitcache. They commit to
// upstreams, and doubles of agents report.
func TestScriptsWithGit(t *testing.T) {
	t.Parallel()
	runWithTheHub(t, hubtest.StartWithGit, scripts(t, "testdata/fleet"))
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

// TestDocumentedRequests runs the commands of the guide in the script about access requests.
func TestDocumentedRequests(t *testing.T) {
	t.Parallel()
	checkDocumented(t, "docs/guides/access.md", "\n## Access on request\n", "testdata/hub/requests.txtar", 2)
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

func runWithTheHub(t *testing.T, start func(testing.TB) *hubtest.Hub, files []string) {
	t.Helper()
	examples, err := filepath.Abs("../../../examples")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Files: files,
		Setup: func(env *testscript.Env) error {
			tb := env.T().(testing.TB)
			hub := start(tb)
			env.Values[realHub{}] = &hubOfScript{Hub: hub, t: tb}
			return setEnvironment(env, hub.URL, hubtest.Token, examples)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"agent": setAgent, "await": awaitOutput, "commit": makeCommit, "git": askUpstream, "image": pushImage, "mode": checkMode, "pushable": allowPushes,
		},
		Condition:           onHub(true),
		RequireExplicitExec: true,
	})
}

// realHub is the key of a script's *hubOfScript.
type realHub struct{}

type hubOfScript struct {
	*hubtest.Hub

	t testing.TB
	// registry is nil until an image is pushed.
	registry *registrytest.Registry
}

func hubOf(ts *testscript.TestScript) *hubOfScript { return ts.Value(realHub{}).(*hubOfScript) }

// makeCommit adds a commit with the files of a folder to the branch main of an upstream, sets a variable to
// its id, and writes the document of the repository to NAME.yaml: commit NAME FOLDER VARIABLE
func makeCommit(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: commit NAME FOLDER VARIABLE")
	}
	hub, name, files := hubOf(ts), args[0], map[string]string{}
	folder := os.DirFS(ts.MkAbs(args[1]))
	ts.Check(fs.WalkDir(folder, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(folder, path)
		files[path] = string(content)
		return err
	}))
	repo := hub.Git.Repo(hub.t, name)
	ts.Setenv(args[2], repo.Commit(hub.t, "main", files))
	document := fmt.Sprintf("{apiVersion: leat.dev/v1, kind: Repository, metadata: {name: %s}, spec: {url: %q}}\n", name, repo.URL())
	ts.Check(os.WriteFile(ts.MkAbs(name+".yaml"), []byte(document), 0o600))
}

// allowPushes writes the document of an upstream, to whose branch main the hub may push, to NAME.yaml: pushable NAME
func allowPushes(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: pushable NAME")
	}
	hub := hubOf(ts)
	document := fmt.Sprintf("{apiVersion: leat.dev/v1, kind: Repository, metadata: {name: %s}, spec: {url: %q, push: {branches: [main]}, "+
		"credential: {basic: {username: leat, password: none}, allowPlainHttp: true}}}\n", args[0], hub.Git.Repo(hub.t, args[0]).URL())
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".yaml"), []byte(document), 0o600))
}

// askUpstream runs Git in an upstream, and writes what it prints to a file: git NAME FILE ARGUMENTS…
func askUpstream(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: git NAME FILE ARGUMENT…")
	}
	hub := hubOf(ts)
	printed := hub.Git.Repo(hub.t, args[0]).GitRaw(hub.t, args[2:]...)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(printed), 0o600))
}

// pushImage pushes an image with each of the tags to a registry, and writes the document of its repository to NAME.yaml:
// image NAME TAG…
func pushImage(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: image NAME TAG…")
	}
	hub := hubOf(ts)
	if hub.registry == nil {
		hub.registry = registrytest.Start(hub.t, registrytest.Config{})
	}
	for _, tag := range args[1:] {
		hub.registry.Push(hub.t, "team/"+args[0], tag, "application/vnd.oci.image.config.v1+json",
			registrytest.Layer{MediaType: "application/vnd.oci.image.layer.v1.tar+gzip", Data: []byte("the layer of " + tag)})
	}
	document := fmt.Sprintf("{apiVersion: leat.dev/v1, kind: Repository, metadata: {name: %s}, spec: {type: oci, url: \"oci+http://%s/team/%s\"}}\n",
		args[0], hub.registry.Addr, args[0])
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".yaml"), []byte(document), 0o600))
}

// setAgent starts the double of the agent of a cluster, or changes what it reports:
//
//	agent CLUSTER               each service is healthy
//	agent CLUSTER fails COMMIT  services with that commit are degraded
//	agent CLUSTER guards        its guard keeps an object of each service, until a person agrees
func setAgent(ts *testscript.TestScript, _ bool, args []string) {
	hub := hubOf(ts)
	switch {
	case len(args) == 1:
		hub.Agent(hub.t, args[0])
	case len(args) == 3 && args[1] == "fails":
		hub.Agent(hub.t, args[0]).Fail(hub.t, args[2])
	case len(args) == 2 && args[1] == "guards":
		hub.Agent(hub.t, args[0]).Guard(hub.t)
	default:
		ts.Fatalf("usage: agent CLUSTER [fails COMMIT|guards]")
	}
}

// awaitOutput runs a program, whatever its exit code is, until a line that it prints matches:
// await PATTERN PROGRAM ARGUMENTS…
func awaitOutput(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: await PATTERN PROGRAM [ARGUMENT…]")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	await.Success(hubOf(ts).t, args[0]+" in the output of "+strings.Join(args[1:], " "), func(context.Context) error {
		err := ts.Exec(args[1], args[2:]...)
		if out := ts.ReadFile("stdout"); !pattern.MatchString(out) {
			return errors.Join(err, fmt.Errorf("it printed %s%s", out, ts.ReadFile("stderr")))
		}
		return nil
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
