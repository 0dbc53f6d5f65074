// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit

import (
	"context"
	"errors"
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
	if err := f.receive(ctx); err != nil {
		return mirror.Content{}, err
	}
	return draft.Accept(ctx, f.params, f.offer.Content())
}

// receive asks for what is missing, stores it, and settles which refs lead to commits.
func (f *fetching) receive(ctx context.Context) error {
	have := f.params.Have.Refs
	all, done := f.objects()
	defer done()
	wants, err := f.offer.Wants(have, all)
	if err != nil {
		return err
	}
	if len(wants) == 0 {
		return f.offer.Settle(have, all)
	}
	haves, err := f.offer.Haves(have, all)
	if err != nil {
		return err
	}
	sent, err := f.session.Fetch(ctx, uploadpack.Request{Wants: wants, Haves: haves})
	if err != nil {
		return err
	}
	if err := f.keep(ctx, sent); err != nil {
		return err
	}
	reopened, done := f.objects() // sees the new pack whatever the first one remembers
	defer done()
	return f.offer.Settle(have, reopened)
}

// objects opens what the repository holds now.
func (f *fetching) objects() (stored, func()) {
	storage := openStorage(f.dir)
	return stored{storage}, func() { _ = storage.Close() }
}

// keep stores a pack.
func (f *fetching) keep(ctx context.Context, sent io.ReadCloser) error {
	_, err := pack.Receive(ctx, filepath.Join(f.dir, "objects", "pack"), f.draft.Limit(sent), f.git.memory)
	return errors.Join(err, sent.Close())
}

// maxAncestors bounds the history of a ref that moved: where a rewritten branch may meet the old one.
const maxAncestors = 100

// stored is what a repository holds.
type stored struct{ *filesystem.Storage }

var _ uploadpack.Objects = stored{}

// Kind implements [uploadpack.Objects]. What cannot be read counts as not there: it is fetched again.
func (s stored) Kind(id string) (string, error) {
	hash := plumbing.NewHash(id)
	_, err := object.GetCommit(s, hash)
	isCommit, isThere := err == nil, s.HasEncodedObject(hash) == nil
	switch {
	case isCommit:
		return "commit", nil
	case isThere:
		return "other", nil
	}
	return "", nil
}

// Ancestors implements [uploadpack.Objects].
func (s stored) Ancestors(commits []string, add func(id string) bool) error {
	more := true
	for _, id := range commits {
		commit, err := object.GetCommit(s, plumbing.NewHash(id))
		if err != nil || !more {
			continue
		}
		left := maxAncestors
		_ = object.NewCommitPreorderIter(commit, nil, nil).ForEach(func(c *object.Commit) error {
			left--
			if more = add(c.Hash.String()); !more || left == 0 {
				return io.EOF // any error ends the walk
			}
			return nil
		})
	}
	return nil
}
