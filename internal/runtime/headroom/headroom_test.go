// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package headroom

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

func TestHeadroomFor(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	limited := func(b *bounds) { b.limit = 2688 * mib }
	tests := []struct {
		name string
		live uint64
		rate float64
		cost float64
		with func(*bounds)
		want uint64 // MiB
	}{
		{"an idle process with a small heap gets the least", 16 * mib, mib, 0.002, nil, 10},
		{"a busy process with a small heap is collected four times a second", 16 * mib, 200 * mib, 0.00625, nil, 50},
		{"garbage alone makes no small heap large", 16 * mib, 1000 * mib, 0.0125, nil, 64},
		{"a busy process grows by what is alive", 128 * mib, 1000 * mib, 0.0125, nil, 128},
		{"an idle process with a large heap gets a part of it", 512 * mib, mib, 0.3, nil, 72},
		{"heartbeats of a large fleet need more", 512 * mib, 10 * mib, 0.3, nil, 120},
		{"nothing gets more than the most", 512 * mib, 100 * mib, 0.3, nil, 256},
		{"a huge heap does not, either", 16 << 30, 0, 3, nil, 256},
		{"a limit lets a busy process grow into half of what is free", 1024 * mib, 300 * mib, 2, limited, 832},
		{"an idle process does not need it", 1024 * mib, 0, 2, limited, 136},
		{"near its limit a process has the usual bound", 2500 * mib, 300 * mib, 4, limited, 256},
		{"beyond it, too", 2800 * mib, 300 * mib, 4, limited, 256},
		{"what is loaded stays", 100 * mib, 0, 0.1, func(b *bounds) { limited(b); b.isLoading = true }, 400},
		{"loading has the same bound", 500 * mib, 0, 0.1, func(b *bounds) { limited(b); b.isLoading = true }, 1094},
		{"loading without a limit has it, too", 500 * mib, 0, 0.1, func(b *bounds) { b.isLoading = true }, 256},
	}
	for _, test := range tests {
		b := bounds{small: 64 * mib, most: 256 * mib}
		if test.with != nil {
			test.with(&b)
		}
		if got := b.headroomFor(test.live, test.rate, test.cost); got+mib/2 < test.want*mib || got > test.want*mib+mib/2 {
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

// TestKeepFollowsTheHeap sets the default value first, because make test sets another one.
func TestKeepFollowsTheHeap(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(defaultGCPercent))
	stop := Keep(32<<20, 64<<20)
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

func TestGrow(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(defaultGCPercent))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 << 30))
	defer Keep(32<<20, 64<<20)()
	alive := make([]byte, 256<<20)
	await := func(is func(percent uint64) bool) {
		for !is(gcPercent()) {
			runtime.GC()
		}
	}
	isUsual := func(percent uint64) bool { return percent < 50 }
	isGrowing := func(percent uint64) bool { return percent > 200 }
	await(isUsual)
	first, second := Grow(), Grow()
	await(isGrowing)
	first()
	first()
	if loading.Load() != 1 {
		t.Errorf("%d are loading after one of two has ended", loading.Load())
	}
	second()
	await(isUsual)
	runtime.KeepAlive(alive)
}

func TestKeepLeavesAGivenValueAlone(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(250))
	defer Keep(128<<20, 128<<20)()
	if got := gcPercent(); got != 250 {
		t.Errorf("got GOGC %d, want the configured one", got)
	}
}
