// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/leatdev/leat/internal/kit/backoff"
)

// lively is the lifetime of a connection after which the next one needs no pause, even if it
// received nothing.
const lively = 10 * time.Second

// stream reads one watch to its end, which is always an error. With list, the watch begins with a
// list.
func (w *Watcher) stream(ctx context.Context, list bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(w.params.Settings.ListSilence, func() { cancel(errSilent) })
	defer silence.Stop()
	lifetime := backoff.Jitter(w.params.Settings.Lifetime, lifetimeJitter).Truncate(time.Second)
	started := time.Now()
	err := w.open(ctx, w.watchQuery(list, lifetime), list, silence)
	if context.Cause(ctx) != nil {
		err = context.Cause(ctx) // why the read failed
	}
	lived := time.Since(started)
	w.heard = w.heard || lived >= lively
	w.lost = w.lost || lived < lifetime && !errors.Is(err, errDeclined)
	return err
}

func (w *Watcher) open(ctx context.Context, query url.Values, list bool, silence *time.Timer) error {
	body, err := w.params.Server.get(ctx, w.params.Collection, query, w.accept(""))
	if list && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) {
		w.params.Server.setPlain(w.params.Collection.Resource.Group)
		return fmt.Errorf("%w: %w", errDeclined, err)
	}
	if err != nil {
		return err
	}
	defer body.Close()
	if list {
		w.params.Known.begin()
		w.broken++
	}
	return w.follow(ctx, newReader(body, w.params.Settings.MaxObject, w.params.Collection.Metadata), list, silence)
}

// follow processes events until the stream ends.
func (w *Watcher) follow(ctx context.Context, r *reader, listing bool, silence *time.Timer) error {
	for {
		if listing {
			silence.Reset(w.params.Settings.ListSilence)
		} else {
			silence.Reset(w.params.Settings.Silence)
		}
		e, err := r.event()
		if err != nil {
			return fmt.Errorf("read event: %w", err)
		}
		listed, err := w.take(e, listing)
		if err != nil {
			return err
		}
		listing = listing && !listed
		w.setReachable(ctx)
	}
}

// take processes one event, and reports whether it completes a list.
func (w *Watcher) take(e event, listing bool) (listed bool, err error) {
	o := &unstructured.Unstructured{Object: e.Object}
	switch watch.EventType(e.Type) {
	case watch.Added, watch.Modified:
		w.seen(o)
	case watch.Deleted:
		w.gone(o)
	case watch.Error:
		return false, failure(e.Object)
	case watch.Bookmark:
		if listing && o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
			return true, w.complete(o.GetResourceVersion())
		}
	}
	if version := o.GetResourceVersion(); !listing && version != "" {
		w.version = version // versions are unordered before the end of a list
	}
	return false, nil
}

// failure returns the error that a server sent as an event.
func failure(object map[string]any) error {
	var status metav1.Status
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &status); err != nil {
		return fmt.Errorf("read error event: %w", err)
	}
	return withHint(&apierrors.StatusError{ErrStatus: status}, "")
}

// pageRetries is how often one page is requested again before the list starts over.
const pageRetries = 5

// pages lists page by page. It requests an incomplete page again, so that a list makes progress
// even if connections are short-lived.
func (w *Watcher) pages(ctx context.Context) error {
	w.params.Known.begin()
	next := ""
	for failures := 0; ; {
		meta, err := w.page(ctx, next)
		if err == nil {
			w.setReachable(ctx)
		}
		switch {
		case err == nil && meta.Continue == "":
			return w.complete(meta.ResourceVersion)
		case err == nil:
			next, failures = meta.Continue, 0
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case next == "" || isRefused(err) || failures == pageRetries:
			return fmt.Errorf("list: %w", err)
		default:
			_ = backoff.Wait(ctx, w.params.Settings.Retry.After(err, failures)) // the next page sees the end of ctx, too
			failures++
		}
	}
}

func (w *Watcher) page(ctx context.Context, next string) (metav1.ListMeta, error) {
	ctx, cancel := context.WithTimeout(ctx, w.params.Settings.ListSilence)
	defer cancel()
	body, err := w.params.Server.get(ctx, w.params.Collection, w.listQuery(next), w.accept("List"))
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer body.Close()
	meta, err := newReader(body, w.params.Settings.MaxObject, w.params.Collection.Metadata).list(func(object map[string]any) {
		w.seen(&unstructured.Unstructured{Object: object})
	})
	if err == io.EOF { //nolint:errorlint // a decoder returns it bare; here it means an incomplete list
		err = io.ErrUnexpectedEOF
	}
	return meta, err
}

// maxExpired is how many lists may expire between two pages before the next list is requested in
// one piece.
const maxExpired = 2

func (w *Watcher) listQuery(next string) url.Values {
	query := url.Values{}
	if w.expired < maxExpired {
		query.Set("limit", strconv.Itoa(w.params.Settings.PageSize))
	}
	if next != "" {
		query.Set("continue", next)
	}
	w.selected(query)
	return query
}

// lifetimeJitter keeps watches that began together from ending together.
const lifetimeJitter = 0.33

func (w *Watcher) watchQuery(list bool, lifetime time.Duration) url.Values {
	query := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}}
	query.Set("timeoutSeconds", strconv.Itoa(int(lifetime.Seconds())))
	if list {
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchNotOlderThan))
	} else {
		query.Set("resourceVersion", w.version)
	}
	w.selected(query)
	return query
}

func (w *Watcher) selected(query url.Values) {
	if w.params.Collection.Selector != "" {
		query.Set("labelSelector", w.params.Collection.Selector)
	}
	if w.params.Collection.Fields != "" {
		query.Set("fieldSelector", w.params.Collection.Fields)
	}
}

// accept returns the Accept header for objects; suffix completes the name of their form.
func (w *Watcher) accept(suffix string) string {
	if w.params.Collection.Metadata {
		return fmt.Sprintf(acceptMetadata, "PartialObjectMetadata"+suffix)
	}
	return acceptObjects
}
