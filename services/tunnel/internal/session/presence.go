// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"time"

	"github.com/leatdev/leat/internal/kit/wake"
)

// Listener is told which sessions a table has. It is called without the table's lock, from the
// goroutine that adds or removes; of one session the calls come in order: Added once, then Removed
// at least once. It must not block.
type Listener interface {
	Added(s *Session)
	Removed(s *Session)
}

// Listen announces every later session to l. It is called at most once, before the first session.
func (t *Table) Listen(l Listener) { t.listener = l }

func (t *Table) tellAdded(added *Session, evicted []*Session) {
	if t.listener == nil {
		return
	}
	t.listener.Added(added)
	for _, s := range evicted {
		t.listener.Removed(s)
	}
}

func (t *Table) tellRemoved(s *Session) {
	if t.listener != nil {
		t.listener.Removed(s)
	}
}

// Refuse begins the end of this replica's work: no connection is added from now on, and
// [Table.Draining] is closed. Requests continue over existing connections until [Table.Drain].
// Calling it twice does nothing.
func (t *Table) Refuse() {
	t.mu.Lock() // nothing is added after it has returned
	defer t.mu.Unlock()
	if !wake.IsClosed(t.draining) {
		close(t.draining)
	}
}

// Ending is closed when [Table.Drain] is called. Carriers of endless answers then end them.
func (t *Table) Ending() <-chan struct{} { return t.ending }

// AskToLeave asks the session's agent to connect elsewhere after a while and then to end this
// connection, and returns when the agent knows. The session continues until then.
func (s *Session) AskToLeave(ctx context.Context, after time.Duration) error {
	return s.conn.Leave(ctx, after)
}

// Done is closed when the session's connection has ended.
func (s *Session) Done() <-chan struct{} { return s.conn.Done() }

// Leave removes a session from the table, and waits until its running requests have ended or ctx
// ends. The agent is notified.
func (t *Table) Leave(ctx context.Context, s *Session) error {
	t.Remove(s)
	return s.drain(ctx)
}

// Connected returns the sessions of this replica, in no order.
func (t *Table) Connected() []*Session { return t.list("") }
