// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Handler receives the changes of the objects of one collection. One goroutine calls its methods in
// the order of the changes. A slow method delays the following ones.
type Handler interface {
	// Seen reports an object's newest state. The same state may be reported more than once.
	Seen(o *unstructured.Unstructured)
	// Gone reports that an object has left the collection. It was deleted, no longer matches the
	// selector, or now has another UID or another value of the recorded label; in the latter cases
	// Seen follows. Version orders this among the observed states of the object. An empty version
	// comes last.
	Gone(o Object, version string)
	// Synced is called once after every complete list, when all its objects have been reported.
	Synced()
	// Denied reports that the server forbids the watch. It is called once until the server answers
	// again.
	Denied(err error)
}

// Collection is the set of watched objects.
type Collection struct {
	Resource schema.GroupVersionResource
	Kind     schema.GroupVersionKind
	// Namespace has the objects. Empty: all namespaces.
	Namespace string
	// Selector selects objects by label. Empty: all.
	Selector string
	// Fields selects objects by field. Empty: all.
	Fields string
	// Label returns the recorded part of an object's labels. It must not change or keep the object.
	// Nil: nothing is recorded.
	Label func(*unstructured.Unstructured) string
	// Metadata requests only the metadata of objects. Handler then receives name, namespace, UID,
	// version, labels and annotations.
	Metadata bool
}

// The causes for which a Watcher itself ends a connection.
var (
	errSilent = errors.New("the server was silent for too long")
	errAgain  = errors.New("a new list was requested")
)

// Watcher observes one collection.
type Watcher struct {
	params Params

	version string // version up to which changes were reported; empty: a list is needed
	broken  int    // consecutive streaming lists that broke off
	expired int    // consecutive lists that expired on the server before their end
	heard   bool   // the latest connection received something
	unwell  bool   // the log has a warning about the failure
	lost    bool   // a connection ended early, and nothing was received since

	mu        sync.Mutex // guards what follows
	again     bool       // a list was requested
	interrupt context.CancelCauseFunc
}

// seen processes an object that exists.
func (w *Watcher) seen(o *unstructured.Unstructured) {
	if o.GetKind() == "" {
		o.SetGroupVersionKind(w.params.Collection.Kind) // items of a list do not repeat it
	}
	if before, replaced := w.params.Known.put(o, w.params.Collection.labelOf(o)); replaced {
		w.params.Handler.Gone(before, o.GetResourceVersion())
	}
	w.params.Handler.Seen(o)
}

// gone processes the last state of an object that has left.
func (w *Watcher) gone(o *unstructured.Unstructured) {
	before, known := w.params.Known.remove(o)
	if !known {
		before = Object{Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID()), Label: w.params.Collection.labelOf(o)}
	}
	w.params.Handler.Gone(before, o.GetResourceVersion())
}

// complete ends a list of the given version.
func (w *Watcher) complete(version string) error {
	if version == "" {
		return errNoVersion
	}
	w.params.Known.sweep(func(o Object) { w.params.Handler.Gone(o, version) })
	w.version, w.broken, w.expired = version, 0, 0
	w.params.Handler.Synced()
	return nil
}
