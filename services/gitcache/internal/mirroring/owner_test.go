// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// hangingLeases is a lease store whose answers come when the caller gives up, while it hangs.
type hangingLeases struct {
	lease.Store
	hangs     atomic.Bool
	questions atomic.Int64
}

func (h *hangingLeases) Holder(ctx context.Context, key string) (lease.Holder, error) {
	if !h.hangs.Load() {
		return h.Store.Holder(ctx, key)
	}
	h.questions.Add(1)
	<-ctx.Done()
	return lease.Holder{}, ctx.Err()
}

// TestOutageOfLeasesCostsOneQuestion asks for the owners of many repositories while the lease store
// hangs: one of them waits for it, the others know at once; when it is back they learn so within
// two seconds.
func TestOutageOfLeasesCostsOneQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		leases := &hangingLeases{Store: w.leases}
		w.leases = leases
		var defs []mirror.Definition
		for i := range 100 {
			defs = append(defs, definition(fmt.Sprint("demo-", i)))
		}
		set, _ := w.member(t, "a", nil, defs...) // runs nothing, so that only this test asks
		leases.hangs.Store(true)
		begun := time.Now()
		for _, def := range defs {
			if _, err := get(t, set, def.Name).Owner(t.Context()); !errors.Is(err, mirror.ErrDependency) {
				t.Fatalf("%s: got %v, want ErrDependency", def.Name, err)
			}
		}
		if took, asked := time.Since(begun), leases.questions.Load(); took > time.Second || asked != 1 {
			t.Errorf("got %d questions and %s for 100 repositories, want one that takes a second", asked, took)
		}
		leases.hangs.Store(false)
		time.Sleep(2*time.Second + time.Millisecond)
		for _, def := range defs {
			if url, err := get(t, set, def.Name).Owner(t.Context()); err != nil || url != "" {
				t.Errorf("%s: got %q, %v after the outage, want nobody", def.Name, url, err)
			}
		}
	})
}
