// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/leatdev/leat/internal/kit/wake"
)

// Limits bound what a table holds. All must be positive.
type Limits struct {
	// StreamsPerCluster is the number of requests under way to one cluster.
	StreamsPerCluster int
	// StreamsPerUser is the number of requests of one person under way, over all clusters.
	StreamsPerUser int
	// SessionsPerCluster is the number of connections of one cluster. One more shuts the oldest
	// down.
	SessionsPerCluster int
}

// DefaultLimits returns the default limits.
func DefaultLimits() Limits {
	return Limits{StreamsPerCluster: 1000, StreamsPerUser: 300, SessionsPerCluster: 8}
}

// Table holds the live connections of this replica, by the full name of the cluster. It is safe for
// concurrent use. Its lock protects maps and numbers only and is never held while a connection is
// used.
type Table struct {
	limits Limits

	draining chan struct{} // closed when no connection is taken any more
	ending   chan struct{} // closed when no request is taken any more
	listener Listener

	mu       sync.Mutex
	epoch    uint64
	clusters map[string]*cluster
	users    map[string]int
}

// cluster is the table's entry for one cluster. It is protected by the table's lock.
type cluster struct {
	// sessions is sorted, newest first. The slice is replaced and never changed, so that it may be
	// read without the lock.
	sessions []*Session
	// active is the number of streams, including removed sessions.
	active int
}

// NewTable returns an empty table.
func NewTable(limits Limits) *Table {
	return &Table{
		limits: limits, draining: make(chan struct{}), ending: make(chan struct{}),
		clusters: map[string]*cluster{}, users: map[string]int{},
	}
}

// NextEpoch returns the number of a connection that begins now.
func (t *Table) NextEpoch() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.epoch++
	return t.epoch
}

// Add makes a connection the newest of its cluster, unless one with a larger epoch is there. It
// fails with [ErrDraining], and with the errors of [Table.Admit]. The connection stays the caller's
// to close; the caller also calls [Table.Remove] when it has ended.
//
// Add returns the evicted connections, which are out of the table already and which the caller
// shuts down: the oldest connection, when the cluster has more than the limit, and the ones under a
// token that another process has also used.
func (t *Table) Add(info Info, conn Conn) (added *Session, evicted []*Session, err error) {
	if added, evicted, err = t.add(info, conn); err == nil {
		t.tellAdded(added, evicted)
	}
	return added, evicted, err
}

func (t *Table) add(info Info, conn Conn) (added *Session, evicted []*Session, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if wake.IsClosed(t.draining) {
		return nil, nil, ErrDraining
	}
	c := t.cluster(info.Cluster)
	if err := c.admit(info); err != nil {
		return nil, nil, err
	}
	if info.Epoch == 0 {
		t.epoch++
		info.Epoch = t.epoch
	}
	added = &Session{info: info, conn: conn}
	kept, evicted := c.contested(info)
	at, _ := slices.BinarySearchFunc(kept, info.Epoch, func(s *Session, epoch uint64) int { return cmp.Compare(epoch, s.info.Epoch) })
	kept = slices.Insert(kept, at, added)
	if last := len(kept) - 1; last >= t.limits.SessionsPerCluster {
		evicted = append(evicted, kept[last])
		kept = kept[:last:last]
	}
	c.sessions = kept
	return added, evicted, nil
}

// Remove forgets this session and no other: the late end of an old connection leaves a newer one in
// place, even when both carry the same connection id. Removing twice does nothing.
func (t *Table) Remove(s *Session) {
	t.remove(s)
	t.tellRemoved(s)
}

func (t *Table) remove(s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := t.clusters[s.info.Cluster]
	if !ok {
		return
	}
	c.sessions = slices.DeleteFunc(slices.Clone(c.sessions), func(other *Session) bool { return other == s })
	t.forgetIdle(s.info.Cluster, c)
}

// ConnectedUID returns the uid under which the newest session of a cluster is connected, or ""
// where there is none.
func (t *Table) ConnectedUID(clusterName string) string {
	if sessions := t.list(clusterName); clusterName != "" && len(sessions) > 0 {
		return sessions[0].info.ClusterUID
	}
	return ""
}

// Sessions returns the state of the sessions of one cluster, or of all when the name is empty,
// sorted by cluster and then newest first.
func (t *Table) Sessions(clusterName string) []Snapshot {
	sessions := t.list(clusterName)
	snapshots := make([]Snapshot, 0, len(sessions))
	for _, s := range sessions {
		snapshots = append(snapshots, s.snapshot())
	}
	slices.SortFunc(snapshots, func(a, b Snapshot) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(b.Epoch, a.Epoch))
	})
	return snapshots
}

// Counts returns how many sessions and how many streams there are.
func (t *Table) Counts() (sessions, streams int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.clusters {
		sessions += len(c.sessions)
		streams += c.active
	}
	return sessions, streams
}

// Draining is closed by [Table.Refuse] and [Table.Drain]: from then on agents have to connect
// elsewhere.
func (t *Table) Draining() <-chan struct{} { return t.draining }

// Drain refuses new connections and new requests from now on, tells every agent, lets running
// requests end until ctx does, and closes every connection. It returns the context's error when
// something had to be cut off. It is called at most once.
func (t *Table) Drain(ctx context.Context) error {
	t.Refuse() // nothing is added after the list below was made
	t.mu.Lock()
	close(t.ending)
	t.mu.Unlock()

	sessions := t.list("")
	errs := make([]error, len(sessions))
	var running sync.WaitGroup
	for i, s := range sessions {
		running.Go(func() { errs[i] = s.drain(ctx) })
	}
	running.Wait()
	return errors.Join(errs...)
}

func (s *Session) drain(ctx context.Context) error {
	if err := s.conn.Shutdown(ctx); err != nil {
		return errors.Join(err, s.conn.Close())
	}
	return nil
}

// Evict shuts one session down that Add has pushed out: its running requests end by themselves or
// with ctx.
func (s *Session) Evict(ctx context.Context) error { return s.drain(ctx) }

func (t *Table) list(clusterName string) []*Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	if clusterName != "" {
		if c, ok := t.clusters[clusterName]; ok {
			return c.sessions
		}
		return nil
	}
	var all []*Session
	for _, c := range t.clusters {
		all = append(all, c.sessions...)
	}
	return all
}

// cluster returns the entry of a name and makes it when it is missing. The lock is held.
func (t *Table) cluster(name string) *cluster {
	c, ok := t.clusters[name]
	if !ok {
		c = &cluster{}
		t.clusters[name] = c
	}
	return c
}

// forgetIdle drops an entry that holds nothing, so that the table's size follows the connections.
// The lock is held.
func (t *Table) forgetIdle(name string, c *cluster) {
	if len(c.sessions) == 0 && c.active == 0 {
		delete(t.clusters, name)
	}
}
