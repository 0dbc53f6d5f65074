// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestSecSpreadLeavesTheLock walks over more services than are visited under one lock, and has a
// goroutine wait for the lock from the first of them on.
func TestSecSpreadLeavesTheLock(t *testing.T) {
	t.Parallel()
	for _, project := range []string{"default", "shop"} {
		t.Run(project, func(t *testing.T) {
			t.Parallel()
			c := newCatalog()
			var want []string
			for _, prefix := range []string{"", "apart.", "shop."} {
				for i := range 2*spreadAtOnce + 1 {
					name := fmt.Sprintf("%sapp-%05d", prefix, i)
					c.contents.indexed.names.add(name)
					if prefix == map[string]string{"default": "", "shop": "shop."}[project] {
						want = append(want, name)
					}
				}
			}
			var got []string
			changed := make(chan int)
			eachName(c, catalog.KindService, project, func(name string) {
				if got = append(got, name); len(got) > 1 {
					return
				}
				go func() {
					c.mu.Lock()
					seen := len(got)
					c.mu.Unlock()
					changed <- seen
				}()
				for c.mu.TryRLock() { // until a goroutine waits for the lock
					c.mu.RUnlock()
					runtime.Gosched()
				}
			})
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("saw %d names, want %d, each once and sorted", len(got), len(want))
			}
			if seen := <-changed; seen != spreadAtOnce {
				t.Errorf("the catalog was free after %d services, want after %d", seen, spreadAtOnce)
			}
		})
	}
}
