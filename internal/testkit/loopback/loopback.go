// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package loopback finds addresses for servers that a test stops and starts again at the same
// address, and makes listeners without a port, whose connections are pipes.
//
// A port that the kernel chose for such a server is also in the range from which it takes the ports
// of outgoing connections: while the server is stopped, any connection of any test may get it. The
// ports chosen here lie below that range, and one test at a time has a port: tests of all packages
// run at once, and each looks for a port without a listener.
package loopback

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// The ports from first up to ephemeral, where Linux begins to choose automatically, are only used
// by processes that ask for them by number.
const (
	first     = 10240
	ephemeral = 32768
	tries     = 100
)

// Addr returns a loopback address, host:port, that has no listener, that no outgoing connection takes,
// and that no other test is given until this one has ended.
func Addr(t testing.TB) string {
	t.Helper()
	folder := filepath.Join(os.TempDir(), fmt.Sprintf("leat-test-ports-%d", os.Getuid()))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for range tries {
		port := strconv.Itoa(first + rand.IntN(ephemeral-first))
		lock := reserve(t, filepath.Join(folder, port))
		if lock == nil {
			continue
		}
		addr := net.JoinHostPort("127.0.0.1", port)
		// The test's own context may have ended, for instance if a cleanup starts a server again.
		listener, err := (&net.ListenConfig{}).Listen(context.WithoutCancel(t.Context()), "tcp", addr)
		if err == nil {
			_ = listener.Close()
			t.Cleanup(func() { _ = lock.Close() })
			return addr
		}
		_ = lock.Close()
	}
	t.Fatalf("find a free loopback port: gave up after %d tries", tries)
	return ""
}

// reserve returns the locked file, or nil if another test has locked it. The lock ends with the file, or
// with the process.
func reserve(t testing.TB, name string) *os.File {
	t.Helper()
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil
	}
	return file
}
