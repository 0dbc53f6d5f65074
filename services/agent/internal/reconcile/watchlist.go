// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/confine"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/reconcile/follow"
)

// watchlist follows the objects that renders have read, such as Secrets that configurations refer
// to. It follows an object once for all services of an account, by the
// Reader of the first: each has read the object within its own bounds. Where the account may read an object
// and not watch it, the object is read again whenever the watch is tried again, every 30 s. It is
// safe for concurrent use. Its lock is never held while it calls others. The zero watchlist follows
// nothing.
type watchlist struct {
	mu       sync.Mutex // guards what follows
	watched  map[watchKey]*watched
	isClosed bool
}

// watchKey is an object as an account sees it.
type watchKey struct {
	account k8s.Account
	ref     inventory.Ref
}

// watched is an object with the services that have read it.
type watched struct {
	follower *follow.Follower
	readers  map[string]reader
}

// reader is a service that has read an object.
type reader struct {
	version string // that it read
	changed func()
}

func accountOf(read manifest.Read) k8s.Account { return read.Reader.Bounds().Account }

// set replaces what a service has read. changed is called, possibly more than once and before set
// returns, when an object has another version than the service has read.
func (w *watchlist) set(ctx context.Context, service string, reads manifest.Reads, changed func()) {
	w.mu.Lock()
	if w.isClosed {
		w.mu.Unlock()
		return
	}
	idle := w.dropLocked(service, func(key watchKey) bool {
		read, isRead := reads[key.ref]
		return !isRead || key.account != accountOf(read)
	})
	for ref, read := range reads {
		key := watchKey{accountOf(read), ref}
		if w.watched == nil {
			w.watched = map[watchKey]*watched{}
		}
		one := w.watched[key]
		if one == nil {
			one = &watched{readers: map[string]reader{}}
			w.watched[key] = one
			one.follower = follow.Start(context.WithoutCancel(ctx), read.Reader, []inventory.Ref{ref}, func(_ inventory.Ref, seen follow.Sight) {
				w.see(ctx, read.Reader, key, seen)
			})
		}
		one.readers[service] = reader{read.Version, changed}
	}
	w.mu.Unlock()
	stopAll(idle)
	w.recheck(reads)
}

// recheck compares versions that are known already with versions that were just read: an object
// that changed between a read and the start of its watch, or between two reads.
func (w *watchlist) recheck(reads manifest.Reads) {
	for ref, read := range reads {
		key := watchKey{accountOf(read), ref}
		w.mu.Lock()
		one := w.watched[key]
		var follower *follow.Follower
		if one != nil {
			follower = one.follower
		}
		w.mu.Unlock()
		if follower == nil {
			continue
		}
		if seen := follower.At(ref); seen.Known {
			w.compare(key, seen.Live)
		}
	}
}

// see takes over the state of an object.
func (w *watchlist) see(ctx context.Context, from *confine.Reader, key watchKey, seen follow.Sight) {
	if seen.Err == nil {
		w.compare(key, seen.Live)
		return
	}
	if live, err := from.Get(ctx, key.ref); err == nil {
		w.compare(key, live)
	}
}

// compare wakes the services that have read another version.
func (w *watchlist) compare(key watchKey, live *unstructured.Unstructured) {
	version := ""
	if live != nil {
		version = live.GetResourceVersion()
	}
	var changed []func()
	w.mu.Lock()
	if one := w.watched[key]; one != nil {
		for service, r := range one.readers {
			if r.version != version {
				changed = append(changed, r.changed)
				r.version = version // once for each change
				one.readers[service] = r
			}
		}
	}
	w.mu.Unlock()
	for _, call := range changed {
		call()
	}
}

// forget stops following objects for a service.
func (w *watchlist) forget(service string) {
	w.mu.Lock()
	idle := w.dropLocked(service, func(watchKey) bool { return true })
	w.mu.Unlock()
	stopAll(idle)
}

// dropLocked removes a service from the objects that match. It returns the followers of objects
// without a reader, which the caller stops without the lock.
func (w *watchlist) dropLocked(service string, matches func(watchKey) bool) (idle []*follow.Follower) {
	for key, one := range w.watched {
		if _, isReader := one.readers[service]; !isReader || !matches(key) {
			continue
		}
		delete(one.readers, service)
		if len(one.readers) == 0 {
			idle = append(idle, one.follower)
			delete(w.watched, key)
		}
	}
	return idle
}

// close stops following everything, permanently.
func (w *watchlist) close() {
	w.mu.Lock()
	var all []*follow.Follower
	for _, one := range w.watched {
		all = append(all, one.follower)
	}
	w.watched, w.isClosed = nil, true
	w.mu.Unlock()
	stopAll(all)
}

func stopAll(followers []*follow.Follower) {
	for _, f := range followers {
		f.Stop()
	}
}
