// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package localkube

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// errLocked means that another process, or another value in this one, holds a lock.
var errLocked = errors.New("locked by another process")

// tryLock takes the advisory lock on the file at path, which it creates if necessary, or returns an
// error that matches errLocked. The kernel releases the lock of a process that dies.
func tryLock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() {
		// Closing the file would leave the lock with a child that is being forked.
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
		_ = f.Close()
	}, nil
}
