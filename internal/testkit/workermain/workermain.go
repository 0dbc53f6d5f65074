// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package workermain tests programs that the agent starts again, with an argument, as render
// workers.
package workermain

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

// argument is the first argument of a render worker.
const argument = "render-worker"

// Run is the TestMain of a program's package: in a process that was started as a render worker it
// calls main, the program's main, and otherwise it runs the tests.
func Run(m *testing.M, main func()) {
	if slices.Contains(os.Args, argument) {
		main()
		return
	}
	os.Exit(m.Run())
}

// Check starts the test's own program as the agent does. A worker exits without an error if there
// is nothing to build, and with one if its arguments are wrong.
func Check(t *testing.T) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if output, err := exec.CommandContext(t.Context(), program, argument, "0", "0").CombinedOutput(); err != nil {
		t.Errorf("got %v: %s", err, output)
	}
	if output, err := exec.CommandContext(t.Context(), program, argument, "x", "0").CombinedOutput(); err == nil {
		t.Errorf("with wrong arguments: got no error, and %s", output)
	}
}
