// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/testkit/registrytest"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/ociregistry"
)

// answering is a transport whose bodies a function writes.
type answering func(ctx context.Context, body *io.PipeWriter)

// RoundTrip implements http.RoundTripper.
func (a answering) RoundTrip(req *http.Request) (*http.Response, error) {
	r, w := io.Pipe()
	ctx := req.Context()
	context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
	go a(ctx, w)
	return &http.Response{StatusCode: http.StatusOK, Body: r, Request: req}, nil
}

// every returns a body of that many bytes at each interval.
func every(interval time.Duration, bytes, times int) answering {
	return func(ctx context.Context, body *io.PipeWriter) {
		for range times {
			_ = backoff.Wait(ctx, interval) // then the body is closed
			if _, err := body.Write(make([]byte, bytes)); err != nil {
				return
			}
		}
		_ = body.Close()
	}
}

// thenNothing is a body that begins with a megabyte.
func thenNothing(ctx context.Context, body *io.PipeWriter) {
	_, _ = body.Write(make([]byte, 1<<20))
	<-ctx.Done()
}

// TestTricklingBodies reads bodies that arrive at several rates, in virtual time.
func TestTricklingBodies(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body    answering
		readers time.Duration // how long the reader pauses after each read
		want    error
		most    time.Duration
	}{
		"fast":                       {every(time.Millisecond, 32<<10, 1000), 0, nil, time.Second},
		"slow, and fast enough":      {every(time.Second, 2<<10, 500), 0, nil, 500 * time.Second},
		"in pieces":                  {every(20*time.Second, 64<<10, 30), 0, nil, 600 * time.Second},
		"a reader that pauses":       {every(time.Millisecond, 1<<10, 100), time.Minute, nil, 102 * time.Minute},
		"an empty body":              {every(0, 0, 0), 0, nil, 0},
		"half a kilobyte a second":   {every(time.Second, 512, 10_000), 0, ociregistry.ErrTrickle, 30 * time.Second},
		"nothing":                    {every(time.Hour, 1, 1), 0, ociregistry.ErrTrickle, 30 * time.Second},
		"much, and then nothing":     {thenNothing, 0, ociregistry.ErrTrickle, time.Minute},
		"a byte just before the end": {every(29*time.Second, 1, 100), 0, ociregistry.ErrTrickle, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://mirror.example/", nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := ociregistry.Impatient(test.body, 10*time.Second).RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = resp.Body.Close() }()
				began, buffer := time.Now(), make([]byte, 16<<10)
				for err == nil {
					_, err = resp.Body.Read(buffer)
					<-time.After(test.readers)
				}
				if errors.Is(err, io.EOF) {
					err = nil
				}
				if took := time.Since(began); !errors.Is(err, test.want) || took > test.most {
					t.Errorf("got %v after %v, want %v after %v at most", err, took, test.want, test.most)
				}
			})
		})
	}
}

// TestSecTricklingMirrors has a mirror that begins to send an artifact, and never ends: the registry
// serves, and the mirror is not asked again for a while.
func TestSecTricklingMirrors(t *testing.T) {
	t.Parallel()
	origin := registrytest.Start(t, registrytest.Config{})
	first := origin.Push(t, "team/web", "1.0.0", registrytest.ChartType, chart(t, "1.0.0"))
	atOrigin, trickling := newFront(t, origin.Addr, false), newFront(t, origin.Addr, false)
	trickling.fail(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(1<<20))
		_, _ = w.Write([]byte("{"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return true
	})
	s := newSubject(t, upstream.Definition{URL: atOrigin.url("team/web")})
	s.share(t, 200*time.Millisecond, "- {urlPrefix: '"+strings.TrimSuffix(atOrigin.url(""), "/")+"', mirrors: ['"+trickling.url("hub")+"']}\n")
	s.fetch(t)
	if got := s.resolve(t, tag("1.0.0")); got != first {
		t.Errorf("got %s, want %s", got, first)
	}
	if got := s.files(t, artifact.ID{Digest: first}); len(got) != 2 {
		t.Errorf("got %v", got)
	}
	if asked := trickling.take(); len(asked) != 1 {
		t.Errorf("the trickling mirror was asked %v, want one request", asked)
	}
}
