// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package standin writes programs that stand in for others in tests.
package standin

import (
	"os"
	"syscall"
	"testing"
)

// Write makes the file an executable with this content, which begins with its interpreter, such as #!/bin/sh. It may be
// called concurrently, and be executed at once: a process that a parallel test forked while the file was open for writing
// would keep it open for a moment, in which executing it fails with "text file busy".
func Write(t testing.TB, path, content string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
}
