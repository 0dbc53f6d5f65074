// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package fanin lets many viewers of one watch share one watch of the cluster.
//
// A watch of the cluster is called a feed. A viewer shares a feed only when its own request would be the same: same cluster,
// same identity, same path, same parameters, same headers that count. Each viewer reads at its own speed from the feed's
// history, a bounded record of what the cluster has sent, and sees what a watch of its own would have shown:
//
//   - who asks for the same resourceVersion reads the whole history from its beginning;
//   - who asks for no resourceVersion wants the state of now or later: no history has that, and he shares only with those who
//     have come before the cluster is asked. Where the cluster says at which version that state ends (a streamed list, KEP-3157),
//     he moves on from there to an earlier feed that shows the same, and his own ends;
//   - who asks for a later one begins behind the events that it has seen, and is spared those that are still to come;
//   - whom the history cannot serve any more begins a feed of its own.
//
// The fastest viewer sets the pace: the cluster is not read further ahead than a window beyond it, so that viewers who all
// stand still hold the cluster back as they would alone. One who falls behind the history is ended as API servers end
// watches, and watches again.
package fanin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
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

// Opener obtains the right to send one request. The context ends when nobody waits for the answer any more.
type Opener func(ctx context.Context) (Upstream, error)

// OpenError says that the right to send the request was not obtained; nothing was sent.
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
	// TotalBytes bounds all histories together: 64 MiB. What no viewer needs goes first, and of that the oldest.
	TotalBytes int
	// Ahead is how far a feed is read beyond its fastest viewer: 512 KiB.
	Ahead int
	// FrameBytes is the longest event that is kept whole: 8 MiB. A longer one is passed on in pieces.
	FrameBytes int
	// Linger is how long a shared feed outlives its last viewer: 5 s.
	Linger time.Duration
}

func (p Params) withDefaults() Params {
	p.HistoryBytes = orDefault(p.HistoryBytes, 4<<20)
	p.HistoryEvents = orDefault(p.HistoryEvents, 16<<10)
	p.TotalBytes = orDefault(p.TotalBytes, 64<<20)
	p.Ahead = orDefault(p.Ahead, 512<<10)
	p.FrameBytes = orDefault(p.FrameBytes, 8<<20)
	p.Linger = orDefault(p.Linger, 5*time.Second)
	return p
}

func orDefault[T int | time.Duration](value, fallback T) T {
	if value == 0 {
		return fallback
	}
	return value
}

// Relay has the feeds of a replica. It is safe for concurrent use.
type Relay struct {
	params Params

	bytes   atomic.Int64 // of all histories
	viewers atomic.Int64
	joined  atomic.Int64 // viewers that needed no watch of their own
	lagged  atomic.Int64 // viewers that fell behind
	trims   atomic.Int64 // orders what was appended, over all feeds

	sweeping sync.Mutex // held by the one who trims histories

	mu       sync.Mutex // may be taken while a feed's is held, never the other way round
	draining bool
	feeds    map[string][]*feed // by key, newest last
	count    int
}

// New returns a relay without feeds.
func New(params Params) *Relay {
	return &Relay{params: params.withDefaults(), feeds: map[string][]*feed{}}
}

// Watch returns the transport for one viewer's watch of a cluster. The scope identifies the cluster, even if two
// clusters share a name. The opener is called if the viewer needs its own watch. The viewer is already charged for the
// watch, and charge ends that. It is called once, when the watch is released. If the viewer leaves behind a feed for
// which no other viewer is charged, it is called later.
func (r *Relay) Watch(scope string, open Opener, charge func()) *Watch {
	return &Watch{relay: r, scope: scope, open: open, charge: charge}
}

// Drain makes feeds end with their last viewer from now on. A nil relay has none.
func (r *Relay) Drain() {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.draining = true
	feeds := r.all()
	r.mu.Unlock()
	for _, f := range feeds {
		f.endUnwatched()
	}
}

func (r *Relay) isDraining() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.draining
}

// all returns every feed. The lock is held.
func (r *Relay) all() []*feed {
	feeds := make([]*feed, 0, r.count)
	for _, list := range r.feeds {
		feeds = append(feeds, list...)
	}
	return feeds
}

// join makes the viewer one of a feed that can serve it, or of a new feed, which it begins. A viewer who is patient also
// joins feeds of which nobody knows yet whether they can.
func (r *Relay) join(req *http.Request, ask question, v *viewer, patient bool, open Opener) *feed {
	var tried []*feed
	for {
		r.mu.Lock()
		candidates := slices.Clone(r.feeds[ask.key])
		candidates = slices.DeleteFunc(candidates, func(f *feed) bool { return slices.Contains(tried, f) })
		if len(candidates) == 0 {
			f := newFeed(r, ask, v)
			r.feeds[ask.key] = append(r.feeds[ask.key], f)
			r.count++
			r.mu.Unlock()
			f.begin(req, open)
			return f
		}
		r.mu.Unlock()
		for _, f := range slices.Backward(candidates) {
			if f.join(ask, v, patient) {
				return f
			}
		}
		tried = append(tried, candidates...)
	}
}

// before returns the feeds with the same key that were begun before this one, oldest first.
func (r *Relay) before(f *feed) []*feed {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.feeds[f.key]
	return slices.Clone(list[:max(0, slices.Index(list, f))])
}

func (r *Relay) forget(f *feed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.feeds[f.key]
	list := slices.DeleteFunc(slices.Clone(before), func(other *feed) bool { return other == f })
	r.count -= len(before) - len(list)
	if len(list) == 0 {
		delete(r.feeds, f.key)
		return
	}
	r.feeds[f.key] = list
}

// sweep brings all histories together below their bound: what no viewer needs goes first, and of that the oldest. When
// that is not enough, the slowest viewers lose what they have not read.
func (r *Relay) sweep() {
	if r.bytes.Load() <= int64(r.params.TotalBytes) || !r.sweeping.TryLock() {
		return
	}
	defer r.sweeping.Unlock()
	// An eighth below, so that the next one is not due at once.
	target := int64(r.params.TotalBytes) - int64(r.params.TotalBytes)/8
	r.mu.Lock()
	feeds := r.all()
	r.mu.Unlock()
	for _, needed := range []bool{false, true} {
		r.trimOldest(feeds, needed, target)
	}
}

// trimOldest goes over the feeds by the age of their oldest events, and takes from each what is older than the next one's.
func (r *Relay) trimOldest(feeds []*feed, needed bool, target int64) {
	ages := newAges(feeds, needed)
	for r.bytes.Load() > target {
		f, until, ok := ages.oldest()
		if !ok {
			return
		}
		ages.put(f, f.trim(needed, until, target))
	}
}

// Stats are a relay's counts.
type Stats struct {
	// Upstreams is the number of watches of clusters, and Viewers that of the watches that they serve.
	Upstreams int
	Viewers   int
	// Bytes is the size of all histories.
	Bytes int64
	// Shared counts viewers that needed no watch of their own, and Lagged those that fell behind, since the beginning.
	Shared int64
	Lagged int64
}

// Stats returns the counts.
func (r *Relay) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Stats{
		Upstreams: r.count, Viewers: int(r.viewers.Load()), Bytes: r.bytes.Load(),
		Shared: r.joined.Load(), Lagged: r.lagged.Load(),
	}
}
