// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package supply_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/supply"
	"github.com/leatdev/leat/internal/testkit/standin"
)

// fakeGo stands in for the go command: it writes files instead of compiling, records what it builds
// in $0.calls, and fails if $0.broken exists.
const fakeGo = `
if [ -e "$0.broken" ]; then echo "undefined: broken" >&2; exit 1; fi
while [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; shift; done
echo "$1" >>"$0.calls"
echo built >"$out"
`

// prints returns the text that the programs print for a version.
func prints(file, version string) string {
	switch file {
	case localkube.EtcdFile:
		return "etcd Version: " + version + "\nGit SHA: 1.2.3"
	case localkube.KwokFile:
		return "kwok version v" + version + " go1.26.8 (linux/amd64)"
	case localkube.KubectlFile:
		return "Client Version: v" + version + "\nKustomize Version: v5.8.1"
	default:
		return "Kubernetes v" + version
	}
}

// bench is a Supply with empty folders around it.
type bench struct {
	supply.Params

	search string // the only folder on the PATH

	mu      sync.Mutex
	origins []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{search: t.TempDir()}
	b.Params = supply.Params{
		CacheDir: filepath.Join(t.TempDir(), "cache"),
		LookPath: func(file string) (string, error) { return exec.LookPath(filepath.Join(b.search, file)) },
		Report: func(o supply.Origin) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.origins = append(b.origins, o.String())
		},
	}
	return b
}

// withSource adds a checkout with pins and a stand-in for the go command.
func (b *bench) withSource(t *testing.T, kubernetes, etcd string) {
	t.Helper()
	b.SourceDir = t.TempDir()
	for module, requirement := range map[string]string{
		"etcd":       "require go.etcd.io/etcd/server/v3 v" + etcd,
		"kubernetes": "require k8s.io/kubernetes v" + kubernetes,
		"kwok":       "require sigs.k8s.io/kwok v0.8.0",
	} {
		writeFile(t, filepath.Join(b.SourceDir, module, "go.mod"), "module example.test/"+module+"\n\n"+requirement+"\n", 0o600)
		writeFile(t, filepath.Join(b.SourceDir, module, "go.sum"), "", 0o600)
	}
	b.GoCommand = filepath.Join(t.TempDir(), "go")
	writeScript(t, b.GoCommand, fakeGo)
}

func (b *bench) built(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(b.GoCommand + ".calls")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// add puts programs of a version into a folder.
func add(t *testing.T, dir, version string, files ...string) {
	t.Helper()
	for _, file := range files {
		writeScript(t, filepath.Join(dir, file), "cat <<'end'\n"+prints(file, version)+"\nend\n")
	}
}

// writeScript writes an executable that runs body in a shell.
func writeScript(t *testing.T, path, body string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	standin.Write(t, path, "#!/bin/sh\n"+body)
}

func writeFile(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) servers(t *testing.T) (localkube.Binaries, error) {
	t.Helper()
	return supply.New(b.Params).Get(t.Context(), supply.Servers())
}

// TestOrder has each file in every place at first, and removes one place after the other.
func TestOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Dir = t.TempDir()
	b.withSource(t, "1.36.3", "3.7.3")
	add(t, b.Dir, "3.6.8", localkube.EtcdFile)
	add(t, b.search, "3.6.8", localkube.EtcdFile)
	add(t, b.search, "1.36.2", localkube.APIServerFile)

	got, err := b.servers(t)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(b.Dir, "etcd"); got.Etcd != want {
		t.Errorf("etcd: got %s, want %s, the user's", got.Etcd, want)
	}
	if want := filepath.Join(b.search, "kube-apiserver"); got.APIServer != want {
		t.Errorf("kube-apiserver: got %s, want %s, which is on the PATH", got.APIServer, want)
	}
	if got := b.built(t); got != "" {
		t.Errorf("built %s, want nothing", got)
	}

	b.Dir, b.search = "", t.TempDir()
	if got, err = b.servers(t); err != nil {
		t.Fatal(err)
	}
	if want := "go.etcd.io/etcd/server/v3\nk8s.io/kubernetes/cmd/kube-apiserver\n"; b.built(t) != want {
		t.Errorf("built %q, want %q: what delivers, alone and first", b.built(t), want)
	}
	add(t, b.search, "3.6.8", localkube.EtcdFile)
	again, err := b.servers(t)
	if err != nil {
		t.Fatal(err)
	}
	if again != got {
		t.Errorf("second start: got %+v, want %+v, which is in the cache", again, got)
	}
	want := []string{
		"--kubernetes-binaries: takes etcd; without kube-apiserver",
		"earlier start: without kube-apiserver",
		"PATH: takes kube-apiserver",
		"--kubernetes-binaries: not set",
		"earlier start: without etcd, kube-apiserver",
		"PATH: without etcd, kube-apiserver",
		"kind: not requested; --kind runs the cluster in containers",
		"download: switched off",
		"build: takes etcd, kube-apiserver",
		"--kubernetes-binaries: not set",
		"earlier start: takes etcd, kube-apiserver",
	}
	if got := strings.Join(b.origins, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("reported\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// The servers come first, and the rest later; both are asked for by each cluster, and made once.
func TestGetInParts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.withSource(t, "1.36.3", "3.7.3")
	s := supply.New(b.Params)
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for _, part := range [][]string{supply.Servers(), supply.Rest()} {
				if _, err := s.Get(t.Context(), part); err != nil {
					t.Errorf("get %s: %v", part, err)
				}
			}
		})
	}
	group.Wait()
	got, err := s.Get(t.Context(), supply.Rest())
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(supply.Servers(), supply.Rest()...) {
		if *got.Path(file) == "" {
			t.Errorf("%s is missing in %+v", file, got)
		}
	}
	if got := strings.Count(b.built(t), "\n"); got != 6 {
		t.Errorf("go built %d times, want once for each of 6 files:\n%s", got, b.built(t))
	}
	if got := strings.Count(strings.Join(b.origins, "\n"), "--kubernetes-binaries: not set"); got != 1 {
		t.Errorf("reported a way %d times, want once:\n%s", got, b.origins)
	}
}

// Programs on the PATH of other versions are left, whatever they print.
func TestMisfits(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, file, version, want string }{
		{"old etcd", localkube.EtcdFile, "3.5.21", "etcd 3.5.21 does not fit, want 3.6 or 3.7"},
		{"other Kubernetes", localkube.APIServerFile, "1.35.4", "kube-apiserver 1.35.4 does not fit, want 1.36"},
		{"other digits", localkube.APIServerFile, "1.360.0", "kube-apiserver 1.360.0 does not fit, want 1.36"},
		{"pre-release", localkube.APIServerFile, "1.37.0-rc.1", "kube-apiserver 1.37.0-rc.1 does not fit, want 1.36"},
		{"no version", localkube.APIServerFile, "", "kube-apiserver does not print its version"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			add(t, b.search, tc.version, tc.file)
			_, err := supply.New(b.Params).Get(t.Context(), []string{tc.file})
			missing, ok := errors.AsType[*supply.MissingError](err)
			if !ok || !strings.Contains(missing.Error(), "PATH: "+tc.want) {
				t.Errorf("got %v, want a MissingError with %q", err, tc.want)
			}
		})
	}
	t.Run("does not run", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		writeScript(t, filepath.Join(b.search, "etcd"), "echo etcd Version: 3.6.8; exit 3\n")
		if _, err := b.servers(t); err == nil || !strings.Contains(err.Error(), "exit status 3") {
			t.Errorf("got %v, want the program's exit status", err)
		}
	})
	t.Run("kubectl may be a minor version away", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		add(t, b.search, "1.37.1", localkube.KubectlFile)
		if _, err := supply.New(b.Params).Get(t.Context(), []string{localkube.KubectlFile}); err != nil {
			t.Error(err)
		}
	})
}

// A user who names a folder is not left with another binary than the one that is there.
func TestNamedFolderMustFit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.withSource(t, "1.36.3", "3.7.3")
	b.Dir = t.TempDir()
	if _, err := b.servers(t); err == nil || !strings.Contains(err.Error(), "has none of the files of a control plane") {
		t.Errorf("empty folder: got %v", err)
	}
	add(t, b.Dir, "1.30.2", localkube.APIServerFile)
	_, gotErr := b.servers(t)
	for _, err := range []error{gotErr, supply.New(b.Params).Check(t.Context())} {
		if err == nil || !strings.Contains(err.Error(), "--kubernetes-binaries: kube-apiserver 1.30.2 does not fit, want 1.36") {
			t.Errorf("old version: got %v", err)
		}
	}
	if got := b.built(t); got != "" {
		t.Errorf("built %s, want nothing", got)
	}
}

// An etcd cannot read what a newer one wrote, so a start that finds only an older one leaves it.
func TestEtcdIsNotOlderThanItsData(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.EtcdData = "3.7.1"
	add(t, b.search, "3.6.8", localkube.EtcdFile)
	add(t, b.search, "1.36.2", localkube.APIServerFile)
	const why = "etcd 3.6.8 cannot read the data that etcd 3.7.1 wrote"
	if _, err := b.servers(t); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("got %v, want %q", err, why)
	}
	b.withSource(t, "1.36.3", "3.7.3")
	got, err := b.servers(t)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got.Etcd, b.CacheDir) || !strings.HasPrefix(got.APIServer, b.search) {
		t.Errorf("got %+v, want etcd built and kube-apiserver from the PATH", got)
	}
	b.EtcdData = "3.6.8" // older data is no obstacle
	if _, err := b.servers(t); err != nil {
		t.Error(err)
	}
}

// Outside of a checkout, the cache may hold what an older checkout built.
func TestCacheOfAnotherVersion(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.withSource(t, "1.35.4", "3.7.3")
	if _, err := localkube.Build(t.Context(), localkube.BuildParams{SourceDir: b.SourceDir, CacheDir: b.CacheDir, GoCommand: b.GoCommand}); err != nil {
		t.Fatal(err)
	}
	b.SourceDir = ""
	err := supply.New(b.Params).Check(t.Context())
	if err != nil {
		t.Errorf("check: got %v, want nil: it looks for files alone", err)
	}
	_, err = b.servers(t)
	missing, ok := errors.AsType[*supply.MissingError](err)
	if !ok || fmt.Sprint(missing.Files) != "[kube-apiserver]" {
		t.Errorf("got %v, want kube-apiserver missing", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	add(t, b.search, "3.6.8", localkube.EtcdFile)
	err := supply.New(b.Params).Check(t.Context())
	missing, ok := errors.AsType[*supply.MissingError](err)
	if !ok || len(missing.Files) != 5 || !strings.Contains(err.Error(), "build: no folder to build from") {
		t.Errorf("without anything but etcd: got %v", err)
	}
	b.withSource(t, "1.36.3", "3.7.3")
	if err := supply.New(b.Params).Check(t.Context()); err != nil {
		t.Errorf("with a checkout and go: got %v", err)
	}
	b.GoCommand = "no-such-command"
	if err := supply.New(b.Params).Check(t.Context()); err == nil || !strings.Contains(err.Error(), "build: no go command") {
		t.Errorf("without go: got %v", err)
	}
}

// Who has no checkout and no Go can install programs that upstream publishes, and nothing else.
func TestUpstreamsProgramsAreEnough(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	add(t, b.search, "3.6.8", localkube.EtcdFile)
	add(t, b.search, "1.36.2", localkube.APIServerFile, localkube.ControllerManagerFile, localkube.SchedulerFile, localkube.KubectlFile)
	add(t, b.search, "0.8.0", localkube.KwokFile)
	s := supply.New(b.Params)
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("check: %v", err)
	}
	for _, part := range [][]string{supply.Servers(), supply.Rest()} {
		if _, err := s.Get(t.Context(), part); err != nil {
			t.Errorf("get %s: %v", part, err)
		}
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.withSource(t, "1.36.3", "3.7.3")
	writeFile(t, b.GoCommand+".broken", "", 0o600)
	s := supply.New(b.Params)
	if _, err := s.Get(t.Context(), supply.Servers()); err == nil || !strings.Contains(err.Error(), "undefined: broken") {
		t.Errorf("broken build: got %v, want the compiler's output", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Get(ended, supply.Servers()); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: got %v", err)
	}
}

// The versions that fit follow the pinned ones.
func TestPinsFit(t *testing.T) {
	t.Parallel()
	source, err := localkube.FindSource(".")
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	b.withSource(t, "0.0.0", "0.0.0") // for the stand-in
	b.SourceDir = source
	s := supply.New(b.Params)
	for _, part := range [][]string{supply.Servers(), supply.Rest()} {
		if _, err := s.Get(t.Context(), part); err != nil {
			t.Errorf("versions of tools/kube: %v", err)
		}
	}
}
