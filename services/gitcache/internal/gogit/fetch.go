// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Fetch implements [mirror.Upstream].
func (g *Git) Fetch(ctx context.Context, p mirror.FetchParams) (mirror.Content, error) {
	c, err := g.fetch(ctx, p)
	if err == nil {
		return c, nil
	}
	if gone := p.Guard(); gone != nil {
		return mirror.Content{}, gone
	}
	if ctx.Err() != nil {
		return mirror.Content{}, fmt.Errorf("fetch: %w", context.Cause(ctx))
	}
	if quiet, ok := errors.AsType[*mirror.QuietError](err); ok {
		return mirror.Content{}, quiet
	}
	return mirror.Content{}, explain(err, p.Definition)
}

func (g *Git) fetch(ctx context.Context, p mirror.FetchParams) (mirror.Content, error) {
	home, err := g.home(p.Definition.UID)
	if err != nil {
		return mirror.Content{}, err
	}
	s, err := g.dial(ctx, p)
	if err != nil {
		return mirror.Content{}, err
	}
	defer func() { _ = s.Close() }()
	offer, err := s.advertise(ctx)
	if err != nil {
		return mirror.Content{}, err
	}
	f := &fetching{git: g, params: p, home: home, session: s, offer: offer}
	if p.Have.Exists() && offer.equals(p.Have) {
		return f.unchanged()
	}
	return f.run(ctx)
}

// fetching is one fetch that found refs moved.
type fetching struct {
	git     *Git
	params  mirror.FetchParams
	home    string
	session session
	offer   *offer

	dir   string // the bare repository that is written to
	fresh bool   // dir is a new one, under a temporary name
}

// unchanged keeps only that the mirror was found equal to the upstream.
func (f *fetching) unchanged() (mirror.Content, error) {
	if err := f.params.Guard(); err != nil {
		return mirror.Content{}, err
	}
	c := f.params.Have
	c.FreshAt, c.Epoch = time.Now(), f.params.Epoch
	return c, writeJSON(filepath.Join(f.home, freshFile), freshness{FreshAt: c.FreshAt, Epoch: c.Epoch})
}

func (f *fetching) run(ctx context.Context) (mirror.Content, error) {
	if err := f.prepare(); err != nil {
		return mirror.Content{}, err
	}
	storage := openStorage(f.dir)
	defer func() { _ = storage.Close() }()
	err := f.receive(ctx, storage)
	if err == nil {
		err = f.params.Guard()
	}
	if err != nil {
		f.discard()
		return mirror.Content{}, err
	}
	return f.commit(ctx)
}

// prepare opens the current generation, or begins a new one under a temporary name.
func (f *fetching) prepare() error {
	dir, ok := f.git.generation(f.params.Definition.UID)
	if ok && f.params.Have.Exists() {
		f.dir = dir
		return nil
	}
	if err := os.MkdirAll(f.home, 0o700); err != nil {
		return fmt.Errorf("make mirror: %w", err)
	}
	dir, err := os.MkdirTemp(f.home, temporaryPattern)
	if err != nil {
		return fmt.Errorf("make mirror: %w", err)
	}
	f.dir, f.fresh = dir, true
	f.params.Have = mirror.Content{}
	storage := openStorage(dir)
	defer func() { _ = storage.Close() }()
	if _, err := git.Init(storage, nil); err != nil {
		return fmt.Errorf("make mirror: %w", err)
	}
	return nil
}

// discard removes what a failed fetch wrote.
func (f *fetching) discard() {
	if f.fresh {
		_ = os.RemoveAll(f.dir) // what stays is swept at the next start
		return
	}
	_ = sweepPacks(f.dir)
}

// receive asks for what is missing, stores it, and settles which refs lead to commits.
func (f *fetching) receive(ctx context.Context, storage *filesystem.Storage) error {
	wants := f.wants(storage)
	if len(wants) > 0 {
		pack, err := f.session.fetch(ctx, f.offer.request(wants, f.haves(storage)))
		if err != nil {
			return err
		}
		err = packfile.WritePackfileToObjectStorage(storage, contextReader{ctx, pack})
		if err = errors.Join(err, pack.Close()); err != nil {
			return fmt.Errorf("store pack: %w", err)
		}
	}
	reopened := openStorage(f.dir) // sees the new pack whatever the first one remembers
	defer func() { _ = reopened.Close() }()
	return f.offer.settle(reopened, f.params.Have.Refs)
}

// wants are the advertised objects that the mirror does not have.
func (f *fetching) wants(storage *filesystem.Storage) []plumbing.Hash {
	seen := map[string]bool{}
	for _, ref := range f.params.Have.Refs {
		seen[ref.Object] = true
	}
	var wants []plumbing.Hash
	for _, id := range f.offer.objects() {
		if seen[id] {
			continue
		}
		seen[id] = true
		hash := plumbing.NewHash(id)
		if storage.HasEncodedObject(hash) != nil {
			wants = append(wants, hash)
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
func (f *fetching) haves(storage *filesystem.Storage) []plumbing.Hash {
	seen := map[plumbing.Hash]bool{}
	var haves []plumbing.Hash
	add := func(h plumbing.Hash) bool {
		if !seen[h] && len(haves) < maxHaves {
			seen[h] = true
			haves = append(haves, h)
		}
		return len(haves) < maxHaves
	}
	for _, name := range f.params.Have.Refs.Changed(f.offer.refs) {
		if ref, ok := f.params.Have.Refs.Get(name); ok {
			ancestors(storage, plumbing.NewHash(ref.Commit), add)
		}
	}
	for _, ref := range f.params.Have.Refs {
		if ref.Commit != "" && !add(plumbing.NewHash(ref.Commit)) {
			break
		}
	}
	return haves
}

func ancestors(storage *filesystem.Storage, from plumbing.Hash, add func(plumbing.Hash) bool) {
	commit, err := object.GetCommit(storage, from)
	if err != nil {
		return // one have less costs bytes, not correctness
	}
	left := maxAncestors
	_ = object.NewCommitPreorderIter(commit, nil, nil).ForEach(func(c *object.Commit) error {
		left--
		if !add(c.Hash) || left == 0 {
			return io.EOF // any error ends the walk
		}
		return nil
	})
}

// commit makes what was received the mirror's content: packs first, then the repository's own refs for other tools, then
// the state.
func (f *fetching) commit(ctx context.Context) (mirror.Content, error) {
	packs, err := syncPacks(f.dir)
	if err != nil {
		return mirror.Content{}, fmt.Errorf("sync packs: %w", err)
	}
	if err := writeRefs(f.dir, f.offer); err != nil {
		return mirror.Content{}, fmt.Errorf("write refs: %w", err)
	}
	if err := f.promote(); err != nil {
		return mirror.Content{}, fmt.Errorf("switch generation: %w", err)
	}
	now := time.Now()
	s := state{
		Generation: filepath.Base(f.dir), Refs: f.offer.refs, Head: f.offer.head, DefaultBranch: f.offer.defaultBranch,
		FreshAt: now, ChangedAt: now, Epoch: f.params.Epoch, Packs: packs,
	}
	if err := writeJSON(filepath.Join(f.home, stateFile), s); err != nil {
		return mirror.Content{}, err
	}
	f.git.setGeneration(f.params.Definition.UID, f.dir)
	if err := sweep(f.home, s.Generation); err != nil { // an older generation; what stays is swept at the next start
		f.git.logger.WarnContext(ctx, "old generation not removed", slog.Any("error", err))
	}
	return s.content(), nil
}

// promote gives a new generation its lasting name.
func (f *fetching) promote() error {
	if !f.fresh {
		return nil
	}
	final := filepath.Join(f.home, generationPattern+strings.TrimPrefix(filepath.Base(f.dir), temporaryPattern))
	if err := os.Rename(f.dir, final); err != nil {
		return err
	}
	f.dir, f.fresh = final, false
	return errors.Join(syncDir(f.home), syncDir(filepath.Dir(f.home)))
}

// syncPacks makes all packs durable and returns their sizes. Packs are small in number and immutable, so that syncing one
// again costs nothing.
func syncPacks(dir string) (map[string]int64, error) {
	folder := filepath.Join(dir, "objects", "pack")
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	packs := make(map[string]int64, len(entries))
	for _, e := range entries {
		size, err := syncFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		packs[e.Name()] = size
	}
	if len(entries) == 0 {
		return packs, nil
	}
	return packs, syncDir(folder)
}

func syncFile(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// contextReader ends reading when the context does.
type contextReader struct {
	ctx context.Context //nolint:containedctx // lives as long as one call
	io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(p)
}
