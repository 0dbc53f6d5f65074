// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package follow keeps the latest state of single objects of a cluster: hooks, objects that are
// being deleted, and objects that a service depends on. Such objects need not carry Leat's label,
// so the agent's watches do not show them.
package follow

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// Sight is the latest known state of one object. The zero Sight: the object was not read yet.
type Sight struct {
	Known bool                       // the cluster has answered at least once
	Live  *unstructured.Unstructured // the object; nil: it does not exist
	Last  *unstructured.Unstructured // the latest state in which it existed; nil: it never did
	Err   error                      // why it cannot be read at the moment; nil: it can
}

// Follower follows objects until it is stopped. It is safe for concurrent use.
type Follower struct {
	stop  context.CancelFunc
	group sync.WaitGroup

	mu   sync.Mutex
	seen map[inventory.Ref]Sight
}

// Cluster is where the objects are.
type Cluster interface {
	// Follow is the Follow of [k8s.Reader].
	Follow(ctx context.Context, ref inventory.Ref, see k8s.FollowFunc)
}

// Start follows the objects, and calls changed with every new state of one of them: one call at a
// time for each object. Stop must be called.
func Start(ctx context.Context, cluster Cluster, refs []inventory.Ref, changed func(inventory.Ref, Sight)) *Follower {
	ctx, stop := context.WithCancel(ctx)
	f := &Follower{stop: stop, seen: make(map[inventory.Ref]Sight, len(refs))}
	for _, ref := range refs {
		f.group.Go(func() {
			cluster.Follow(ctx, ref, func(live *unstructured.Unstructured, err error) {
				changed(ref, f.record(ref, live, err))
			})
		})
	}
	return f
}

func (f *Follower) record(ref inventory.Ref, live *unstructured.Unstructured, err error) Sight {
	f.mu.Lock()
	defer f.mu.Unlock()
	sight := f.seen[ref]
	sight.Err = err
	if err == nil {
		sight.Known, sight.Live = true, live
	}
	if live != nil {
		sight.Last = live
	}
	f.seen[ref] = sight
	return sight
}

// At returns the state of an object. The caller must not modify the object.
func (f *Follower) At(ref inventory.Ref) Sight {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[ref]
}

// Stop ends all watches. No call of changed is active or begins after Stop has returned. The caller
// must not hold a lock that changed takes.
func (f *Follower) Stop() {
	f.stop()
	f.group.Wait()
}
