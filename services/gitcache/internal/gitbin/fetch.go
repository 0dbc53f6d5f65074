// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitbin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

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
	s, err := g.Dial(ctx, p)
	if err != nil {
		return mirror.Content{}, err
	}
	defer func() { _ = s.Close() }()
	offer, err := s.Advertise(ctx)
	if err != nil {
		return mirror.Content{}, err
	}
	partial := p.Definition.PartialClone && offer.Blobless
	if p.Have.Exists() && p.Have.Partial == partial && offer.Equals(p.Have) {
		return g.Unchanged(p)
	}
	if p.Definition.PartialClone && !partial && (p.Have.Partial || !p.Have.Exists()) {
		g.logger.WarnContext(ctx, "upstream cannot leave content out, everything is mirrored", slog.String("leat.repository", p.Definition.Name))
	}
	f := &fetching{git: g, params: p, session: s, offer: offer, partial: partial}
	return f.run(ctx)
}

// fetching is one fetch that found refs moved.
type fetching struct {
	git     *Git
	params  mirror.FetchParams
	session *uploadpack.Session
	offer   *uploadpack.Offer
	partial bool   // without the content of files
	stored  string // the id of the pack that was stored
	draft   *store.Draft
	dir     string // the bare repository that is written to
}

func (f *fetching) run(ctx context.Context) (mirror.Content, error) {
	draft, err := f.git.Draft(f.params.Definition.UID, f.content(), !f.params.Have.Exists())
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
	return draft.Accept(ctx, f.params, f.content())
}

// content is the mirror's, once it holds what is offered.
func (f *fetching) content() mirror.Content {
	c := f.offer.Content()
	if f.partial {
		c.Partial, c.FilledAt = true, f.params.Have.FilledAt
	}
	return c
}

// receive asks for what is missing, stores it, and settles which refs lead to commits.
func (f *fetching) receive(ctx context.Context) error {
	stored, err := f.git.Objects(f.dir)
	if err != nil {
		return err
	}
	defer func() { _ = stored.Close() }()
	wants, err := f.offer.Wants(f.params.Have.Refs, stored)
	if err != nil {
		return err
	}
	if len(wants) == 0 {
		return f.offer.Settle(f.params.Have.Refs, stored)
	}
	haves, err := f.offer.Haves(ctx, f.params.Have.Refs, stored)
	if err != nil {
		return err
	}
	if err := f.fetchPack(ctx, wants, haves); err != nil {
		return err
	}
	arrived, err := f.git.Objects(f.dir)
	if err != nil {
		return err
	}
	return errors.Join(f.offer.Settle(f.params.Have.Refs, arrived), arrived.Close())
}

func (f *fetching) fetchPack(ctx context.Context, wants, haves []string) error {
	request := uploadpack.Request{Wants: wants, Haves: haves, Thin: len(haves) > 0}
	if f.partial { // nothing may lean on a blob that is not here
		request.Blobless, request.Thin = true, false
	}
	sent, err := f.session.Fetch(ctx, request)
	if err != nil {
		return err
	}
	if err = errors.Join(f.keep(ctx, sent), sent.Close()); err != nil {
		return fmt.Errorf("store pack: %w", err)
	}
	if f.partial {
		return f.checkTrees(ctx, wants)
	}
	return nil
}

// keep stores what was sent as soon as memory and disk have room for it.
func (f *fetching) keep(ctx context.Context, sent io.Reader) error {
	admitted, err := pack.Admit(ctx, filepath.Join(f.dir, "objects", "pack"), f.draft.Limit(sent), f.git.memory)
	if err != nil {
		return err
	}
	return errors.Join(f.store(ctx, admitted), admitted.Close())
}

// tolerated are defects of objects that harm nobody, and that real repositories have in their old
// history.
var tolerated = []string{
	"badDate", "badDateOverflow", "badEmail", "badName", "badTimezone", "missingEmail", "missingNameBeforeEmail",
	"missingSpaceBeforeDate", "missingSpaceBeforeEmail", "missingTaggerEntry", "multipleAuthors", "nulInCommit", "zeroPaddedDate",
	"zeroPaddedFilemode", "badTagName",
}

// indexing keeps git within the admitted memory: git streams large files instead of holding them,
// and drops delta bases early.
var indexing = []string{"-c", "core.bigFileThreshold=16m", "-c", "core.deltaBaseCacheLimit=32m"}

// store has git check and index a pack. What the pack leans on outside of it is added to it.
func (f *fetching) store(ctx context.Context, sent io.Reader) error {
	arguments := slices.Concat(indexing, []string{"index-pack", "--stdin", "--fix-thin"})
	if !f.partial { // git has no check but one that wants all blobs
		arguments = append(arguments, "--strict="+strings.Join(tolerated, "=ignore,")+"=ignore")
	}
	run := f.git.program.command(ctx, f.dir, arguments...)
	var printed bytes.Buffer
	run.cmd.Stdout = &printed
	stdin, err := run.cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start git: %w", err)
	}
	if err := run.start(); err != nil {
		return fmt.Errorf("start git: %w", err)
	}
	source := &witness{Reader: sent}
	_, broken := io.Copy(stdin, source)
	broken = errors.Join(broken, stdin.Close())
	ended := run.wait()
	switch {
	case source.err != nil: // git was handed half a pack
		return source.err
	case ended == nil && broken != nil:
		return fmt.Errorf("hand over pack: %w", broken)
	}
	if _, ok := errors.AsType[*exitError](ended); ok {
		return fmt.Errorf("%w: %w", uploadpack.ErrBroken, ended)
	}
	f.stored = strings.TrimPrefix(strings.TrimSpace(printed.String()), "pack\t")
	return ended
}

// witness remembers why reading ended.
type witness struct {
	io.Reader
	err error
}

// Read implements io.Reader.
func (w *witness) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}
