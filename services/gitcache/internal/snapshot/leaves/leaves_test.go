// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package leaves_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/gitcache/internal/chartdep"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
	"github.com/leatdev/leat/services/gitcache/internal/submodule"
)

// house is mirrors that lack blobs, and the ports of a Reader. It is for one goroutine.
type house struct {
	lacks     map[string][]string // by UID
	open      int
	fetched   map[string][]string
	discarded []string
}

func (h *house) mirrors() leaves.Mirrors {
	return leaves.Mirrors{Opener: h, Blobs: h, Submodules: h, Charts: h}
}

func (h *house) Open(_ context.Context, uid string) (content.Reader, error) {
	if h.open++; h.open > 1 {
		return nil, fmt.Errorf("%d mirrors are open", h.open)
	}
	return &mirror{house: h, uid: uid}, nil
}

func (h *house) FetchBlobs(_ context.Context, uid string, ids []string) error {
	h.fetched[uid] = ids
	return nil
}

func (h *house) Discard(uid string) { h.discarded = append(h.discarded, uid) }

// mirror answers what a Reader asks.
type mirror struct {
	content.Reader
	house *house
	uid   string
}

func (m *mirror) Absent(_ context.Context, ids []string) ([]string, error) {
	return slices.DeleteFunc(ids, func(id string) bool { return !slices.Contains(m.house.lacks[m.uid], id) }), nil
}

func (m *mirror) Close() error {
	m.house.open--
	return nil
}

// TestCheckListsAllThatIsAbsent visits one mirror after the other, and fetches for all of them at
// once.
func TestCheckListsAllThatIsAbsent(t *testing.T) {
	t.Parallel()
	h := &house{lacks: map[string][]string{"one": {"a", "c"}, "two": {"x"}}, fetched: map[string][]string{}}
	r := &leaves.Reader{Mirrors: h.mirrors()}
	one, two, three := &leaves.Place{UID: "one"}, &leaves.Place{UID: "two"}, &leaves.Place{UID: "three"}
	all := []leaves.Leaf{
		{ID: "a", Place: one}, {ID: "x", Place: two}, {ID: "b", Place: one}, {ID: "c", Place: one}, {ID: "z", Place: three},
	}
	err := r.Check(t.Context(), all)
	r.Close()
	absent, ok := errors.AsType[*leaves.AbsentError](err)
	if !ok || h.open != 0 {
		t.Fatalf("got %v with %d mirrors open, want what is absent, and none", err, h.open)
	}
	if err := absent.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(h.lacks, h.fetched); diff != "" {
		t.Errorf("fetched (-want +got):\n%s", diff)
	}
	h.lacks = nil
	if err := r.Check(t.Context(), all); err != nil {
		t.Errorf("got %v, want everything there", err)
	}
}

// TestAbsentContentWithoutBlobs is an error of the mirror where nothing fetches it.
func TestAbsentContentWithoutBlobs(t *testing.T) {
	t.Parallel()
	h := &house{}
	r := &leaves.Reader{Mirrors: leaves.Mirrors{Opener: h}}
	if _, err := r.Open(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	err := r.Absent(fmt.Errorf("read: %w", &content.AbsentError{IDs: []string{"a"}}))
	absent, ok := errors.AsType[*leaves.AbsentError](err)
	if !ok {
		t.Fatalf("got %v, want an error that can be fetched", err)
	}
	if lacks, ok := errors.AsType[*content.AbsentError](absent.Fetch(t.Context())); !ok || lacks.IDs[0] != "a" {
		t.Errorf("got %v, want what is absent", lacks)
	}
	if err := r.Absent(content.ErrDamaged); !errors.Is(err, content.ErrDamaged) {
		t.Errorf("got %v, want other errors as they are", err)
	}
}

// TestBlame discards the mirror that is damaged, unless it is the repository's own.
func TestBlame(t *testing.T) {
	t.Parallel()
	damage := fmt.Errorf("read: %w", content.ErrDamaged)
	root := &leaves.Place{UID: "root"}
	linked := &leaves.Place{UID: "linked", Link: &submodule.Link{Path: "lib"}, Above: root}
	packed := &leaves.Place{UID: "packed", Need: &chartdep.Need{Name: "web"}, Above: linked}
	h := &house{}
	if err := h.mirrors().Blame(root, damage); !errors.Is(err, content.ErrDamaged) {
		t.Errorf("got %v for the repository, want its damage", err)
	}
	if _, ok := errors.AsType[*submodule.NotReadyError](h.mirrors().Blame(linked, damage)); !ok {
		t.Error("got another error for a submodule than that it is not ready")
	}
	err := h.mirrors().Blame(packed, damage)
	if failed, ok := errors.AsType[*chartdep.FetchError](err); !ok || failed.Name != "web" || errors.Is(err, content.ErrDamaged) {
		t.Errorf("got %v for a dependency, want a failure that names it", err)
	}
	if err := h.mirrors().Blame(linked, content.ErrPathNotFound); !errors.Is(err, content.ErrPathNotFound) {
		t.Errorf("got %v, want what is no damage as it is", err)
	}
	if want := []string{"linked", "packed"}; !slices.Equal(h.discarded, want) {
		t.Errorf("discarded %v, want %v", h.discarded, want)
	}
	if packed.Root() != root || (&leaves.Place{CopyOf: &leaves.Place{Prefix: "lib/"}}).ShownPrefix() != "lib/" {
		t.Error("got another root, or another prefix for people")
	}
}
