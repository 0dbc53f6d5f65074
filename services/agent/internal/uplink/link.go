// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
)

// link answers the hub's calls about one connection.
type link struct {
	conn   *conn
	active atomic.Int32 // the agent's active requests

	mu      sync.Mutex
	hello   *tunnelv1.AttachRequest // nil before Attach
	silence *time.Timer             // nil if the hub promises no heartbeats
	leaving *time.Timer             // nil unless the hub drains
	stopped bool
}

var _ tunnelv1connect.LinkServiceHandler = (*link)(nil)

func newLink(c *conn) *link { return &link{conn: c} }

// Attach implements LinkService.
func (l *link) Attach(_ context.Context, req *tunnelv1.AttachRequest) (*tunnelv1.AttachResponse, error) {
	l.mu.Lock()
	l.hello = req
	if limit := silenceLimit(req); limit > 0 && l.silence == nil && !l.stopped {
		l.silence = time.AfterFunc(limit, l.listen)
	}
	l.mu.Unlock()
	l.conn.uplink.setReplicaCount(int(req.GetReplicas()))
	return &tunnelv1.AttachResponse{}, nil
}

// silenceLimit returns two heartbeats, and a little for the network.
func silenceLimit(req *tunnelv1.AttachRequest) time.Duration {
	return req.GetHeartbeatInterval().AsDuration() * 9 / 4
}

// listen closes a connection that received nothing for two heartbeats.
func (l *link) listen() {
	l.mu.Lock()
	limit := silenceLimit(l.hello)
	left := limit - time.Since(l.conn.server.LastHeard())
	if left > 0 && !l.stopped {
		l.silence.Reset(left)
	}
	l.mu.Unlock()
	if left <= 0 {
		_ = l.conn.carried.Close()
	}
}

// Heartbeat implements LinkService.
func (l *link) Heartbeat(ctx context.Context, req *tunnelv1.HeartbeatRequest) (*tunnelv1.HeartbeatResponse, error) {
	l.conn.uplink.setReplicaCount(int(req.GetReplicas()))
	if drain := req.GetDrain(); drain != nil {
		l.drain(drain.GetReconnectAfter().AsDuration())
	}
	res := &tunnelv1.HeartbeatResponse{ActiveStreams: l.active.Load()}
	if req.GetWantToken() {
		// Without a token the hub asks again, and in the end closes the connection. The token
		// source logs the cause.
		res.AccessToken, _ = l.conn.uplink.params.Tokens.Token(ctx)
	}
	return res, nil
}

// drain makes the agent connect elsewhere after a delay. Only the first notice counts.
func (l *link) drain(after time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leaving == nil && !l.stopped {
		l.leaving = time.AfterFunc(after, func() { close(l.conn.drained) })
	}
}

// attached returns how the hub has introduced itself, or nil before that.
func (l *link) attached() *tunnelv1.AttachRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hello
}

// stop ends the timers.
func (l *link) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	for _, timer := range []*time.Timer{l.silence, l.leaving} {
		if timer != nil {
			timer.Stop()
		}
	}
}
