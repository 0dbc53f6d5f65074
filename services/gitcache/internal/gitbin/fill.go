// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitbin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack"
)

// Fill implements [mirror.Upstream].
func (g *Git) Fill(ctx context.Context, p mirror.FetchParams, ids []string) (mirror.Content, error) {
	return uploadpack.Fetch(ctx, p, func(ctx context.Context, p mirror.FetchParams) (mirror.Content, error) { return g.fill(ctx, p, ids) })
}

func (g *Git) fill(ctx context.Context, p mirror.FetchParams, ids []string) (mirror.Content, error) {
	draft, err := g.Draft(p.Definition.UID, p.Have, false)
	if err != nil {
		return mirror.Content{}, err
	}
	defer draft.Close()
	if draft.Empty() {
		return mirror.Content{}, mirror.ErrNoMirror
	}
	f := &fetching{git: g, params: p, partial: true, draft: draft, dir: draft.Dir()}
	absent, err := f.absent(ctx, ids)
	if err != nil {
		return mirror.Content{}, err
	}
	if len(absent) == 0 { // somebody else was faster
		return p.Have, nil
	}
	if err := f.fetchBlobs(ctx, absent); err != nil {
		return mirror.Content{}, err
	}
	return draft.Fill(p.Guard)
}

// fetchBlobs asks for blobs by their ids, and makes sure that they came.
func (f *fetching) fetchBlobs(ctx context.Context, ids []string) error {
	s, err := f.git.Dial(ctx, f.params)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	if _, err := s.Advertise(ctx); err != nil {
		return err
	}
	sent, err := s.Fetch(ctx, uploadpack.Request{Wants: ids})
	if err != nil {
		return err
	}
	if err = errors.Join(f.keep(ctx, sent), sent.Close()); err != nil {
		return fmt.Errorf("store pack: %w", err)
	}
	absent, err := f.absent(ctx, ids)
	if err == nil && len(absent) > 0 {
		err = fmt.Errorf("%w: the pack lacks %s", uploadpack.ErrBroken, absent[0])
	}
	return err
}

func (f *fetching) absent(ctx context.Context, ids []string) ([]string, error) {
	stored, err := f.git.Objects(f.dir)
	if err != nil {
		return nil, err
	}
	absent, err := stored.Absent(ctx, ids)
	return absent, errors.Join(err, stored.Close())
}

// checkTrees makes sure that what was wanted came with all of its history and trees, as far as the
// mirror did not hold them.
func (f *fetching) checkTrees(ctx context.Context, wants []string) error {
	var tips strings.Builder
	for _, id := range wants {
		tips.WriteString(id + "\n")
	}
	for _, ref := range f.params.Have.Refs {
		tips.WriteString("^" + ref.Object + "\n")
	}
	run := f.git.program.command(ctx, f.dir, "rev-list", "--objects", "--filter=blob:none", "--quiet", "--stdin")
	run.cmd.Stdin = strings.NewReader(tips.String())
	if err := run.start(); err != nil {
		return fmt.Errorf("start git: %w", err)
	}
	ended := run.wait()
	if _, ok := errors.AsType[*exitError](ended); ok {
		ended = fmt.Errorf("%w: the pack is not complete: %w", uploadpack.ErrBroken, ended)
	}
	if ended != nil { // the next fetch would take what is there for complete
		return errors.Join(ended, f.dropPack())
	}
	return nil
}

// storedForm is what git calls a pack.
var storedForm = regexp.MustCompile(`^[0-9a-f]{40,64}$`)

// dropPack removes the pack that was stored last, which no ref of the mirror needs.
func (f *fetching) dropPack() error {
	if !storedForm.MatchString(f.stored) {
		return fmt.Errorf("git named the pack %q", f.stored)
	}
	var errs []error
	for _, ending := range []string{".pack", ".rev", ".idx"} {
		err := os.Remove(filepath.Join(f.dir, "objects", "pack", "pack-"+f.stored+ending))
		if !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
