// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// MiniServer is a miniredis inside the test process. Its keys expire only through FastForward, not
// with time.
type MiniServer struct {
	*miniredis.Miniredis
}

// Mini starts a miniredis, which ends with the test.
func Mini(t testing.TB) *MiniServer {
	t.Helper()
	return &MiniServer{Miniredis: miniredis.RunT(t)}
}

// URL returns the address in the form that redis.ParseURL and LEAT_REDIS_URL accept.
func (m *MiniServer) URL() string {
	return "redis://" + m.Addr() + "/0"
}

// Client returns a new client, closed when t ends. It does not retry automatically.
func (m *MiniServer) Client(t testing.TB) *redis.Client {
	t.Helper()
	return (&Server{addr: m.Addr()}).Client(t)
}
