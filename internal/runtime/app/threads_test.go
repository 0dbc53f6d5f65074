// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"path/filepath"
	"testing"
)

func TestThreadsFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name               string
		given              string
		processors, chosen int
		isLimited          bool
		want               int
	}{
		{"one processor", "", 1, 1, false, 3},
		{"few processors", "", 2, 2, false, 4},
		{"the most of few processors", "", 8, 8, false, 10},
		{"many processors", "", 9, 9, false, 0},
		{"a container that may use fewer processors", "", 8, 2, true, 0},
		{"fewer than the two that Go chooses at least", "", 2, 2, true, 0},
		{"fewer by affinity or a limit that is mounted elsewhere", "", 8, 2, false, 0},
		{"somebody chose", "2", 2, 2, false, 0},
	} {
		if got := threadsFor(tt.given, tt.processors, tt.chosen, tt.isLimited); got != tt.want {
			t.Errorf("%s: got %d threads, want %d", tt.name, got, tt.want)
		}
	}
}

func TestHasQuota(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file, content string
		want          bool
	}{
		{"other", "", false},
		{"cpu.max", "max 100000\n", false},
		{"cpu.max", "50000 100000\n", true},
		{"cpu/cpu.cfs_quota_us", "-1\n", false},
		{"cpu/cpu.cfs_quota_us", "50000\n", true},
	} {
		root := t.TempDir()
		path := filepath.Join(root, filepath.FromSlash(tt.file))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(tt.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := hasQuota(root); got != tt.want {
			t.Errorf("%s with %q: got %v, want %v", tt.file, tt.content, got, tt.want)
		}
	}
}
