// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/leatdev/leat/internal/runtime/config"
)

// TestSecUnreadBudgetFollowsTheMemoryLimit reads the bound of unread bodies under the limits of the
// shipped manifest: it must take effect long before the kernel kills the process.
func TestSecUnreadBudgetFollowsTheMemoryLimit(t *testing.T) {
	group := t.TempDir()
	if err := os.WriteFile(filepath.Join(group, "memory.max"), []byte("536870912\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var cfg Config
	set := config.New("tunnel", func(string) (string, bool) { return "", false })
	cfg.Bind(set)
	if err := set.Parse([]string{"--distributor-url=http://d", "--service-secret=a secret of more than thirty-two bytes", "--service-keys=x"}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		process  int64
		root     string
		set      config.Bytes
		min, max int64
	}{
		"the pod's limit": {math.MaxInt64, group, 0, 64 << 20, 192 << 20},
		"GOMEMLIMIT":      {450 << 20, t.TempDir(), 0, 64 << 20, 192 << 20},
		"no limit":        {math.MaxInt64, t.TempDir(), 0, 512 << 20, 512 << 20},
		"the setting":     {450 << 20, group, 300 << 20, 300 << 20, 300 << 20},
	} {
		chosen := cfg
		if c.set > 0 {
			chosen.BufferMemory = c.set
		}
		before := debug.SetMemoryLimit(c.process)
		got := chosen.bufferMemory(c.root)
		debug.SetMemoryLimit(before)
		if got < c.min || got > c.max {
			t.Errorf("%s: got %d MiB, want %d to %d", name, got>>20, c.min>>20, c.max>>20)
		}
	}
}
