// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package casdisk

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// lockFile takes an exclusive lock. The kernel releases it when the process ends, even by a crash.
func lockFile(path string) (io.Closer, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, errors.Join(err, file.Close())
	}
	return fileLock{file}, nil
}

// fileLock is a held lock.
type fileLock struct{ *os.File }

// Close releases the lock explicitly. A child that was forked at this moment, and has not executed
// its program yet, shares the open file and would otherwise hold the lock until then.
func (l fileLock) Close() error {
	return errors.Join(syscall.Flock(int(l.Fd()), syscall.LOCK_UN), l.File.Close())
}
