// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package symptoms finds out why objects of services hang. The status of a workload has the number
// of ready replicas; why the others are not is known to its Pods, their volume claims and the
// events about them, which the agent does not watch.
//
// An episode is the time in which objects of a service are not healthy without a break. The Board
// reads the symptoms of an episode's objects when it has lasted for a while, and again at growing
// intervals until it ends. While nothing hangs it sends no request. It reads one object at a time,
// whatever number of services hang, and at most maxObjects of each service.
//
// Board has one lock, which it holds during neither a request nor a call of another component, so
// any caller may hold locks of its own.
package symptoms

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// maxObjects bounds the objects of a service whose symptoms are read. Failed ones come first.
const maxObjects = 5

// patience is how long an episode lasts before its first symptoms are read. A rollout that works
// mostly ends earlier.
const patience = 10 * time.Second

// interval returns the time until the next reading in an episode: 30 s, 1 min, and so on up to
// 5 min, spread by ±25 %.
func interval(reads int) time.Duration {
	return backoff.Jitter(min(30*time.Second<<min(reads, 4), 5*time.Minute), 0.25)
}

// ReadFunc returns the symptoms of an object of a service, or "" if none is known.
type ReadFunc func(ctx context.Context, s plan.Service, object inventory.Object) string

// Board holds the symptoms of all services. It is safe for concurrent use.
type Board struct {
	read    ReadFunc
	changed wake.Signal // one token when an episode began

	mu       sync.Mutex // guards what follows
	episodes map[string]*episode
}

// episode is the time in which objects of one service hang.
type episode struct {
	since   time.Time // identifies it
	service plan.Service
	objects []inventory.Object
	wake    func() // called when texts has changed
	due     time.Time
	reads   int
	texts   map[inventory.Key]string
}

// Hanging are the objects of a service that are not healthy.
type Hanging struct {
	// Name is the name of the service, and Service its desired entry. The entry of a service that
	// left the plan is zero.
	Name    string
	Service plan.Service
	// Since is when the episode began. Zero: all objects are healthy.
	Since time.Time
	// Objects are the objects with their UIDs, failed ones first.
	Objects []inventory.Object
	// Changed is called when their symptoms have changed. It must return at once.
	Changed func()
}

// NewBoard returns a board that reads nothing before Run.
func NewBoard(read ReadFunc) *Board {
	return &Board{read: read, changed: wake.NewSignal(), episodes: map[string]*episode{}}
}

// Put records which objects of a service hang, and ends the service's episode if none do.
func (b *Board) Put(h Hanging) {
	objects := slices.DeleteFunc(slices.Clone(h.Objects), func(o inventory.Object) bool { return !hasSymptoms(o) })
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.Since.IsZero() || len(objects) == 0 {
		delete(b.episodes, h.Name)
		return
	}
	e := b.episodes[h.Name]
	if e == nil || !e.since.Equal(h.Since) {
		// Half of the health timeout, so that the message of a service that exceeds it has the symptoms.
		wait := min(patience, h.Service.Spec.HealthTimeoutOrDefault()/2)
		e = &episode{since: h.Since, due: h.Since.Add(wait), texts: map[inventory.Key]string{}}
		b.episodes[h.Name] = e
		b.changed.Set()
	}
	e.service, e.objects, e.wake = h.Service, objects[:min(len(objects), maxObjects)], h.Changed
}

// hasSymptoms reports whether an object may have Pods, or volumes that they wait for.
func hasSymptoms(o inventory.Object) bool {
	switch o.Group {
	case "apps", "batch":
		return true
	case "":
		return o.Kind == "Pod" || o.Kind == "PersistentVolumeClaim" || o.Kind == "ReplicationController"
	default:
		return false
	}
}

// Explain adds the known symptoms of a service's current episode to the messages of its objects,
// which it modifies.
func (b *Board) Explain(service string, since time.Time, objects []report.ObjectStatus) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.episodes[service]
	if e == nil || !e.since.Equal(since) {
		return
	}
	for i := range objects {
		o := &objects[i]
		if text := e.texts[o.Ref.Key]; text != "" && o.Health.State != health.Healthy {
			o.Health.Message = joined(o.Health.Message, text)
		}
	}
}

func joined(message, text string) string {
	if message == "" {
		return text
	}
	return message + "; " + text
}

// Remove drops a service.
func (b *Board) Remove(service string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.episodes, service)
}

// Run reads symptoms when they are due, until ctx is done.
func (b *Board) Run(ctx context.Context) {
	for ctx.Err() == nil {
		e, due := b.next()
		if wait := time.Until(due); e == nil || wait > 0 {
			if e == nil {
				wait = time.Hour
			}
			_ = b.changed.Await(ctx, wait) // the loop's condition sees the end of ctx
			continue
		}
		b.readEpisode(ctx, e)
	}
}

// next returns the episode that is due first, and when.
func (b *Board) next() (first *episode, due time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.episodes {
		if first == nil || e.due.Before(due) {
			first, due = e, e.due
		}
	}
	return first, due
}

// readEpisode reads the symptoms of all objects of an episode, and schedules the next reading.
func (b *Board) readEpisode(ctx context.Context, e *episode) {
	b.mu.Lock()
	service, objects := e.service, e.objects
	b.mu.Unlock()
	texts := make(map[inventory.Key]string, len(objects))
	for _, o := range objects {
		if text := b.read(ctx, service, o); text != "" {
			texts[o.Key] = text
		}
	}
	if ctx.Err() != nil {
		return // the texts are incomplete
	}
	b.mu.Lock()
	e.due = time.Now().Add(interval(e.reads))
	e.reads++
	e.texts = texts
	changed := e.wake
	b.mu.Unlock()
	changed()
}
