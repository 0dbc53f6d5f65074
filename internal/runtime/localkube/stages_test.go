// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/runtime/localkube"
)

var update = flag.Bool("update", false, "write kwok-stages.yaml and pins")

// TestStages compares kwok-stages.yaml with the files of the kwok that tools/kube pins.
func TestStages(t *testing.T) {
	t.Parallel()
	source, err := localkube.FindSource(".")
	if err != nil {
		t.Fatal(err)
	}
	download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "sigs.k8s.io/kwok")
	download.Dir, download.Env = filepath.Join(source, "kwok"), append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	printed, err := download.Output()
	if err != nil {
		t.Fatalf("go mod download: %v\n%s", err, printed)
	}
	var module struct{ Dir, Version string }
	if err := json.Unmarshal(printed, &module); err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString("# SPDX-FileCopyrightText: The Kubernetes Authors\n# SPDX-License-Identifier: Apache-2.0\n\n" +
		"# Stages of kwok " + module.Version + ", written by TestStages with -update.\n")
	for _, file := range localkube.StageFiles() {
		stage, err := os.ReadFile(filepath.Join(module.Dir, "kustomize", "stage", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		want.WriteString("---\n" + strings.TrimRight(string(stage), "\n") + "\n")
	}
	if *update {
		if err := os.WriteFile("kwok-stages.yaml", []byte(want.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("kwok-stages.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want.String() {
		t.Error("kwok-stages.yaml is not what kwok has: go test ./internal/runtime/localkube -run TestStages -update")
	}
}

// TestOwnSource compares the pins that every program has with those of tools/kube, and has a build
// use them.
func TestOwnSource(t *testing.T) {
	t.Parallel()
	pinned, err := localkube.FindSource(".")
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	var own string
	for range 2 { // the second time it is there
		if own, err = localkube.OwnSource(cache); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(cache); err != nil || len(left) != 1 {
		t.Errorf("the cache has %v, %v, want one folder", left, err)
	}
	for _, module := range []string{"etcd", "kubernetes", "kwok"} {
		for _, kind := range []string{"mod", "sum"} {
			want, err := os.ReadFile(filepath.Join(pinned, module, "go."+kind))
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(filepath.Join("pins", module+"."+kind), want, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := os.ReadFile(filepath.Join(own, module, "go."+kind)); err != nil || string(got) != string(want) {
				t.Errorf("%s.%s is not what tools/kube has, %v: go test ./internal/runtime/localkube -run TestOwnSource -update", module, kind, err)
			}
		}
	}
	p := localkube.BuildParams{SourceDir: pinned, CacheDir: cache, GoCommand: newFakeGo(t)}
	want, err := localkube.Build(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	p.SourceDir = own
	if got, err := localkube.Build(t.Context(), p); err != nil || got != want {
		t.Errorf("built from it: got %+v, %v, want what a checkout builds, %+v", got, err, want)
	}
}
