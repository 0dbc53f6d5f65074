// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"github.com/leatdev/leat/internal/app"
)

// garbage allocates 256 MiB and returns how many collections ran.
func garbage() uint32 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 256 {
		runtime.KeepAlive(make([]byte, 1<<20))
	}
	runtime.ReadMemStats(&after)
	return after.NumGC - before.NumGC
}

// gcPercent returns the current GOGC.
func gcPercent() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func TestKeepHeadroom(t *testing.T) {
	stop := app.KeepHeadroom(64<<20, 128<<20)
	runtime.GC()
	// Finalizers run one after another, so headroom's has run when this one runs.
	done := make(chan struct{})
	runtime.SetFinalizer(&struct{ pointer *int }{new(int)}, func(any) { close(done) })
	runtime.GC()
	<-done
	if got := garbage(); got > 12 {
		t.Errorf("a small heap was collected %d times in 256 MiB, want about every 64 MiB", got)
	}
	alive := make([]byte, 512<<20)
	for range 3 {
		runtime.GC()
	}
	for gcPercent() >= 50 { // until its finalizer has run
		runtime.Gosched()
	}
	runtime.KeepAlive(alive)
	stop()
	if got := gcPercent(); got != 100 {
		t.Errorf("got GOGC %d after the end, want 100", got)
	}
}

func TestKeepHeadroomLeavesAGivenValueAlone(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(250))
	defer app.KeepHeadroom(64<<20, 128<<20)()
	if got := gcPercent(); got != 250 {
		t.Errorf("got GOGC %d, want the configured one", got)
	}
}
