// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"time"

	"github.com/leatdev/leat/internal/kit/timeouts"
	"github.com/leatdev/leat/internal/runtime/serve"
)

// HeartbeatInterval is how often a stream sends something when nothing happens.
const HeartbeatInterval = 20 * time.Second

// Stream holds the common loop of both audiences' streams.
type Stream struct {
	// Expires is when the caller's access token ends; zero: never.
	Expires time.Time
	// Ready receives a value when there is something to send, which Changed then sends.
	Ready   <-chan struct{}
	Changed func() error
	// Pause is asked after each change how long the next one waits, so that changes which come quickly one after the
	// other are sent together. Nil: it does not wait.
	Pause func() time.Duration
	// Beat sends something when nothing happens.
	Beat func() error
	// Leave is asked before each beat whether the caller had better go to another replica. Nil: never.
	Leave func() bool
	// Drain ends the stream because the replica stops, or because the caller is to leave.
	Drain func() error
}

// Run sends what there is until the stream ends: with the first error, with the access token, with
// the replica, or with ctx.
func (s *Stream) Run(ctx context.Context) error {
	heartbeat := time.NewTimer(timeouts.Align(HeartbeatInterval))
	defer heartbeat.Stop()
	var expired <-chan time.Time
	if !s.Expires.IsZero() {
		timer := time.NewTimer(time.Until(s.Expires))
		defer timer.Stop()
		expired = timer.C
	}
	ready := s.Ready
	var paused <-chan time.Time
	for {
		var err error
		select {
		case <-ready:
			err = s.Changed()
			if pause := s.pause(); pause > 0 {
				ready, paused = nil, time.After(pause)
			}
		case <-paused:
			ready, paused = s.Ready, nil
		case <-heartbeat.C:
			heartbeat.Reset(timeouts.Align(HeartbeatInterval))
			if s.Leave != nil && s.Leave() {
				return s.Drain()
			}
			err = s.Beat()
		case <-expired:
			return TokenInvalid("the access token ended; connect again with a new one")
		case <-serve.Draining(ctx):
			return s.Drain()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

func (s *Stream) pause() time.Duration {
	if s.Pause == nil {
		return 0
	}
	return s.Pause()
}
