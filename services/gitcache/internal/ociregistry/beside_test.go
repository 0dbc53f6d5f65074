// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/testkit/registrytest"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// TestPollsBesideADownload polls while the layer of an artifact is on its way: the poll ends before, and
// the mirror has what both brought. The download of an artifact whose mirror went meanwhile leaves
// nothing behind.
func TestPollsBesideADownload(t *testing.T) {
	t.Parallel()
	r := registrytest.Start(t, registrytest.Config{})
	digest := r.Push(t, "team/web", "1.0.0", registrytest.ChartType, chart(t, "1.0.0"))
	f := newFront(t, r.Addr, false)
	s := newSubject(t, upstream.Definition{URL: f.url("team/web")})
	s.fetch(t)
	s.resolve(t, tag("1.0.0"))

	arriving, release := make(chan struct{}), make(chan struct{})
	f.fail(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			arriving <- struct{}{}
			<-release
		}
		return false
	})
	var mu sync.Mutex // guards s.have
	isGone := false
	fill := func() error {
		p := s.params()
		p.Enter = func(context.Context) (mirror.Content, func(mirror.Content), error) {
			mu.Lock()
			if isGone {
				mu.Unlock()
				return mirror.Content{}, nil, &mirror.NotReadyError{Repository: "web"}
			}
			return s.have, func(c mirror.Content) { s.have = c; mu.Unlock() }, nil
		}
		_, err := s.Fill(t.Context(), p, []string{artifact.ID{Digest: digest}.String()})
		return err
	}
	done := make(chan error)
	go func() { done <- fill() }()
	<-arriving
	isGone = true
	release <- struct{}{}
	if err := <-done; !errors.Is(err, mirror.ErrNotReady) || s.store.Has(s.def.UID, artifact.ID{Digest: digest}) {
		t.Errorf("got %v, want that the mirror is gone", err)
	}
	isGone = false
	go func() { done <- fill() }()
	<-arriving
	r.Push(t, "team/web", "2.0.0", registrytest.ChartType, chart(t, "2.0.0"))
	mu.Lock()
	s.fetch(t)
	mu.Unlock()
	release <- struct{}{}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	f.fail(nil)
	if _, ok := s.have.Refs.Get("refs/tags/2.0.0"); !ok {
		t.Error("the download took back what the poll had found")
	}
	if got := s.files(t, artifact.ID{Digest: digest}); len(got) != 2 {
		t.Errorf("got %v", got)
	}
	s.fetch(t)
	if _, ok := s.have.Refs.Get("refs/tags/2.0.0"); !ok {
		t.Error("the next poll does not know the tag")
	}
}
