// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
)

// filler is an upstream's blobs.
type filler struct {
	mu     sync.Mutex
	asked  []int    // how many blobs each request was for
	looked []string // names of refs that were looked up
	err    error
	takes  time.Duration // a download
}

func (f *filler) Fill(ctx context.Context, p mirror.FetchParams, ids []string) (mirror.Content, error) {
	if err := p.Guard(); err != nil {
		return mirror.Content{}, err
	}
	f.mu.Lock()
	takes := f.takes
	f.asked = append(f.asked, len(ids))
	f.mu.Unlock()
	select {
	case <-ctx.Done():
		return mirror.Content{}, context.Cause(ctx)
	case <-time.After(takes):
	}
	p, err := p.Write(ctx, func(p mirror.FetchParams) (mirror.Content, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		c := p.Have
		c.FilledAt = time.Now()
		return c, f.err
	})
	return p.Have, err
}

// Pin makes every name lead to "pinned".
func (f *filler) Pin(_ context.Context, p mirror.FetchParams, names []string) (mirror.Content, error) {
	if err := p.Guard(); err != nil {
		return mirror.Content{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked = append(f.looked, names...)
	c := p.Have
	var refs []mirror.Ref
	for _, ref := range c.Refs {
		if slices.Contains(names, ref.Name) {
			ref.Object, ref.Commit = "pinned", "pinned"
		}
		refs = append(refs, ref)
	}
	c.Refs, c.FilledAt = mirror.NewRefs(refs), time.Now()
	return c, f.err
}

func (f *filler) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *filler) requests() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

// TestBlobsAreFetchedByTheOwner asks a replica that is not the owner, which has the owner fetch and
// copies what it has then.
func TestBlobsAreFetchedByTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f := newWorld(), &filler{}
		w.filler = f
		w.upstream.set(map[string]string{"refs/heads/main": "c1"}, nil)
		def := definition("demo")
		def.PartialClone = true
		setA, stopA := w.replica(t, "a", nil, def)
		time.Sleep(time.Minute)
		setB, stopB := w.replica(t, "b", nil, def)
		defer func() { stopB() }()
		time.Sleep(10 * time.Minute) // to hand over, if that is due
		owner, other := get(t, setA, "demo"), get(t, setB, "demo")
		if owner.Epoch() == 0 {
			owner, other = other, owner
			stopA, stopB = stopB, stopA
		}
		if err := other.Fill(t.Context(), []string{"b1"}); !errors.Is(err, mirror.ErrNotOwner) || len(f.requests()) > 0 {
			t.Errorf("got %v and requests %v of a replica that is not the owner, want ErrNotOwner and none", err, f.requests())
		}
		if err := other.FetchBlobs(t.Context(), make([]string, mirroring.MaxFill+1)); err != nil {
			t.Fatal(err)
		}
		if got := f.requests(); !slices.Equal(got, []int{mirroring.MaxFill, 1}) {
			t.Errorf("got requests for %v blobs, want them in two", got)
		}
		mine, err := owner.Mirrored()
		theirs, err2 := other.Mirrored()
		if err := errors.Join(err, err2); err != nil || mine.FilledAt.IsZero() || mine.Fingerprint() != theirs.Fingerprint() {
			t.Errorf("got filled at %v and %v (%v), want a copy of what the owner holds", mine.FilledAt, theirs.FilledAt, err)
		}

		down := &mirror.UpstreamError{Reason: reason.UpstreamUnreachable, Message: "Down."}
		f.fail(down)
		for range 3 { // only the first one asks
			if err := owner.FetchBlobs(t.Context(), []string{"b1"}); !errors.Is(err, down) {
				t.Errorf("got %v, want the upstream's failure", err)
			}
		}
		if got := f.requests(); len(got) != 3 {
			t.Errorf("got %d requests, want one more than the two before", len(got))
		}
		f.fail(nil)
		time.Sleep(time.Minute)
		if err := owner.FetchBlobs(t.Context(), []string{"b1"}); err != nil {
			t.Errorf("got %v a minute later, want nil", err)
		}
		stopA()
	})
}

// TestDownloadsHoldUpNoPolls has a download take longer than many polls: the polls are made meanwhile,
// what they find is there in the end beside what was downloaded, and a second call for the same waits
// instead of downloading again beside it.
func TestDownloadsHoldUpNoPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f := newWorld(), &filler{takes: 8 * time.Minute}
		w.filler = f
		w.upstream.set(map[string]string{"refs/heads/main": "c1"}, nil)
		def := definition("demo")
		def.PartialClone = true
		set, stop := w.replica(t, "a", nil, def)
		defer stop()
		time.Sleep(time.Minute)
		demo := get(t, set, "demo")
		done := make(chan error, 2)
		for range 2 {
			go func() { done <- demo.FetchBlobs(t.Context(), []string{"b1"}) }()
		}
		time.Sleep(time.Minute)
		polls := w.upstream.count()
		w.upstream.set(map[string]string{"refs/heads/main": "c2"}, nil)
		time.Sleep(6 * time.Minute)
		if n := w.upstream.count() - polls; n < 4 {
			t.Errorf("got %d polls in six minutes of a download, want about six", n)
		}
		if c, err := demo.Mirrored(); err != nil || !c.FilledAt.IsZero() || len(f.requests()) != 1 {
			t.Errorf("got filled at %s (%v) after %v requests, want one under way", c.FilledAt, err, f.requests())
		}
		time.Sleep(3 * time.Minute)
		c, err := demo.Mirrored()
		if ref, _ := c.Refs.Get("refs/heads/main"); err != nil || c.FilledAt.IsZero() || ref.Object != "c2" {
			t.Errorf("got %+v (%v), want what was polled and what was downloaded", c, err)
		}
		time.Sleep(10 * time.Minute)
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}
