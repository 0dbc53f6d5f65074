// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/leatdev/leat/internal/runtime/memlimit"
)

const (
	// spareThreads is how many threads a process on few processors may run beyond their number.
	spareThreads = 2
	// fewProcessors is up to how many processors it does so. Of more than those, one is free often enough.
	fewProcessors = 8
)

// SpareThreads lets a process on few processors run two threads more at once than there are processors.
//
// Go's scheduler lets a goroutine compute for 10 ms before another one has its turn, and asks the network
// for events only when a thread has nothing else to do. In a process that computes on every
// processor, a request waits that long at each of its steps. The kernel divides its time among threads more finely, and
// prefers one that has slept. With threads to spare, a request waits for the kernel only.
//
// Nothing changes if GOMAXPROCS is set, or if the container may use fewer processors than there
// are: the kernel stops all threads of a container that has used up its share of a period, so that more threads
// would mean longer pauses. SpareThreads is for main functions.
func SpareThreads() {
	given := os.Getenv("GOMAXPROCS") //nolint:forbidigo // a setting of Go, not of Leat
	if n := threadsFor(given, runtime.NumCPU(), runtime.GOMAXPROCS(0), hasQuota(memlimit.Root)); n > 0 {
		runtime.GOMAXPROCS(n)
	}
}

// threadsFor returns how many threads a process runs at once. Zero: as many as Go chose. given is the value of
// GOMAXPROCS. Go chooses at least two, so on a machine with two processors its choice does not show a quota.
func threadsFor(given string, processors, chosen int, isLimited bool) int {
	if given != "" || isLimited || chosen < processors || processors > fewProcessors {
		return 0
	}
	return processors + spareThreads
}

// hasQuota reports whether the control group that is mounted at root limits the time of processors
// (https://docs.kernel.org/admin-guide/cgroup-v2.html, cpu.max).
func hasQuota(root string) bool {
	if quota, err := os.ReadFile(filepath.Join(root, "cpu.max")); err == nil {
		return !strings.HasPrefix(string(quota), "max")
	}
	quota, err := os.ReadFile(filepath.Join(root, "cpu", "cpu.cfs_quota_us")) // version 1
	return err == nil && !strings.HasPrefix(string(quota), "-1")
}
