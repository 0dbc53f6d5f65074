// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
	"github.com/leatdev/leat/services/gitcache/internal/store"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack"
)

// Fetch implements [mirror.Upstream].
func (g *Git) Fetch(ctx context.Context, p mirror.FetchParams) (mirror.Content, error) {
	return uploadpack.Fetch(ctx, p, g.fetch)
}

func (g *Git) fetch(ctx context.Context, p mirror.FetchParams) (mirror.Content, error) {
	if p.Definition.PartialClone { // put while another back end ran
		return mirror.Content{}, errPartial
	}
	s, err := g.Dial(ctx, p)
	if err != nil {
		return mirror.Content{}, err
	}
	defer func() { _ = s.Close() }()
	offer, err := s.Advertise(ctx)
	if err != nil {
		return mirror.Content{}, err
	}
	if p.Have.Exists() && offer.Equals(p.Have) {
		return g.Unchanged(p)
	}
	f := &fetching{git: g, params: p, session: s, offer: offer}
	return f.run(ctx)
}

// fetching is one fetch that found refs moved.
type fetching struct {
	git     *Git
	params  mirror.FetchParams
	session uploadpack.Session
	offer   *uploadpack.Offer
	draft   *store.Draft
	dir     string // the bare repository that is written to
}

func (f *fetching) run(ctx context.Context) (mirror.Content, error) {
	draft, err := f.git.Draft(f.params.Definition.UID, f.offer.Content(), !f.params.Have.Exists())
	if err != nil {
		return mirror.Content{}, err
	}
	defer draft.Close()
	if draft.Empty() {
		f.params.Have = mirror.Content{}
	}
	f.draft, f.dir = draft, draft.Dir()
	storage := openStorage(f.dir)
	defer func() { _ = storage.Close() }()
	if err := f.receive(ctx, storage); err != nil {
		return mirror.Content{}, err
	}
	return draft.Accept(ctx, f.params, f.offer.Content())
}

// receive asks for what is missing, stores it, and settles which refs lead to commits.
func (f *fetching) receive(ctx context.Context, storage *filesystem.Storage) error {
	wants := f.wants(storage)
	if len(wants) > 0 {
		sent, err := f.session.Fetch(ctx, uploadpack.Request{Wants: wants, Haves: f.haves(storage)})
		if err != nil {
			return err
		}
		if err := f.keep(ctx, sent); err != nil {
			return err
		}
	}
	reopened := openStorage(f.dir) // sees the new pack whatever the first one remembers
	defer func() { _ = reopened.Close() }()
	return f.settle(reopened)
}

// keep stores a pack.
func (f *fetching) keep(ctx context.Context, sent io.ReadCloser) error {
	_, err := pack.Receive(ctx, filepath.Join(f.dir, "objects", "pack"), f.draft.Limit(sent), f.git.memory)
	return errors.Join(err, sent.Close())
}

// wants are the advertised objects that the mirror does not have.
func (f *fetching) wants(storage *filesystem.Storage) []string {
	seen := map[string]bool{}
	for _, ref := range f.params.Have.Refs {
		seen[ref.Object] = true
	}
	var wants []string
	for _, id := range f.offer.Objects() {
		if seen[id] {
			continue
		}
		seen[id] = true
		if storage.HasEncodedObject(plumbing.NewHash(id)) != nil {
			wants = append(wants, id)
		}
	}
	return wants
}

const (
	maxHaves     = 2048 // in all
	maxAncestors = 100  // of a ref that moved: where a rewritten branch may meet the old one
)

// haves are commits of the mirror that the upstream is likely to have too: first where moved refs were, with some
// history, then other tips.
func (f *fetching) haves(storage *filesystem.Storage) []string {
	seen := map[string]bool{}
	var haves []string
	add := func(id string) bool {
		if !seen[id] && len(haves) < maxHaves {
			seen[id] = true
			haves = append(haves, id)
		}
		return len(haves) < maxHaves
	}
	for _, name := range f.params.Have.Refs.Changed(f.offer.Refs) {
		if ref, ok := f.params.Have.Refs.Get(name); ok {
			ancestors(storage, plumbing.NewHash(ref.Commit), add)
		}
	}
	for _, ref := range f.params.Have.Refs {
		if ref.Commit != "" && !add(ref.Commit) {
			break
		}
	}
	return haves
}

func ancestors(storage *filesystem.Storage, from plumbing.Hash, add func(id string) bool) {
	commit, err := object.GetCommit(storage, from)
	if err != nil {
		return // one have less costs bytes, not correctness
	}
	left := maxAncestors
	_ = object.NewCommitPreorderIter(commit, nil, nil).ForEach(func(c *object.Commit) error {
		left--
		if !add(c.Hash.String()) || left == 0 {
			return io.EOF // any error ends the walk
		}
		return nil
	})
}

// settle makes sure that every offered object has arrived, and marks tags that lead to something else than a commit: a
// tree or a blob is valid, but there is nothing to deliver from. Refs that did not move were settled before.
func (f *fetching) settle(storage *filesystem.Storage) error {
	kept := make([]mirror.Ref, 0, len(f.offer.Refs))
	for _, ref := range f.offer.Refs {
		if old, ok := f.params.Have.Refs.Get(ref.Name); ok && old.Object == ref.Object {
			kept = append(kept, old)
			continue
		}
		_, err := object.GetCommit(storage, plumbing.NewHash(ref.Commit))
		switch {
		case err == nil:
			kept = append(kept, ref)
		case storage.HasEncodedObject(plumbing.NewHash(ref.Object)) == nil:
			ref.Commit = ""
			kept = append(kept, ref)
		default:
			return fmt.Errorf("%w: the pack lacks %s for %s", uploadpack.ErrBroken, ref.Object, ref.Name)
		}
	}
	f.offer.Refs = kept
	return nil
}
