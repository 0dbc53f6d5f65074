// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/store"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack"
)

// Fetch implements [mirror.Upstream].
func (b *Backend) Fetch(ctx context.Context, p mirror.FetchParams) (mirror.Content, error) {
	return uploadpack.Fetch(ctx, p, b.fetch)
}

func (b *Backend) fetch(ctx context.Context, p mirror.FetchParams) (mirror.Content, error) {
	if p.Definition.PartialClone && !b.tools.IsFull() { // defined while another back end ran
		return mirror.Content{}, errPartial
	}
	s, err := b.Dial(ctx, p)
	if err != nil {
		return mirror.Content{}, err
	}
	defer func() { _ = s.Close() }()
	offer, err := s.Advertise(ctx)
	if err != nil {
		return mirror.Content{}, err
	}
	isPartial := p.Definition.PartialClone && offer.Blobless
	if p.Have.Exists() && p.Have.Partial == isPartial && offer.Equals(p.Have) {
		return b.Unchanged(p)
	}
	if p.Definition.PartialClone && !isPartial && (p.Have.Partial || !p.Have.Exists()) {
		b.logger.WarnContext(ctx, "upstream cannot leave content out, everything is mirrored", slog.String("leat.repository", p.Definition.Name))
	}
	f := &fetching{backend: b, params: p, session: s, offer: offer, isPartial: isPartial}
	return f.run(ctx)
}

// fetching is one fetch that found refs moved.
type fetching struct {
	backend   *Backend
	params    mirror.FetchParams
	session   *uploadpack.Session
	offer     *uploadpack.Offer
	isPartial bool // without the content of files
	draft     *store.Draft
}

// run fetches into a draft of the mirror, which then becomes the mirror. A new draft is filled from
// the beginning.
func (f *fetching) run(ctx context.Context) (mirror.Content, error) {
	draft, err := f.backend.Draft(f.params.Definition.UID, f.content(), !f.params.Have.Exists())
	if err != nil {
		return mirror.Content{}, err
	}
	defer draft.Close()
	if draft.Empty() {
		f.params.Have = mirror.Content{}
	}
	f.draft = draft
	if err := f.receive(ctx); err != nil {
		return mirror.Content{}, err
	}
	return draft.Accept(ctx, f.params, f.content())
}

// content returns the mirror's content, once it holds the offered refs.
func (f *fetching) content() mirror.Content {
	c := f.offer.Content()
	if f.isPartial {
		c.Partial, c.FilledAt = true, f.params.Have.FilledAt
	}
	return c
}

// receive asks for the missing objects, stores them, and finds out which refs lead to commits.
func (f *fetching) receive(ctx context.Context) error {
	have := f.params.Have.Refs
	stored, err := f.backend.Objects(f.draft.Dir())
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
	// A base that is not in the pack must be in the mirror. A partial mirror may lack it.
	isThin := f.backend.tools.IsFull() && len(haves) > 0 && !f.isPartial
	request := uploadpack.Request{Wants: wants, Haves: haves, Thin: isThin, Blobless: f.isPartial}
	if err := f.backend.keep(ctx, f.session, request, f.draft, Arrival{IsPartial: f.isPartial, Tips: wants, Have: have}); err != nil {
		return err
	}
	arrived, err := f.backend.Objects(f.draft.Dir())
	if err != nil {
		return err
	}
	return errors.Join(f.offer.Settle(have, arrived), arrived.Close())
}

// keep asks for a pack and stores it in a draft, within the room that the disk has.
func (b *Backend) keep(ctx context.Context, s *uploadpack.Session, r uploadpack.Request, draft *store.Draft, a Arrival) error {
	sent, err := s.Fetch(ctx, r)
	if err != nil {
		return err
	}
	a.Dir, a.Pack = draft.Dir(), draft.Limit(sent)
	return errors.Join(b.tools.Keep(ctx, a), sent.Close())
}

// Pin implements [mirror.Pinner]: a Git upstream lists every ref with its object.
func (b *Backend) Pin(_ context.Context, p mirror.FetchParams, _ []string) (mirror.Content, error) {
	return p.Have, nil
}

// Fill implements [mirror.Upstream]. Check refuses partial clones where there is nothing to fill. It
// writes the mirror all the time: git adds packs to the repository that a fetch changes.
func (b *Backend) Fill(ctx context.Context, p mirror.FetchParams, ids []string) (mirror.Content, error) {
	if !b.tools.IsFull() {
		return mirror.Content{}, errPartial
	}
	filled, err := p.Write(ctx, func(p mirror.FetchParams) (mirror.Content, error) {
		return uploadpack.Fetch(ctx, p, func(ctx context.Context, p mirror.FetchParams) (mirror.Content, error) { return b.fill(ctx, p, ids) })
	})
	if err != nil {
		return mirror.Content{}, err
	}
	return filled.Have, nil
}

func (b *Backend) fill(ctx context.Context, p mirror.FetchParams, ids []string) (mirror.Content, error) {
	draft, err := b.Draft(p.Definition.UID, p.Have, false)
	if err != nil {
		return mirror.Content{}, err
	}
	defer draft.Close()
	if draft.Empty() {
		return mirror.Content{}, mirror.ErrNoMirror
	}
	absent, err := b.absent(ctx, draft.Dir(), ids)
	if err != nil {
		return mirror.Content{}, err
	}
	if len(absent) == 0 { // another call was faster
		return p.Have, nil
	}
	if err := b.fetchBlobs(ctx, p, draft, absent); err != nil {
		return mirror.Content{}, err
	}
	return draft.Fill(p.Guard)
}

// fetchBlobs asks for blobs by their ids, and makes sure that they came.
func (b *Backend) fetchBlobs(ctx context.Context, p mirror.FetchParams, draft *store.Draft, ids []string) error {
	s, err := b.Dial(ctx, p)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	if _, err := s.Advertise(ctx); err != nil {
		return err
	}
	if err := b.keep(ctx, s, uploadpack.Request{Wants: ids}, draft, Arrival{IsPartial: true}); err != nil {
		return err
	}
	absent, err := b.absent(ctx, draft.Dir(), ids)
	if err == nil && len(absent) > 0 {
		err = fmt.Errorf("%w: the pack lacks %s", uploadpack.ErrBroken, absent[0])
	}
	return err
}

// absent returns the ids of the blobs that a bare repository lacks.
func (b *Backend) absent(ctx context.Context, dir string, ids []string) ([]string, error) {
	stored, err := b.Objects(dir)
	if err != nil {
		return nil, err
	}
	absent, err := stored.Absent(ctx, ids)
	return absent, errors.Join(err, stored.Close())
}
