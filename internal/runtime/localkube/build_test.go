// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/testkit/standin"
)

// fakeGo stands in for the go command: it writes a file instead of compiling, records every call in
// $0.calls, and fails for the package named in $0.broken.
const fakeGo = `echo "$PWD $GOWORK $*" >>"$0.calls"
while [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; shift; done
if [ "$1" = "$(cat "$0.broken" 2>/dev/null)" ]; then echo "undefined: broken" >&2; exit 1; fi
echo "$1" >"$out"
`

// newFakeGo returns the path of a fakeGo.
func newFakeGo(t *testing.T) string {
	t.Helper()
	return newScript(t, fakeGo)
}

// newSource returns a source folder that pins made-up versions.
func newSource(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for module, requirement := range map[string]string{
		"etcd":       "require go.etcd.io/etcd/server/v3 v3.0.1",
		"kubernetes": "replace k8s.io/kubernetes => elsewhere v9.9.9\nrequire (\n\tk8s.io/kubernetes v1.2.3 // indirect\n)",
		"kwok":       "require sigs.k8s.io/kwok v0.0.1",
	} {
		writeFile(t, filepath.Join(dir, module, "go.mod"), "module example.test/"+module+"\n\n"+requirement+"\n")
		writeFile(t, filepath.Join(dir, module, "go.sum"), "")
	}
	return dir
}

// newScript returns the path of an executable that runs body in a shell.
func newScript(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	standin.Write(t, path, "#!/bin/sh\n"+body+"\n")
	return path
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func calls(t *testing.T, goCommand string) []string {
	t.Helper()
	text, err := os.ReadFile(goCommand + ".calls")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

func paths(b localkube.Binaries) []string {
	return []string{b.Etcd, b.APIServer, b.ControllerManager, b.Scheduler, b.Kwok, b.Kubectl}
}

func TestBuildOnce(t *testing.T) {
	t.Parallel()
	var lines []string
	p := localkube.BuildParams{
		SourceDir: newSource(t), CacheDir: filepath.Join(t.TempDir(), "cache"), GoCommand: newFakeGo(t),
		Progress: func(line string) { lines = append(lines, line) },
	}
	cold, err := localkube.Build(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths(cold) {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("after build: %v", err)
		}
	}
	if got := strings.Join(lines, "\n"); !strings.Contains(got, "building kube-apiserver v1.2.3 (2 of 6)") {
		t.Errorf("progress: got\n%s\nwant a line with version and count", got)
	}
	for _, call := range calls(t, p.GoCommand) {
		if !strings.Contains(call, " off ") {
			t.Errorf("go was called inside the workspace: %s", call)
		}
		if strings.Contains(call, "kube-apiserver") && !strings.Contains(call, "gitVersion=v1.2.3 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=2 ") {
			t.Errorf("kube-apiserver is not told its version: %s", call)
		}
	}

	p.GoCommand = "no-such-command"
	warm, err := localkube.Build(t.Context(), p)
	if err != nil {
		t.Fatalf("second build, without go: %v", err)
	}
	if warm != cold {
		t.Errorf("second build: got %+v, want %+v", warm, cold)
	}
	if built, err := localkube.Built(localkube.BuildParams{CacheDir: p.CacheDir}); err != nil || built != cold {
		t.Errorf("what is built, without a checkout: got %+v, %v, want %+v", built, err, cold)
	}
	if err := os.Remove(cold.Scheduler); err != nil {
		t.Fatal(err)
	}
	want := cold
	want.Scheduler = ""
	for _, q := range []localkube.BuildParams{{CacheDir: p.CacheDir}, p} {
		if built, err := localkube.Built(q); err != nil || built != want {
			t.Errorf("after a file was removed: got %+v, %v, want %+v", built, err, want)
		}
	}
	if built, err := localkube.Built(localkube.BuildParams{CacheDir: t.TempDir()}); err != nil || built != (localkube.Binaries{}) {
		t.Errorf("got %+v, %v from an empty cache", built, err)
	}
}

// A start needs the servers first, so they are built alone first. The other files follow, and Built
// then finds all of them.
func TestBuildByParts(t *testing.T) {
	t.Parallel()
	p := localkube.BuildParams{SourceDir: newSource(t), CacheDir: t.TempDir(), GoCommand: newFakeGo(t)}
	p.Only = []string{localkube.APIServerFile, localkube.EtcdFile}
	servers, err := localkube.Build(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if want := (localkube.Binaries{Etcd: servers.Etcd, APIServer: servers.APIServer}); servers != want || servers.Etcd == "" || servers.APIServer == "" {
		t.Errorf("got %+v, want paths of the two servers alone", servers)
	}
	if got := calls(t, p.GoCommand); len(got) != 2 || !strings.Contains(got[0], "etcd") || !strings.Contains(got[1], "kube-apiserver") {
		t.Errorf("calls of go: got %q, want one for each server, etcd first", got)
	}
	p.Only = []string{
		localkube.ControllerManagerFile, localkube.SchedulerFile, localkube.KwokFile, localkube.KubectlFile,
	}
	rest, err := localkube.Build(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	want := rest
	want.Etcd, want.APIServer = servers.Etcd, servers.APIServer
	if built, err := localkube.Built(localkube.BuildParams{CacheDir: p.CacheDir}); err != nil || built != want {
		t.Errorf("what is built, without a checkout: got %+v, %v, want %+v", built, err, want)
	}
}

func TestBuildTogether(t *testing.T) {
	t.Parallel()
	p := localkube.BuildParams{SourceDir: newSource(t), CacheDir: t.TempDir(), GoCommand: newFakeGo(t)}
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			if _, err := localkube.Build(t.Context(), p); err != nil {
				t.Errorf("build: %v", err)
			}
		})
	}
	group.Wait()
	if got, want := len(calls(t, p.GoCommand)), len(paths(localkube.Binaries{})); got != want {
		t.Errorf("calls of go by three builders: got %d, want %d", got, want)
	}
}

func TestBuildAgainWhenPinsChange(t *testing.T) {
	t.Parallel()
	p := localkube.BuildParams{SourceDir: newSource(t), CacheDir: t.TempDir(), GoCommand: newFakeGo(t)}
	before, err := localkube.Build(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(p.SourceDir, "etcd", "go.sum"), "changed\n")
	after, err := localkube.Build(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if after.Etcd == before.Etcd {
		t.Errorf("etcd after a change of its pins: got the old one, %s", after.Etcd)
	}
	if after.APIServer != before.APIServer {
		t.Errorf("kube-apiserver after a change of etcd's pins: got %s, want the old one, %s", after.APIServer, before.APIServer)
	}
}

func TestBuildErrors(t *testing.T) {
	t.Parallel()
	t.Run("no go command", func(t *testing.T) {
		t.Parallel()
		_, err := localkube.Build(t.Context(), localkube.BuildParams{SourceDir: newSource(t), CacheDir: t.TempDir(), GoCommand: "no-such-command"})
		if !errors.Is(err, localkube.ErrNoGoTool) || !strings.Contains(fmt.Sprint(err), "--kubeconfig") {
			t.Errorf("got %v, want ErrNoGoTool and what to do instead", err)
		}
	})
	t.Run("no source", func(t *testing.T) {
		t.Parallel()
		if _, err := localkube.Build(t.Context(), localkube.BuildParams{SourceDir: t.TempDir(), CacheDir: t.TempDir()}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v, want %v", err, os.ErrNotExist)
		}
	})
	t.Run("compiler error", func(t *testing.T) {
		t.Parallel()
		p := localkube.BuildParams{SourceDir: newSource(t), CacheDir: t.TempDir(), GoCommand: newFakeGo(t)}
		writeFile(t, p.GoCommand+".broken", "k8s.io/kubernetes/cmd/kube-apiserver")
		_, err := localkube.Build(t.Context(), p)
		if got := fmt.Sprint(err); !strings.Contains(got, "build kube-apiserver v1.2.3") || !strings.Contains(got, "undefined: broken") {
			t.Errorf("got %q, want the component and the compiler's output", got)
		}
		if left, _ := filepath.Glob(filepath.Join(p.CacheDir, "building-*")); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
		writeFile(t, p.GoCommand+".broken", "")
		if _, err := localkube.Build(t.Context(), p); err != nil {
			t.Errorf("build after the fault was removed: %v", err)
		}
	})
}

func TestFindSource(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	want := filepath.Join(root, "tools", "kube")
	writeFile(t, filepath.Join(want, "kubernetes", "go.mod"), "module example.test\n")
	below := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := localkube.FindSource(below); err != nil || got != want {
		t.Errorf("FindSource(%s): got %s, %v, want %s", below, got, err, want)
	}
	if got, err := localkube.FindSource(t.TempDir()); !errors.Is(err, localkube.ErrSourceNotFound) {
		t.Errorf("FindSource outside a checkout: got %s, %v, want %v", got, err, localkube.ErrSourceNotFound)
	}
}
