// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package raced lets tests that measure memory leave the race detector alone, which holds memory of its
// own for each byte of theirs, and follows each byte that they send. `make test` runs them without it.
package raced

import "testing"

// Skip skips a test of a program with the race detector. The Makefile names the test, in MEASURE.
func Skip(t testing.TB) {
	t.Helper()
	if detector {
		t.Skip("it measures memory, which make test does without the race detector")
	}
}
