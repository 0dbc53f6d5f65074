// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package loopback finds addresses for servers that a test stops and starts again at the same
// address, and makes listeners without a port, whose connections are pipes.
//
// A port that the kernel chose for such a server is also in the range from which it takes the ports
// of outgoing connections: while the server is stopped, any connection of any test may get it. The
// ports chosen here lie below that range.
package loopback

import (
	"context"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// The ports from first up to ephemeral, where Linux begins to choose automatically, are only used
// by processes that ask for them by number.
const (
	first     = 10240
	ephemeral = 32768
	tries     = 100
)

// Addr returns a loopback address, host:port, that has no listener, and that no outgoing connection
// takes.
func Addr(t testing.TB) string {
	t.Helper()
	for range tries {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(first+rand.IntN(ephemeral-first)))
		// The test's own context may have ended, for instance if a cleanup starts a server again.
		listener, err := (&net.ListenConfig{}).Listen(context.WithoutCancel(t.Context()), "tcp", addr)
		if err == nil {
			_ = listener.Close()
			return addr
		}
	}
	t.Fatalf("find a free loopback port: gave up after %d tries", tries)
	return ""
}
