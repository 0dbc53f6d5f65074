// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Build runs tools/NAME/build.sh of the checkout that the test is in, which compiles a program unless
// that was done before, and returns the path that the script prints. It fails the test if there is no
// such script or the script fails.
func Build(t testing.TB, name string) string {
	t.Helper()
	at, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; at = filepath.Dir(at) {
		script := filepath.Join(at, "tools", name, "build.sh")
		if _, err := os.Stat(script); err == nil {
			command := exec.CommandContext(t.Context(), script)
			command.Stderr = os.Stderr // it reports that this takes a while
			out, err := command.Output()
			if err != nil {
				t.Fatalf("build %s: %v", name, err)
			}
			return strings.TrimSpace(string(out))
		}
		if at == filepath.Dir(at) {
			t.Fatalf("no tools/%s in this folder or above it", name)
		}
	}
}

// Compile compiles the command of a folder, such as ./cmd/leat, into the folder dir, which need not
// exist, and returns the path of the program, which has the name of the command's folder. The error
// contains the compiler's output. Concurrent calls need folders of their own.
//
// Like the shipped ones, the program has neither the race detector, whatever the test has, nor cgo,
// so that `make build`, linters and all tests share compiled packages. It has no symbols, so that
// it links in half the time; traces keep their names and lines.
//
// Go keeps a linked program only for `go run`. Compile makes `go run` copy the program instead of
// running it, so a program that several packages of tests need is linked once. A program that is
// running under that path keeps running; the new one is another file.
//
// The flags, such as -overlay=FILE, are passed to go build.
func Compile(ctx context.Context, dir, command string, flags ...string) (string, error) {
	at, err := filepath.Abs(command)
	if err != nil {
		return "", err
	}
	binary, err := filepath.Abs(filepath.Join(dir, filepath.Base(at)))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(binary), 0o750); err != nil {
		return "", fmt.Errorf("compile %s: %w", command, err)
	}
	args := slices.Concat([]string{"run", "-buildvcs=false", "-ldflags=-s", "-exec=cp -f"}, flags, []string{".", binary})
	run := exec.CommandContext(ctx, "go", args...)
	run.Dir = at
	run.Env = append(run.Environ(), "CGO_ENABLED=0")
	if out, err := run.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile %s: %w\n%s", command, err, out)
	}
	return binary, nil
}
