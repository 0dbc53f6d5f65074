// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package heap measures the memory that a test's objects hold.
package heap

import "runtime"

// Live returns the bytes of the heap that are in use after two collections. The second one frees what the first has found to
// be finalized, and what pools have kept. It may be less than a call before.
func Live() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
