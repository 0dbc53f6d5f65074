// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/agent/internal/kube/watch"
)

// babble answers the first list with one text and the first watch with another, and then ends the
// test.
type babble struct {
	list, watch string
	asked       map[bool]bool
	end         context.CancelFunc
}

// RoundTrip implements http.RoundTripper.
func (b *babble) RoundTrip(request *http.Request) (*http.Response, error) {
	watches := request.URL.Query().Get("watch") == "true"
	if b.asked[watches] {
		b.end()
		return nil, context.Canceled
	}
	b.asked[watches] = true
	text := b.list
	if watches {
		text = b.watch
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text)), Request: request}, nil
}

// FuzzAnswers has a server send any text. A Watcher must at worst treat that as the end of a
// connection.
func FuzzAnswers(f *testing.F) {
	const bookmark = `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}`
	for _, text := range []string{
		"", "null", "[]", "{", `{"type":"ADDED"}`, `{"type":"ADDED","object":null}`, `{"type":"ADDED","object":{"metadata":[]}}`, bookmark,
		`{"type":"ADDED","object":{"metadata":{"name":"a","uid":"1","resourceVersion":"5"}}}` + bookmark,
		`{"type":"ERROR","object":{"code":410,"reason":"Expired"}}`, `{"type":"ERROR","object":{"code":"x"}}`, `{"type":7}`,
	} {
		f.Add(`{"metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"a"}}]}`, text, true)
		f.Add(text, bookmark, false)
		f.Add(`{"kind":"List","items":null,"metadata":{"resourceVersion":7}}`, text, true)
	}
	f.Fuzz(func(t *testing.T, list, events string, paged bool) {
		for _, metadata := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) { follow(t, list, events, paged, metadata) })
		}
	})
}

// follow runs one Watcher on the server's text, for a second of virtual time.
func follow(t *testing.T, list, events string, paged, metadata bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // a server may ask to be left alone
	defer cancel()
	var transport http.RoundTripper = &babble{list: list, watch: events, asked: map[bool]bool{}, end: cancel}
	if paged {
		transport = noStreams{transport}
	}
	told, collection := newRecorder(), configMaps()
	collection.Metadata = metadata
	w := watch.New(watch.Params{
		Server:     watch.NewServer(&url.URL{Scheme: "http", Host: "babble"}, &http.Client{Transport: transport}),
		Collection: collection, Handler: told, Known: watch.NewKnown(), Logger: quiet(),
		Settings: watch.Settings{Retry: backoff.Policy{Initial: 1, Max: 1}, Denied: backoff.Policy{Initial: 1, Max: 1}},
	})
	if err := w.Run(ctx); err != nil && !strings.Contains(events, "404") && !strings.Contains(events, "NotFound") {
		t.Errorf("got %v, want nil: the server never said that the collection is absent", err)
	}
	if _, synced, _ := told.state(); synced > 0 && !strings.Contains(list+events, "resourceVersion") {
		t.Error("told that a list is complete that names no version")
	}
}
