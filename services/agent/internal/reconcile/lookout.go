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

// sight is what was seen of one object. The zero sight is that of one that nobody has looked at yet.
type sight struct {
	known bool
	live  *unstructured.Unstructured // nil: it is gone
	last  *unstructured.Unstructured // as it was when it was there; nil when it never was
	err   error                      // why it cannot be seen at the moment
}

// lookOut begins to follow objects. Whatever is seen wakes the unit, and with it what awaits in the run.
func (r *run) lookOut(ctx context.Context, refs []inventory.Ref) *lookout {
	ctx, cancel := context.WithCancel(ctx)
	l := &lookout{stop: cancel, seen: map[inventory.Key]sight{}}
	for _, ref := range refs {
		l.group.Go(func() {
			r.cluster.Follow(ctx, ref, func(live *unstructured.Unstructured, err error) {
				l.note(ref.Key, live, err)
				signal(r.unit.wake)
			})
		})
	}
	return l
}

func (l *lookout) note(k inventory.Key, live *unstructured.Unstructured, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.seen[k]
	s.err = err
	if err == nil {
		s.known, s.live = true, live
	}
	if live != nil {
		s.last = live
	}
	l.seen[k] = s
}

func (l *lookout) at(k inventory.Key) sight {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[k]
}

func (l *lookout) end() {
	l.stop()
	l.group.Wait()
}
