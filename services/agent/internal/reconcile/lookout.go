// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// lookout is what a run sees of objects that it waits for and that are not, or not for long, among those of its service: hooks, and
// what is being deleted. End it when the waiting is over.
type lookout struct {
	stop  context.CancelFunc
	group sync.WaitGroup

	mu   sync.Mutex
	seen map[inventory.Key]sight
}

// sight is what was seen of one object.
type sight struct {
	live *unstructured.Unstructured // nil: it is gone
	last *unstructured.Unstructured // as it was when it was there; nil when it never was
}

// lookOut begins to follow objects. Whatever is seen wakes the unit, and with it what awaits in the run.
func (r *run) lookOut(ctx context.Context, refs []inventory.Ref) *lookout {
	ctx, cancel := context.WithCancel(ctx)
	l := &lookout{stop: cancel, seen: map[inventory.Key]sight{}}
	for _, ref := range refs {
		l.group.Go(func() {
			r.engine.params.Cluster.Follow(ctx, ref, func(live *unstructured.Unstructured, err error) {
				if err == nil { // otherwise nothing is known of it, and it is looked for again
					l.note(ref.Key, live)
					signal(r.unit.wake)
				}
			})
		})
	}
	return l
}

func (l *lookout) note(k inventory.Key, live *unstructured.Unstructured) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := sight{live: live, last: live}
	if live == nil {
		s.last = l.seen[k].last
	}
	l.seen[k] = s
}

// at returns what was seen of an object. Nothing is known of it before the first sight.
func (l *lookout) at(k inventory.Key) (s sight, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, known = l.seen[k]
	return s, known
}

func (l *lookout) end() {
	l.stop()
	l.group.Wait()
}
