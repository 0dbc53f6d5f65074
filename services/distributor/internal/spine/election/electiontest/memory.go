// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package electiontest

import (
	"context"
	"sync"

	"github.com/leatdev/leat/services/distributor/internal/spine/election"
)

// Memory is an election.Store in memory, without a leader at first. It is safe for concurrent use.
type Memory struct {
	mu     sync.Mutex
	tenure election.Tenure
}

var _ election.Store = (*Memory)(nil)

// Tenure implements election.Store.
func (m *Memory) Tenure(context.Context) (election.Tenure, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tenure, nil
}

// Claim implements election.Store.
func (m *Memory) Claim(_ context.Context, holder string, seen election.Tenure) (term int64, ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tenure != seen {
		return 0, false, nil
	}
	m.tenure = election.Tenure{Holder: holder, Term: seen.Term + 1, Beat: seen.Beat + 1}
	return m.tenure.Term, true, nil
}

// Write calls fn, which must not call Memory, if the term lasts, and counts a beat. There is no
// other writer meanwhile. Errors: election.ErrDeposed.
func (m *Memory) Write(term int64, fn func()) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tenure.Holder == "" || m.tenure.Term != term {
		return election.ErrDeposed
	}
	m.tenure.Beat++
	fn()
	return nil
}

// Beat implements election.Store.
func (m *Memory) Beat(_ context.Context, term int64) error { return m.Write(term, func() {}) }

// Resign implements election.Store.
func (m *Memory) Resign(_ context.Context, term int64) error {
	return m.Write(term, func() { m.tenure.Holder = "" })
}
