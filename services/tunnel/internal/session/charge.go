// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session

// Charge counts a request of a person whose way to the cluster another caller has reserved. It
// fails with a [*BusyError]; else the request is counted until release is called, once.
func (t *Table) Charge(user string) (release func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.users[user] >= t.limits.StreamsPerUser {
		return nil, &BusyError{Scope: ScopeUser, Limit: t.limits.StreamsPerUser}
	}
	t.users[user]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.discharge(user)
	}, nil
}

// discharge undoes one charge. The lock is held.
func (t *Table) discharge(user string) {
	if t.users[user]--; t.users[user] == 0 {
		delete(t.users, user)
	}
}
