// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package memlimit_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/leatdev/leat/internal/runtime/memlimit"
)

// controlGroup returns the folder of a control group that has one file.
func controlGroup(t *testing.T, file, text string) string {
	t.Helper()
	root := t.TempDir()
	path := filepath.Join(root, file)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestKeep(t *testing.T) {
	for name, c := range map[string]struct {
		process int64
		root    string
		want    int64
	}{
		"no limit set":            {math.MaxInt64, t.TempDir(), math.MaxInt64},
		"group without limit":     {math.MaxInt64, controlGroup(t, "memory.max", "max\n"), math.MaxInt64},
		"version 1 without limit": {math.MaxInt64, controlGroup(t, "memory/memory.limit_in_bytes", "9223372036854771712\n"), math.MaxInt64},
		"group":                   {math.MaxInt64, controlGroup(t, "memory.max", "1000000000\n"), 900000000},
		"version 1":               {math.MaxInt64, controlGroup(t, "memory/memory.limit_in_bytes", "2000000000\n"), 1800000000},
		"GOMEMLIMIT":              {3 << 30, controlGroup(t, "memory.max", "1000000000\n"), 3 << 30},
	} {
		before := debug.SetMemoryLimit(c.process)
		memlimit.Keep(c.root)
		memlimit.Keep(c.root) // the limit of the first call is kept, and not lowered once more
		if got := debug.SetMemoryLimit(before); got != c.want {
			t.Errorf("%s: got a limit of %d, want %d", name, got, c.want)
		}
	}
}

func TestShare(t *testing.T) {
	write := func(file, text string) string { return controlGroup(t, file, text) }
	for name, c := range map[string]struct {
		process int64
		root    string
		want    int64
	}{
		"no limit set":             {math.MaxInt64, t.TempDir(), 1 << 30},
		"group without limit":      {math.MaxInt64, write("memory.max", "max\n"), 1 << 30},
		"version 1 without limit":  {math.MaxInt64, write("memory/memory.limit_in_bytes", "9223372036854771712\n"), 1 << 30},
		"group":                    {math.MaxInt64, write("memory.max", "4294967296\n"), 1 << 30},
		"version 1":                {math.MaxInt64, write("memory/memory.limit_in_bytes", "8589934592\n"), 2 << 30},
		"process":                  {3 << 30, t.TempDir(), 3 << 28},
		"process less than group":  {3 << 30, write("memory.max", "4294967296\n"), 3 << 28},
		"group less than process":  {4 << 30, write("memory.max", "3221225472\n"), 3 << 28},
		"less than the least":      {64 << 20, t.TempDir(), 128 << 20},
		"something else in a file": {math.MaxInt64, write("memory.max", "much\n"), 1 << 30},
	} {
		before := debug.SetMemoryLimit(c.process)
		got := memlimit.Share{Root: c.root, Divisor: 4, Least: 128 << 20, Fallback: 1 << 30}.Bytes()
		debug.SetMemoryLimit(before)
		if got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}
