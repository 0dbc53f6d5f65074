// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

func TestHeadroomFor(t *testing.T) {
	t.Parallel()
	const small, most, mib = 64 << 20, 256 << 20, 1 << 20
	tests := []struct {
		name string
		live uint64
		rate float64
		cost float64
		want uint64 // MiB
	}{
		{"an idle process with a small heap gets the least", 16 * mib, mib, 0.002, 10},
		{"a busy process with a small heap is collected four times a second", 16 * mib, 200 * mib, 0.00625, 50},
		{"garbage alone makes no small heap large", 16 * mib, 1000 * mib, 0.0125, 64},
		{"a busy process grows by what is alive", 128 * mib, 1000 * mib, 0.0125, 128},
		{"an idle process with a large heap gets a part of it", 512 * mib, mib, 0.3, 72},
		{"heartbeats of a large fleet need more", 512 * mib, 10 * mib, 0.3, 120},
		{"nothing gets more than the most", 512 * mib, 100 * mib, 0.3, 256},
		{"a huge heap does not, either", 16 << 30, 0, 3, 256},
	}
	for _, test := range tests {
		if got := headroomFor(test.live, test.rate, test.cost, small, most); got+mib/2 < test.want*mib || got > test.want*mib+mib/2 {
			t.Errorf("%s: got %d bytes, want %d MiB", test.name, got, test.want)
		}
	}
}

func TestPercentFor(t *testing.T) {
	t.Parallel()
	if got := percentFor(512<<20, 64<<20); got != 12 {
		t.Errorf("64 MiB beside 512 MiB: got GOGC %d, want 12", got)
	}
	if got := percentFor(64<<30, 64<<20); got != 1 {
		t.Errorf("64 MiB beside 64 GiB: got GOGC %d, want 1: zero would collect without a pause", got)
	}
}

// gcPercent returns the value of GOGC.
func gcPercent() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func TestKeepHeadroomFollowsTheHeap(t *testing.T) {
	stop := KeepHeadroom(32<<20, 64<<20)
	alive := make([]byte, 512<<20)
	for gcPercent() >= 50 { // until a collection was noticed
		runtime.GC()
	}
	runtime.KeepAlive(alive)
	stop()
	if got := gcPercent(); got != 100 {
		t.Errorf("got GOGC %d after the end, want 100", got)
	}
}

func TestKeepHeadroomLeavesAGivenValueAlone(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(250))
	defer KeepHeadroom(128<<20, 128<<20)()
	if got := gcPercent(); got != 250 {
		t.Errorf("got GOGC %d, want the configured one", got)
	}
}
