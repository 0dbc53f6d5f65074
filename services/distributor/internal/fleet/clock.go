// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// clockTolerance is by how much the shared clock may be off before it is corrected. Otherwise each reading
// would move it, and half of them backwards.
const clockTolerance = time.Second

// sharedClock shows the time of the store's clock, which is the same at all replicas: so a replica whose own
// clock is off can compare times that others stored. It continues with this machine's monotonic
// clock, so setting the machine's clock does not move it. Until the first reading it shows this
// machine's time. It is safe for concurrent use.
type sharedClock struct {
	reading atomic.Pointer[clockReading]
}

// clockReading is what the store's clock showed at a time of this machine's clock.
type clockReading struct {
	// at has a monotonic reading.
	at, shown time.Time
}

func (c *sharedClock) now() time.Time {
	r := c.reading.Load()
	if r == nil {
		return catalog.Now()
	}
	return r.shown.Add(time.Since(r.at)).UTC().Truncate(time.Microsecond)
}

// set asks the store for its time, and corrects the clock if it is off by more than the tolerance and the time
// that the answer took. One goroutine at a time calls it.
func (c *sharedClock) set(ctx context.Context, store PresenceStore) error {
	asked := time.Now()
	shown, err := store.Now(ctx)
	if err != nil {
		return err
	}
	took := time.Since(asked)
	off := shown.Add(took / 2).Sub(c.now())
	if c.reading.Load() == nil || off.Abs() > clockTolerance+took {
		c.reading.Store(&clockReading{at: asked, shown: shown.Add(-took / 2)})
	}
	return nil
}
