// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/services/tunnel/internal/fanin"
)

func TestErrorGoesToThoseWhoWaitedForIt(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{})
		s.compacted, s.version = 100, 100
		hold := make(chan struct{})
		held := func(ctx context.Context) (fanin.Upstream, error) {
			<-hold
			return s.open(ctx)
		}
		results, seen := make(chan string, 4), make(chan struct{}) // a watch with only one viewer ends with that viewer
		for _, version := range []uint64{5, 5, 100, 100} {
			go func() {
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, from(version), nil)
				w := relay.Watch("demo", held, func() {})
				defer w.Release()
				res, err := w.RoundTrip(req)
				if err != nil {
					results <- err.Error()
					return
				}
				body := ""
				if res.StatusCode != http.StatusOK {
					all, _ := io.ReadAll(res.Body)
					body = string(all)
				}
				results <- res.Status + body
				<-seen
				_ = res.Body.Close()
			}()
			synctest.Wait()
		}
		close(hold)
		got := map[string]int{}
		for range 4 {
			got[<-results]++
		}
		if got["200 OKtoo old"] != 2 || got["200 OK"] != 2 {
			t.Errorf("got %v, want the error for the two who asked for version 5", got)
		}
		s.wantWatches(t, 2, 1)
		close(seen)
		<-time.After(6 * time.Second)
	})
}

func TestFailureToOpenIsTold(t *testing.T) {
	run(t, func(t *testing.T) {
		full := errors.New("full")
		relay := fanin.New(fanin.Params{})
		w := relay.Watch("demo", func(context.Context) (fanin.Upstream, error) { return nil, full }, func() {})
		defer w.Release()
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		_, err := w.RoundTrip(req)
		var open *fanin.OpenError
		if !errors.As(err, &open) || !errors.Is(err, full) {
			t.Errorf("got %v, want an OpenError of the opener's error", err)
		}
	})
}

// Requests that are not watches, or cannot be shared, are each caller's own.
func TestOtherAnswersAreNotShared(t *testing.T) {
	for name, header := range map[string]http.Header{
		"text":       {"Content-Type": {"text/plain"}},
		"compressed": {"Content-Encoding": {"gzip"}},
		"no type":    {"Content-Type": {""}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T) {
				s, relay := newServer(), fanin.New(fanin.Params{})
				s.header = header
				first, second := watch(t, relay, s, path), watch(t, relay, s, path)
				s.touch("a")
				s.wantWatches(t, 2, 2)
				first.want(s.last().all())
				second.want(s.last().all())
				first.leave()
				s.wantWatches(t, 2, 1)
				second.leave()
				s.wantWatches(t, 2, 0)
			})
		})
	}
}

func TestMalformedQuestionsAreTheClusters(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{})
		for i, query := range []string{
			"&timeoutSeconds=soon", "&timeoutSeconds=1&timeoutSeconds=2", "&resourceVersion=1&resourceVersion=2", "&x=%zz", "&a;b",
		} {
			v := watch(t, relay, s, path+query)
			if got := s.last().req.URL.RawQuery; got != "watch=true"+query {
				t.Errorf("got query %q, want watch=true%s", got, query)
			}
			v.leave()
			s.wantWatches(t, i+1, 0)
		}
	})
}
