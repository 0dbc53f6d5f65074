// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin

import (
	"context"
	"net/http"
)

// Relay has the feeds of a replica. It is safe for concurrent use.
type Relay struct {
	params Params
	tally  tally
	pool   pool
}

// New returns a relay without feeds.
func New(params Params) *Relay {
	r := &Relay{params: params.withDefaults()}
	r.pool = pool{params: &r.params, tally: &r.tally, feeds: map[string][]*feed{}}
	return r
}

// Drain makes feeds end with their last viewer from now on. A nil relay has none.
func (r *Relay) Drain() {
	if r == nil {
		return
	}
	r.tally.draining.Store(true) // before the list: a feed that is not in it sees this
	for _, f := range r.pool.all() {
		f.endUnwatched()
	}
}

// Stats returns the counts.
func (r *Relay) Stats() Stats {
	return Stats{
		Upstreams: r.pool.size(), Viewers: int(r.tally.viewers.Load()), Bytes: r.tally.bytes.Load(),
		Shared: r.tally.shared.Load(), Lagged: r.tally.lagged.Load(),
	}
}

// join makes the cursor one of a feed that serves the question, or of a new feed, which it begins.
// It waits once for the answer of a feed whose history may then serve the question: viewers of one
// page that come at the same time with different versions end up in one watch like this. Waiting
// does not keep a feed alive; if its opener leaves before the answer, the viewer may wait for
// another feed. An error is the context's.
func (r *Relay) join(req *http.Request, q question, c *cursor, open Opener) (*feed, error) {
	ctx := req.Context()
	var out *http.Request
	begin := func() *feed {
		// The request of a shared feed does not end with the request of the viewer that began it.
		shared, cancel := context.WithCancel(context.WithoutCancel(ctx))
		out = req.Clone(shared)
		out.URL.RawQuery = q.query
		return newFeed(&r.params, &r.tally, q, c, cancel)
	}
	var tried []*feed
	hasWaited := false
	for {
		untried, begun := r.pool.find(q.key, tried, begin)
		if begun != nil {
			go (&request{pool: &r.pool, feed: begun, key: q.key, open: open}).run(out)
			return begun, nil
		}
		for _, f := range untried {
			isAdmitted, isPending := f.admit(q, c)
			if isPending && !hasWaited {
				select {
				case <-f.ready:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				isAdmitted, _ = f.admit(q, c)
				hasWaited = !f.wasAbandoned()
			}
			if isAdmitted {
				return f, nil
			}
		}
		tried = append(tried, untried...)
	}
}
