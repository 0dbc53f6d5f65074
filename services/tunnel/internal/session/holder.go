// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session

import "slices"

// An attacker that has an agent's access token could connect in its place. An access token is good
// for an hour; only the agent, which has the cluster's key, can obtain another. So a token is good
// for one process at a time, and a process with an older token than another one's is not let in: it
// has to obtain another first, which it can if it is the agent. A process that shows a newer token
// thereby proves that it has the key, and connections under a token that was used twice end.

// Admit reports whether a connection may be added, before it is made. It fails with [ErrTokenInUse]
// or [ErrTokenOutdated].
func (t *Table) Admit(info Info) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := t.clusters[info.Cluster]
	if !ok {
		return nil
	}
	return c.admit(info)
}

// admit holds a newcomer against the connections of other processes. The table's lock is held.
func (c *cluster) admit(info Info) error {
	for _, s := range c.sessions {
		other := s.info
		switch {
		case info.Instance == other.Instance || other.ClusterUID != info.ClusterUID || info.TokenID == "":
		case info.TokenID == other.TokenID:
			s.contested = true
			return ErrTokenInUse
		case info.TokenExpires.Before(other.TokenExpires):
			return ErrTokenOutdated
		}
	}
	return nil
}

// contested splits the sessions into those that stay beside a newcomer, in a new slice, and the
// ones whose token was used by two processes. The table's lock is held.
func (c *cluster) contested(info Info) (kept, evicted []*Session) {
	for _, s := range c.sessions {
		if s.contested && s.info.TokenID != info.TokenID {
			evicted = append(evicted, s)
			continue
		}
		kept = append(kept, s)
	}
	return slices.Clip(kept), evicted
}
