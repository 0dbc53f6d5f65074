// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"net/http"
	"sync"

	"github.com/leatdev/leat/internal/kit/wake"
)

// Target is where a request goes and on whose behalf.
type Target struct {
	// Cluster is the cluster's full name.
	Cluster string
	// ClusterUID is the uid that was authorised. Connections of another cluster of that name are
	// passed over. Empty takes any.
	ClusterUID string
	// User is charged for the request. Empty: no user is, because another replica has charged them.
	User string
}

// Stream is the right to send one request to a cluster. It counts against the limits until it is
// released. It is not safe for concurrent use, but Release may be called at any time.
type Stream struct {
	table  *Table
	target Target
	once   sync.Once

	mu      sync.Mutex
	session *Session
}

// Open reserves one request to a cluster, on its newest connection that takes one. It never waits.
// It fails with [ErrOffline], [ErrDraining], [ErrFull] or a [*BusyError].
func (t *Table) Open(target Target) (*Stream, error) {
	sessions, err := t.reserve(target)
	if err != nil {
		return nil, err
	}
	s, err := t.pick(sessions, target.ClusterUID, nil)
	if err != nil {
		t.release(target)
		return nil, err
	}
	s.begin()
	return &Stream{table: t, target: target, session: s}, nil
}

// Session returns the session that the request is on at the moment.
func (s *Stream) Session() *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session
}

// maxMoves is how often one request goes to another connection.
const maxMoves = 3

// RoundTrip sends the request. When the connection is lost before any byte of a response, the
// request is sent again over another connection if that is safe: when none of its body was used,
// and the agent has certainly not begun it. A request that only reads is sent once more even if the
// agent may have begun it.
func (s *Stream) RoundTrip(req *http.Request) (*http.Response, error) {
	for moves, lost := 0, false; ; moves++ {
		attempt, body := guard(req)
		res, err := s.Session().conn.RoundTrip(attempt)
		if err == nil || !errors.Is(err, ErrLost) || req.Context().Err() != nil {
			return res, err
		}
		refused := errors.Is(err, ErrRefused)
		if moves == maxMoves || !refused && (lost || !Repeatable(req)) || !body.revoke() || !s.move() {
			return nil, err
		}
		lost = lost || !refused
	}
}

// Release gives the reservation back. Releasing twice does nothing.
func (s *Stream) Release() {
	s.once.Do(func() {
		s.Session().end()
		s.table.release(s.target)
	})
}

// move puts the stream on another session than its own, and reports whether there was one.
func (s *Stream) move() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, err := s.table.pick(s.table.list(s.target.Cluster), s.target.ClusterUID, s.session)
	if err != nil {
		return false
	}
	s.session.end()
	next.begin()
	s.session = next
	return true
}

// reserve charges the request to its cluster and user and returns the cluster's sessions.
func (t *Table) reserve(target Target) ([]*Session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if wake.IsClosed(t.ending) {
		return nil, ErrDraining
	}
	c, ok := t.clusters[target.Cluster]
	if !ok || len(c.sessions) == 0 {
		return nil, ErrOffline
	}
	if target.User != "" && t.users[target.User] >= t.limits.StreamsPerUser {
		return nil, &BusyError{Scope: ScopeUser, Limit: t.limits.StreamsPerUser}
	}
	if c.active >= t.limits.StreamsPerCluster {
		return nil, &BusyError{Scope: ScopeCluster, Limit: t.limits.StreamsPerCluster}
	}
	c.active++
	if target.User != "" {
		t.users[target.User]++
	}
	return c.sessions, nil
}

func (t *Table) release(target Target) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if target.User != "" {
		t.discharge(target.User)
	}
	if c, ok := t.clusters[target.Cluster]; ok {
		c.active--
		t.forgetIdle(target.Cluster, c)
	}
}

// pick returns the newest session that takes a request and is not the excluded one. It runs without
// the lock because it asks the connections.
func (t *Table) pick(sessions []*Session, uid string, except *Session) (*Session, error) {
	reason := ErrOffline
	for _, s := range sessions {
		if s == except || (uid != "" && s.info.ClusterUID != uid) {
			continue
		}
		switch s.conn.Status() {
		case Ready:
			return s, nil
		case Full:
			reason = ErrFull
		case Closing:
		}
	}
	return nil, reason
}
