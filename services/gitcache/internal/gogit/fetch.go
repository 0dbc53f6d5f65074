// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit

import (
	"context"
	"errors"
	"io"
	"path/filepath"

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
	session *uploadpack.Session
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
	stored, err := f.git.Objects(f.dir)
	if err != nil {
		return err
	}
	defer func() { _ = stored.Close() }()
	wants, err := f.offer.Wants(have, stored)
	if err != nil {
		return err
	}
	if len(wants) == 0 {
		return f.offer.Settle(have, stored)
	}
	haves, err := f.offer.Haves(ctx, have, stored)
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
	arrived, err := f.git.Objects(f.dir)
	if err != nil {
		return err
	}
	return errors.Join(f.offer.Settle(have, arrived), arrived.Close())
}

// keep stores a pack.
func (f *fetching) keep(ctx context.Context, sent io.ReadCloser) error {
	_, err := pack.Receive(ctx, filepath.Join(f.dir, "objects", "pack"), f.draft.Limit(sent), f.git.memory)
	return errors.Join(err, sent.Close())
}
