// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

// worker is the first argument of a render worker.
const worker = "render-worker"

func TestMain(m *testing.M) {
	if slices.Contains(os.Args, worker) {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestMainCanBeARenderWorker starts this program as the agent does. A worker exits successfully if there is nothing to
// build.
func TestMainCanBeARenderWorker(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if output, err := exec.CommandContext(t.Context(), program, worker, "0", "0").CombinedOutput(); err != nil {
		t.Errorf("got %v: %s", err, output)
	}
	if output, err := exec.CommandContext(t.Context(), program, worker, "x", "0").CombinedOutput(); err == nil {
		t.Errorf("with wrong arguments: got no error, and %s", output)
	}
}
