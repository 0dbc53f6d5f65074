// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package watch observes collections of Kubernetes objects. It reports every object and every
// change, the end of each complete list, and every removal, including removals that happened while
// no connection was open.
//
// It uses HTTP itself. If the server supports it, a list is the beginning of its watch (a streaming
// list); otherwise lists are read page by page. Objects are decoded one by one and not kept.
//
// A Watcher repeats this cycle until its context ends: list if it has no valid version, watch from
// that version, pause after an error. A server that has forgotten the version, or does not know it
// yet, causes a new list. A watch that is silent for too long is ended. Known carries the recorded
// objects from one cycle, and one Watcher, to the next, so that no removal is missed.
package watch

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/kit/backoff"
)

// Params are the collaborators of a Watcher. All but Back are required.
type Params struct {
	Server     *Server
	Collection Collection
	Handler    Handler
	// Known is the set of an earlier Watcher of this collection, or an empty one.
	Known *Known
	// Back is called by the goroutine that calls Handler when the server answers again after it
	// denied the watch, or after a connection that ended early. Nil: no notification.
	Back     func()
	Logger   *slog.Logger
	Settings Settings
}

func (c Collection) labelOf(o *unstructured.Unstructured) string {
	if c.Label == nil {
		return ""
	}
	return c.Label(o)
}

// Settings are times and sizes. A zero field takes its default.
type Settings struct {
	// Silence is how long a watch may receive nothing before it counts as broken. Most API servers
	// send a bookmark about every minute. Zero: 5 min.
	Silence time.Duration
	// ListSilence is the same before a list is complete, and bounds a page. Zero: 1 min.
	ListSilence time.Duration
	// Lifetime is the requested duration of a watch, ±33 %. Zero: 15 min.
	Lifetime time.Duration
	// PageSize is the number of objects in a request if lists are not streams. Zero: 500.
	PageSize int
	// MaxObject is the maximum size of one object in bytes. Zero: 16 MiB, which is several times
	// the limit of the API server.
	MaxObject int
	// Retry spaces attempts after errors. Zero: 200 ms doubling to 15 s.
	Retry backoff.Policy
	// Denied spaces attempts while the server forbids the watch. Zero: 1 min doubling to 5 min.
	Denied backoff.Policy
}

func (s Settings) withDefaults() Settings {
	s.Silence, s.ListSilence = cmp.Or(s.Silence, 5*time.Minute), cmp.Or(s.ListSilence, time.Minute)
	s.Lifetime = cmp.Or(s.Lifetime, 15*time.Minute)
	s.PageSize, s.MaxObject = cmp.Or(s.PageSize, 500), cmp.Or(s.MaxObject, 16<<20)
	s.Retry = cmp.Or(s.Retry, backoff.Policy{Initial: 200 * time.Millisecond, Max: 15 * time.Second, Multiplier: 2})
	s.Denied = cmp.Or(s.Denied, backoff.Policy{Initial: time.Minute, Max: 5 * time.Minute, Multiplier: 2})
	return s
}

// ErrAbsent means that the server has no such collection.
var ErrAbsent = errors.New("the server has no such collection")

// New returns a Watcher that does nothing before Run.
func New(p Params) *Watcher {
	p.Settings = p.Settings.withDefaults()
	return &Watcher{params: p}
}

// Relist causes every object to be listed and reported again. It returns at once.
func (w *Watcher) Relist() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.again = true
	if w.interrupt != nil {
		w.interrupt(errAgain)
	}
}

// Run observes the collection until ctx is done, and returns nil then. It returns ErrAbsent if the
// server does not have the collection; Known keeps its objects.
func (w *Watcher) Run(ctx context.Context) error {
	for failures := 0; ctx.Err() == nil; failures++ {
		turn, end := w.begin(ctx)
		err := w.connect(turn)
		if w.heard {
			failures = 0
		}
		if apierrors.IsNotFound(err) {
			end()
			return ErrAbsent
		}
		w.note(ctx, err, failures)
		_ = backoff.Wait(turn, w.pause(err, failures)) // may end early for a reason that the next turn sees
		end()
	}
	return nil
}

// begin returns the context of a turn, which Relist ends.
func (w *Watcher) begin(ctx context.Context) (turn context.Context, end func()) {
	turn, cancel := context.WithCancelCause(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.interrupt, w.heard = cancel, false
	if w.again {
		w.again, w.version = false, ""
	}
	return turn, func() { cancel(nil) }
}

// connect lists if necessary, and watches until the connection ends.
func (w *Watcher) connect(ctx context.Context) error {
	if w.version == "" && w.broken < maxBroken && w.params.Server.canStream(w.params.Collection.Resource.Group) {
		return w.stream(ctx, true)
	}
	if w.version == "" {
		if err := w.pages(ctx); err != nil {
			return err
		}
	}
	return w.stream(ctx, false)
}

// maxBroken is how many streaming lists may break off before the next is read page by page: pages
// make progress even if no connection lives long enough for the whole list.
const maxBroken = 2

var errNoVersion = errors.New("the server names no resource version for its list")
