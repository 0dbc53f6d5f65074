// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package fanin lets many viewers of one watch share one watch of the cluster.
//
// A watch of the cluster is called a feed. A viewer joins a feed only if its own request would be
// the same: same cluster, same identity, same path, same parameters, same headers that count. Each
// viewer reads at its own speed from the feed's history, a bounded record of the events that the
// cluster has sent.
//
// The package promises that a viewer sees what a watch of its own would have shown:
//
//   - A viewer with the feed's resourceVersion reads the whole history from its beginning.
//   - A viewer with a later resourceVersion reads from the first later event. It joins if the
//     history covers that version, and skips events up to it that are still to come.
//   - A viewer without a resourceVersion wants a state that is no older than its request. It joins
//     only a feed whose request has not been sent to the cluster yet.
//   - Any other viewer begins a feed of its own. A viewer stays with its feed until one of the two
//     ends.
//
// A feed passes through these states, and never back:
//
//   - waiting: the cluster has not answered. Viewers of the same version join; a viewer of another
//     version that the history may come to cover waits for the answer. It does so once, unless
//     the viewers of the feed leave before the answer.
//   - serving: events follow. Viewers join if the history covers what they ask for.
//   - closing: no viewer joins any more, because the answer is not a watch or the feed ends. An error
//     goes to the viewers that waited for it. Any other answer belongs to the opener, the viewer
//     that began the feed, and the others send requests of their own.
//   - ended: the cluster has ended the watch, or the last viewer has left. The viewers that are
//     left read the rest of the history, and then the same end.
//
// A feed that was shared lingers after its last viewer, in case a viewer comes back. Every feed is
// charged to a person: to each of its viewers, or to the last one until the feed ends.
//
// Memory is bounded by each history's own limits and by one limit for all histories. The fastest
// viewer sets the pace: the cluster is not read further ahead than a window beyond it, so if all
// viewers stall they hold the cluster back as they would alone. A viewer that falls behind the
// history is ended as API servers end watches.
//
// Locks: each feed has one for its history and its viewers, the pool has one for the list of feeds
// and one that serializes sweeps, and each Watch has one. No goroutine acquires one of these while
// it holds another, except that a sweep acquires the pool's and then the feeds', one at a time.
// Functions that end a charge are called without any lock.
//
// The package does not decode objects, compare selectors, decide who may see what, or read a
// history back once its feed has ended.
package fanin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// Upstream is the right to send one request to a cluster.
type Upstream interface {
	http.RoundTripper
	// Connection is the id of the agent's connection that carries the request.
	Connection() string
	// Release gives the right back. It is called once.
	Release()
}

// Opener obtains the right to send one request. The context ends when no viewer waits for the
// answer any more.
type Opener func(ctx context.Context) (Upstream, error)

// OpenError reports that an [Opener] failed; nothing was sent.
type OpenError struct{ Err error }

// Error implements error.
func (e *OpenError) Error() string { return fmt.Sprintf("open watch: %v", e.Err) }

// Unwrap returns the opener's error.
func (e *OpenError) Unwrap() error { return e.Err }

// Params tune a [Relay]. A zero field means its default.
type Params struct {
	// HistoryBytes and HistoryEvents bound the history of one feed: 4 MiB and 16,384 events.
	HistoryBytes  int
	HistoryEvents int
	// TotalBytes bounds all histories together: 64 MiB. Events that every viewer has read go first,
	// the oldest of them before others.
	TotalBytes int
	// Ahead is how far a feed is read beyond its fastest viewer: 512 KiB.
	Ahead int
	// FrameBytes is the longest event that is kept whole: 8 MiB. A longer one is passed on in
	// pieces.
	FrameBytes int
	// Linger is how long a shared feed outlives its last viewer: 5 s.
	Linger time.Duration
}

func (p Params) withDefaults() Params {
	p.HistoryBytes = cmp.Or(p.HistoryBytes, 4<<20)
	p.HistoryEvents = cmp.Or(p.HistoryEvents, 16<<10)
	p.TotalBytes = cmp.Or(p.TotalBytes, 64<<20)
	p.Ahead = cmp.Or(p.Ahead, 512<<10)
	p.FrameBytes = cmp.Or(p.FrameBytes, 8<<20)
	p.Linger = cmp.Or(p.Linger, 5*time.Second)
	return p
}

// Stats are a relay's counts.
type Stats struct {
	// Upstreams is the number of watches of clusters, and Viewers the number of watches they serve.
	Upstreams int
	Viewers   int
	// Bytes is the size of all histories.
	Bytes int64
	// Shared counts viewers that needed no watch of their own, and Lagged viewers that fell behind,
	// since the beginning.
	Shared int64
	Lagged int64
}

// tally holds the common counters of one relay's feeds.
type tally struct {
	bytes    atomic.Int64 // cost of all histories
	entries  atomic.Int64 // ever recorded; its values order entries over all feeds
	viewers  atomic.Int64
	shared   atomic.Int64
	lagged   atomic.Int64
	draining atomic.Bool
}
