// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"os"
	"os/exec"
	"path/filepath"
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
