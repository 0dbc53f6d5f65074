// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/cas/casmem"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/lfs"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot"
)

// objects has an LFS server behind it, which may fail.
type objects struct {
	upstream map[string]string // by oid
	err      error
	readers  *repo // whose mirror must not be open while something is obtained

	mu    sync.Mutex
	held  map[string]string
	asked []string
}

func (o *objects) Open(_ string, p lfs.Pointer) (io.ReadCloser, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text, ok := o.held[p.OID]
	if !ok {
		return nil, fmt.Errorf("%w: %s", lfs.ErrAbsent, p.OID)
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

func (o *objects) Obtain(_ context.Context, uid, url string, wants []lfs.Want) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.readers != nil && o.readers.unclosed.Load() != 0 {
		return errors.New("a mirror is open while its objects are fetched")
	}
	for _, w := range wants {
		o.asked = append(o.asked, fmt.Sprint(uid, " ", w.Path, " ", url))
		if o.held == nil {
			o.held = map[string]string{}
		}
		o.held[w.OID] = o.upstream[w.OID]
	}
	return o.err
}

func builderWith(t *testing.T, r *repo, o *objects, limits bundle.Limits) *snapshot.Builder {
	t.Helper()
	p := params(t, r, casmem.New(casmem.Config{}), snapshot.NewIndex())
	p.Objects, p.Limits = o, limits
	b, err := snapshot.NewBuilder(p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestPointersAreReplaced builds the same bundle as from the contents themselves, and asks for all
// absent objects in one go.
func TestPointersAreReplaced(t *testing.T) {
	t.Parallel()
	r := &repo{commits: map[string]commit{
		"c1": plain(map[string]string{
			"app/a.yaml": "a: 1\n", "app/big": gittest.LFSPointer("much"), "app/bigger": gittest.LFSPointer("more"),
			".lfsconfig": "[lfs]\nurl = https://lfs.example\n",
		}),
		"c2": plain(map[string]string{"app/a.yaml": "a: 1\n", "app/big": "much", "app/bigger": "more"}),
	}}
	o := &objects{upstream: map[string]string{gittest.LFSOID("much"): "much", gittest.LFSOID("more"): "more"}, readers: r}
	b := builderWith(t, r, o, bundle.Limits{})
	resolved, err := b.Resolve(t.Context(), app(t, "c1"))
	if err != nil {
		t.Fatal(err)
	}
	ordinary, err := b.Resolve(t.Context(), app(t, "c2"))
	if err != nil || resolved != ordinary {
		t.Errorf("got %+v from pointers, and %+v, %v from the contents", resolved, ordinary, err)
	}
	want := []string{"uid app/big https://lfs.example", "uid app/bigger https://lfs.example"}
	if diff := cmp.Diff(want, o.asked); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
}

// TestTooLargeIsNotFetched refuses by the sizes in pointers.
func TestTooLargeIsNotFetched(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for i := range 3 {
		files[fmt.Sprint("app/", i)] = gittest.LFSPointer(strings.Repeat(fmt.Sprint(i), 1900))
	}
	r := &repo{commits: map[string]commit{"c1": plain(files)}}
	o := &objects{}
	b := builderWith(t, r, o, bundle.Limits{FileBytes: 2000, Bytes: 5000})
	_, err := b.Resolve(t.Context(), app(t, "c1"))
	if limit, ok := errors.AsType[*bundle.LimitError](err); !ok || limit.Limit != bundle.LimitBytes || len(o.asked) > 0 {
		t.Errorf("got %v after asking for %v, want the limit on bytes", err, o.asked)
	}
}

// TestMissingObjectsAreAskedForAgain remembers no failure: the object may have been pushed.
func TestMissingObjectsAreAskedForAgain(t *testing.T) {
	t.Parallel()
	r := &repo{commits: map[string]commit{"c1": plain(map[string]string{"app/big": gittest.LFSPointer("much")})}}
	o := &objects{err: &lfs.MissingError{Path: "app/big"}}
	b := builderWith(t, r, o, bundle.Limits{})
	_, err := b.Resolve(t.Context(), app(t, "c1"))
	if _, ok := errors.AsType[*lfs.MissingError](err); !ok {
		t.Errorf("got %v, want the object missing", err)
	}
	o.err, o.held = nil, map[string]string{gittest.LFSOID("much"): "much"}
	if _, err := b.Resolve(t.Context(), app(t, "c1")); err != nil {
		t.Errorf("got %v once the object is there", err)
	}
}

// extendedPointer is one that only its author can resolve.
func extendedPointer() string {
	return strings.Replace(gittest.LFSPointer("x"), "oid ", "ext-0-x sha256:"+gittest.LFSOID("y")+"\noid ", 1)
}
