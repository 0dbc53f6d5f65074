// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package watch keeps up with collections of Kubernetes objects: it tells of every object and every change, once a list is
// complete, and what is gone, also when that went while nobody was connected.
//
// It speaks HTTP itself. Where the server offers it, a list is the beginning of its watch (a streaming list); elsewhere lists are
// read page by page. Objects are decoded one by one and not kept.
package watch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/backoff"
)

// Handler hears what becomes of the objects of one collection. Its methods are called by one goroutine, in the order in which
// things happened, and delay that of the next thing.
type Handler interface {
	// Seen tells an object's newest state. It may come more than once.
	Seen(o *unstructured.Unstructured)
	// Gone tells that an object has left the collection: it was deleted, lost the label that is selected by, or has another UID
	// or another value of the remembered label now; then Seen follows. Version orders this among what was seen of the object;
	// where it is empty it comes last.
	Gone(o Object, version string)
	// Synced tells, once after every complete list, that everything has been told that was in the collection then.
	Synced()
	// Denied tells, once until something is heard again, that the server does not allow to watch.
	Denied(err error)
}

// Params are the collaborators of a Watcher. All but Back are required.
type Params struct {
	Server     *Server
	Collection Collection
	Handler    Handler
	// Known is what an earlier Watcher of this collection knew, or an empty set.
	Known *Known
	// Back is told, from the goroutine that calls Handler, when the server is heard again after it did not allow to watch, or after a
	// connection that ended before its time. Nil: nobody is.
	Back     func()
	Logger   *slog.Logger
	Settings Settings
}

// Collection is what is watched, in all namespaces.
type Collection struct {
	Resource schema.GroupVersionResource
	Kind     schema.GroupVersionKind
	// Selector selects objects by label. Empty: all.
	Selector string
	// Fields selects objects by field. Empty: all.
	Fields string
	// Label is the key of the label whose value is remembered. Empty: none.
	Label string
	// Metadata asks for the objects' metadata alone. Of that name, namespace, UID, version, labels and annotations are told.
	Metadata bool
}

// Settings are times and sizes. A zero field takes its default.
type Settings struct {
	// Silence is how long a watch may say nothing before it counts as broken. Most API servers send a bookmark every minute or
	// so. Zero: 5 min.
	Silence time.Duration
	// ListSilence is the same before a list is complete, and bounds a page. Zero: 1 min.
	ListSilence time.Duration
	// Lifetime is when the server is asked to end a watch, ±33 %. Zero: 15 min.
	Lifetime time.Duration
	// PageSize is how many objects are asked for at once where lists are not streams. Zero: 500.
	PageSize int
	// MaxObject is how many bytes one object may have. Zero: 16 MiB, which is several times what the API server takes.
	MaxObject int
	// Retry spaces attempts after errors. Zero: 200 ms doubling to 15 s.
	Retry backoff.Policy
	// Denied spaces attempts where the server says that watching is not allowed. Zero: 1 min doubling to 5 min.
	Denied backoff.Policy
}

func (s Settings) withDefaults() Settings {
	if s.Silence <= 0 {
		s.Silence = 5 * time.Minute
	}
	if s.ListSilence <= 0 {
		s.ListSilence = time.Minute
	}
	if s.Lifetime <= 0 {
		s.Lifetime = 15 * time.Minute
	}
	if s.PageSize <= 0 {
		s.PageSize = 500
	}
	if s.MaxObject <= 0 {
		s.MaxObject = 16 << 20
	}
	if s.Retry == (backoff.Policy{}) {
		s.Retry = backoff.Policy{Initial: 200 * time.Millisecond, Max: 15 * time.Second, Multiplier: 2}
	}
	if s.Denied == (backoff.Policy{}) {
		s.Denied = backoff.Policy{Initial: time.Minute, Max: 5 * time.Minute, Multiplier: 2}
	}
	return s
}

// ErrAbsent means that the server has no such collection.
var ErrAbsent = errors.New("the server has no such collection")

// The causes for which a Watcher itself ends a connection.
var (
	errSilent = errors.New("nothing was heard for too long")
	errAgain  = errors.New("a new list was asked for")
)

// Watcher keeps up with one collection.
type Watcher struct {
	params Params

	version string // up to which everything was told; empty: a list is needed
	broken  int    // streaming lists that broke off in a row
	expired int    // lists whose beginning the server forgot before their end came, in a row
	heard   bool   // the latest connection brought something
	unwell  bool   // people were told that it does not work
	lost    bool   // a connection ended before its time, and nothing was heard since

	mu        sync.Mutex // guards what follows
	again     bool       // a list was asked for
	interrupt context.CancelCauseFunc
}

// New returns a Watcher that does nothing before Run.
func New(p Params) *Watcher {
	p.Settings = p.Settings.withDefaults()
	return &Watcher{params: p}
}

// Relist has every object listed and told again. It returns at once.
func (w *Watcher) Relist() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.again = true
	if w.interrupt != nil {
		w.interrupt(errAgain)
	}
}

// Run keeps up with the collection until ctx is done, and returns nil then. Or it returns ErrAbsent; what is known stays known.
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
		_ = backoff.Wait(turn, w.pause(err, failures)) // ends early for a reason that the next turn sees
		end()
	}
	return nil
}

// begin makes the context of a turn, which Relist ends.
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

// connect lists if need be, and watches until that breaks off.
func (w *Watcher) connect(ctx context.Context) error {
	if w.version == "" && w.broken < maxBroken && w.params.Server.streams(w.params.Collection.Resource.Group) {
		return w.stream(ctx, true)
	}
	if w.version == "" {
		if err := w.pages(ctx); err != nil {
			return err
		}
	}
	return w.stream(ctx, false)
}

// maxBroken is how many streaming lists may break off before the next is read page by page: pages get on where connections
// do not live long enough for the whole.
const maxBroken = 2

// seen takes in an object that exists.
func (w *Watcher) seen(o *unstructured.Unstructured) {
	if o.GetKind() == "" {
		o.SetGroupVersionKind(w.params.Collection.Kind) // the items of a list do not repeat it
	}
	if before, replaced := w.params.Known.put(o, w.params.Collection.Label); replaced {
		w.params.Handler.Gone(before, o.GetResourceVersion())
	}
	w.params.Handler.Seen(o)
}

// gone takes in the last state of an object that has left.
func (w *Watcher) gone(o *unstructured.Unstructured) {
	before, known := w.params.Known.remove(o)
	if !known {
		before = Object{Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID()), Label: labelOf(o, w.params.Collection.Label)}
	}
	w.params.Handler.Gone(before, o.GetResourceVersion())
}

// complete ends a list that was made at the given version.
func (w *Watcher) complete(version string) error {
	if version == "" {
		return errNoVersion
	}
	w.params.Known.sweep(func(o Object) { w.params.Handler.Gone(o, version) })
	w.version, w.broken, w.expired = version, 0, 0
	w.params.Handler.Synced()
	return nil
}

var errNoVersion = errors.New("the server names no resource version for its list")
