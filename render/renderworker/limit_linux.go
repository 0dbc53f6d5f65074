// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package renderworker

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const (
	// maxFiles is how many files a worker may have open: its pipes, and the files of the runtime.
	maxFiles = 16
	// expendable is the OOM score that makes the kernel end a worker before the agent when memory
	// runs out.
	expendable = "500"
	// spareAddresses is how many bytes of addresses a worker may reserve beyond its memory: one unit
	// of Go's heap. So it is also by how much one allocation can exceed the memory.
	spareAddresses = 64 << 20
)

// limit makes the kernel hold this process to its bounds. The process cannot undo any of them.
func limit(b bounds) error {
	// If this fails, the kernel is as likely to end a worker as the agent.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte(expendable), 0)
	limits := map[int]uint64{syscall.RLIMIT_NOFILE: maxFiles, syscall.RLIMIT_FSIZE: 0, syscall.RLIMIT_CORE: 0}
	if b.cpu > 0 {
		limits[syscall.RLIMIT_CPU] = uint64(b.cpu / time.Second)
	}
	if b.memory > 0 && !raceDetector {
		// Go reserves addresses before it uses them, and the kernel does not count a mapping in place of
		// a reserved one against RLIMIT_DATA until it is there: a single allocation could have any size.
		// RLIMIT_AS refuses the reservation.
		reserved, err := addressSpace()
		if err != nil {
			return err
		}
		limits[syscall.RLIMIT_DATA] = uint64(b.memory)
		limits[syscall.RLIMIT_AS] = uint64(reserved + b.memory + spareAddresses)
	}
	for resource, most := range limits {
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("set limit %d to %d: %w", resource, most, err)
		}
	}
	return nil
}

// addressSpace returns the bytes of all mappings of this process. Most of them are reserved only.
func addressSpace() (int64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, fmt.Errorf("read own memory: %w", err)
	}
	var pages int64
	if _, err := fmt.Sscan(string(text), &pages); err != nil {
		return 0, fmt.Errorf("read own memory: %w", err)
	}
	return pages * int64(os.Getpagesize()), nil
}

// cpuTime returns the CPU time that this process has used, or 0 if it is unknown.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// unplug gives the child a network of its own, whose only interface is an idle loopback. If the
// system does not allow that to an unprivileged process, Start fails.
func unplug(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET}
}

// killed reports whether the kernel ended a process. The signal is the only reason that the kernel
// reports.
func killed(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && (status.Signal() == syscall.SIGKILL || status.Signal() == syscall.SIGXCPU)
}
