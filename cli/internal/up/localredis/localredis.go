// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package localredis is an in-memory Redis in this process for a hub on one machine. Nothing in
// Redis has to outlive the hub: leases and events are rebuilt at every start.
package localredis

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// tick is the precision of expiry. The shortest time that the hub relies on is a third of a lease.
const tick = 100 * time.Millisecond

// Server is a Redis that listens on the loopback interface.
type Server struct {
	redis    *miniredis.Miniredis
	password string
}

// Start listens on a free port. The password, which is new at every start, excludes other users of
// the machine.
func Start() (*Server, error) {
	s := &Server{redis: miniredis.NewMiniRedis(), password: rand.Text()}
	s.redis.RequireAuth(s.password)
	if err := s.redis.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start redis: %w", err)
	}
	return s, nil
}

// URL returns the address for clients, with the password.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", User: url.UserPassword("", s.password), Host: s.redis.Addr()}
	return u.String()
}

// Run makes time pass in the server until ctx ends, and then closes it. Without it no key would
// ever expire: miniredis has no clock of its own.
func (s *Server) Run(ctx context.Context) error {
	defer s.redis.Close()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			now := time.Now()
			s.redis.FastForward(elapsed(last, now))
			last = now
		}
	}
}

// elapsed includes the time for which the machine was suspended, which the monotonic clock omits,
// as a real Redis would.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)), 0)
}
