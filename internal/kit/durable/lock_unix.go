// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package durable

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// Lock takes the exclusive lock on the file at path, which it creates if necessary, until the
// closer is closed. The error matches [ErrLocked] while another process, or another caller in this
// one, has it. The kernel releases the lock of a process that ends, even by a crash. Where the
// system has no such locks the error matches [errors.ErrUnsupported].
func Lock(path string) (io.Closer, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	return held{file}, nil
}

// held is a held lock.
type held struct{ *os.File }

// Close releases the lock explicitly. A child that was forked at this moment, and has not executed
// its program yet, shares the open file and would otherwise hold the lock until then.
func (h held) Close() error {
	return errors.Join(syscall.Flock(int(h.Fd()), syscall.LOCK_UN), h.File.Close())
}
