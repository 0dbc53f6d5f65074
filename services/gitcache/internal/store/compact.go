// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// errOvertaken reports that the mirror became another one while it was being compacted.
var errOvertaken = errors.New("mirror was replaced meanwhile")

// Compact implements [mirror.Storage].
//
// A fetch leaves a pack of its own. When there are more than a few, those that are small beside the
// others become one, so that a pack is written again a few times in its life at most, however many
// fetches follow. Large packs are linked. From time to time, what no ref reaches is dropped; see
// [compaction.sort].
//
// Everything happens in a new generation. Until the state names it the old one counts; what a crash
// leaves of either is swept at the next start.
func (s *Store) Compact(
	ctx context.Context, uid string, enter func(context.Context) (leave func(), err error),
) (mirror.Compaction, error) {
	dir, ok := s.enter(uid)
	if !ok {
		return mirror.Compaction{}, nil
	}
	defer s.leave(context.WithoutCancel(ctx), dir)
	c := &compaction{store: s, uid: uid, home: filepath.Dir(dir), from: dir}
	defer c.close(context.WithoutCancel(ctx))
	done, err := c.run(ctx, enter)
	if err != nil {
		return mirror.Compaction{}, fmt.Errorf("compact mirror: %w", err)
	}
	return done, nil
}

// compaction is one mirror that gets fewer packs.
type compaction struct {
	store *Store
	uid   string
	home  string
	from  string // the generation that is current

	packs []packFile
	plan  plan
	state state // as it was at the beginning
	draft *Draft
	held  string // the folder of the draft before it had its lasting name
	taken int64
}

func (c *compaction) run(ctx context.Context, enter func(context.Context) (leave func(), err error)) (mirror.Compaction, error) {
	var err error
	if c.packs, err = listPacks(c.from); err != nil || c.packs == nil {
		return mirror.Compaction{}, err
	}
	if c.state, err = readState(c.home); err != nil {
		return mirror.Compaction{}, err
	}
	if err := c.sort(ctx); err != nil || len(c.plan.merge) == 0 {
		return mirror.Compaction{}, err
	}
	started := time.Now()
	if err := c.build(ctx); err != nil {
		return mirror.Compaction{}, err
	}
	leave, err := enter(ctx)
	if err != nil {
		return mirror.Compaction{}, err
	}
	defer leave()
	after, err := c.commit(ctx)
	if err != nil {
		return mirror.Compaction{}, err
	}
	return mirror.Compaction{
		PacksBefore: len(c.packs), PacksAfter: after.packs(), BytesBefore: c.state.bytes(), BytesAfter: after.bytes(),
		Full: c.plan.keep != nil, Took: time.Since(started),
	}, nil
}

// build makes the new generation: links, and the new pack.
func (c *compaction) build(ctx context.Context) error {
	room := total(c.plan.merge)
	if err := c.store.take(room, false); err != nil {
		return err
	}
	c.taken = room
	draft, err := c.store.Draft(c.uid, c.state.content(), true)
	if err != nil {
		return err
	}
	c.draft, c.held = draft, draft.dir
	c.store.hold(c.held)
	if err := errors.Join(linkAll(c.plan.link, draft.dir), c.store.limits.fault("linked")); err != nil {
		return err
	}
	return errors.Join(c.merge(ctx), c.store.limits.fault("merged"))
}

func (c *compaction) merge(ctx context.Context) error {
	release, err := c.store.admit(ctx, objects(c.plan.merge)*pack.MergeCost)
	if err != nil {
		return err
	}
	defer release()
	paths := make([]string, len(c.plan.merge))
	for i, p := range c.plan.merge {
		paths[i] = p.path
	}
	params := pack.MergeParams{Packs: paths, Dir: packFolder(c.draft.dir)}
	if c.plan.keep != nil {
		params.Keep = c.plan.keep.has
	}
	made, err := pack.Merge(ctx, params)
	if errors.Is(err, pack.ErrEmpty) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.plan.keep.within(filepath.Join(packFolder(c.draft.dir), made.Name+".idx"))
}

// commit makes the new generation the current one, with what was fetched in the meantime. Nobody
// else writes the mirror.
func (c *compaction) commit(ctx context.Context) (state, error) {
	if now, ok := c.store.generation(c.uid); !ok || now != c.from {
		return state{}, errOvertaken
	}
	st, err := readState(c.home)
	if err != nil {
		return state{}, err
	}
	if c.plan.keep != nil && st.content().Fingerprint() != c.state.content().Fingerprint() {
		return state{}, errOvertaken // a ref may have come back to what is not kept
	}
	if err := c.linkNew(); err != nil {
		return state{}, err
	}
	content, err := c.draft.commit(st.content(), func(next state) error {
		return errors.Join(c.store.verify(ctx, c.draft.dir, next), c.store.limits.fault("verified"))
	})
	if err != nil {
		return state{}, err
	}
	if err := c.store.limits.fault("switched"); err != nil {
		return state{}, err
	}
	c.store.retire(ctx, c.home, c.draft.dir)
	if c.plan.keep != nil {
		err = c.examined(content.Refs)
	}
	st, stateErr := readState(c.home)
	return st, errors.Join(err, stateErr)
}

// linkNew adds the packs that came after the compaction began.
func (c *compaction) linkNew() error {
	now, err := listPacks(c.from)
	if err != nil {
		return err
	}
	var arrived []packFile
	for _, p := range now {
		if !contains(c.packs, p.path) {
			arrived = append(arrived, p)
		}
	}
	return linkAll(arrived, c.draft.dir)
}

func (c *compaction) close(ctx context.Context) {
	c.store.giveBack(c.taken)
	if c.draft != nil {
		c.draft.Close()
		c.store.leave(ctx, c.held)
	}
}

// linkAll makes packs be in another generation too, each after its index.
func linkAll(packs []packFile, dir string) error {
	for _, p := range packs {
		for _, ending := range []string{".idx", ".rev", ".pack"} {
			from := strings.TrimSuffix(p.path, ".pack") + ending
			err := os.Link(from, filepath.Join(packFolder(dir), filepath.Base(from)))
			if ending == ".rev" && errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrExist) {
				continue
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
