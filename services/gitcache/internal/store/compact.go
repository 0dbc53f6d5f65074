// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

const (
	// examineEvery is the time between two searches for objects that no ref reaches.
	examineEvery = 7 * 24 * time.Hour
	// worthwhile is the share of a mirror that has to be unreachable to be dropped.
	worthwhile = 0.25
	// walkCost is the memory for each object while the reachable ones are collected.
	walkCost = 96
)

// errOvertaken means that the mirror was replaced while it was being compacted.
var errOvertaken = errors.New("mirror was replaced meanwhile")

// Compact implements [mirror.Storage].
//
// A fetch leaves a pack of its own. When there are more than a few, the small ones become one; see
// planGeometric. Large packs are linked. From time to time objects that no ref reaches are dropped;
// see choose.
//
// Everything happens in a new generation. Until the state names it the old one counts; what a crash
// leaves of either is swept when the mirror is loaded next.
func (s *Store) Compact(
	ctx context.Context, uid string, enter func(context.Context) (leave func(), err error),
) (mirror.Compaction, error) {
	dir, ok := s.generations.enter(uid)
	if !ok {
		return mirror.Compaction{}, nil
	}
	defer s.leave(context.WithoutCancel(ctx), dir)
	c := &compaction{store: s, uid: uid, home: filepath.Dir(dir), from: dir}
	done, err := c.run(ctx, enter)
	if err != nil {
		return mirror.Compaction{}, fmt.Errorf("compact mirror: %w", err)
	}
	return done, nil
}

// compaction is one mirror that gets fewer packs. Only run is called from outside.
type compaction struct {
	store *Store
	uid   string
	home  string
	from  string // the generation that was current at the beginning

	packs []packFile // of from, at the beginning
	state state      // at the beginning
	plan  plan
	draft *Draft
}

func (c *compaction) run(ctx context.Context, enter func(context.Context) (leave func(), err error)) (mirror.Compaction, error) {
	var err error
	if c.packs, err = listPacks(c.from); err != nil || c.packs == nil {
		return mirror.Compaction{}, err
	}
	if c.state, err = readState(c.home); err != nil {
		return mirror.Compaction{}, err
	}
	if err := c.choose(ctx); err != nil || len(c.plan.merge) == 0 {
		return mirror.Compaction{}, err
	}
	started := time.Now()
	if c.draft, err = c.store.Draft(c.uid, c.state.content(), true); err != nil {
		return mirror.Compaction{}, err
	}
	defer c.draft.Close()
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

// choose decides what to do. Once a week, if refs moved, it finds out what they reach. Objects that
// neither the refs nor the refs of a week ago reach are dropped, if they are a good part of the
// mirror. A commit therefore stays for a week at least, because a caller may still name it by its
// id.
func (c *compaction) choose(ctx context.Context) error {
	c.plan = planGeometric(c.packs)
	var last examination
	if err := readJSON(filepath.Join(c.home, examinedFile), &last); err != nil {
		return c.writeExamination(c.state.Refs) // for the first time, or after damage: the week begins now
	}
	if time.Since(last.At) < examineEvery || !c.state.ChangedAt.After(last.At) {
		return nil
	}
	release, err := c.store.params.Limits.acquire(ctx, totalObjects(c.packs)*walkCost)
	if err != nil {
		return err
	}
	defer release()
	objects, err := c.store.Objects(c.from)
	if err != nil {
		return err
	}
	keep := objectSet{}
	err = objects.Reachable(ctx, slices.Concat(tips(c.state.Refs), last.Tips), keep.add)
	if err = errors.Join(err, objects.Close()); err != nil {
		return fmt.Errorf("find what refs reach: %w", err)
	}
	lost, err := keep.missedBytes(c.packs)
	if err != nil {
		return err
	}
	if float64(lost) < worthwhile*float64(totalSize(c.packs)) {
		return c.writeExamination(c.state.Refs)
	}
	c.plan = plan{merge: c.packs, keep: keep}
	return nil
}

func (c *compaction) writeExamination(refs mirror.Refs) error {
	return writeJSON(filepath.Join(c.home, examinedFile), examination{At: time.Now(), Tips: tips(refs)})
}

// build fills the new generation: with links, and with the new pack.
func (c *compaction) build(ctx context.Context) error {
	if err := c.draft.reserve(totalSize(c.plan.merge)); err != nil {
		return err
	}
	fault := c.store.params.Limits.fault
	if err := errors.Join(linkAll(c.plan.link, c.draft.dir), fault("linked")); err != nil {
		return err
	}
	return errors.Join(c.merge(ctx), fault("merged"))
}

func (c *compaction) merge(ctx context.Context) error {
	release, err := c.store.params.Limits.acquire(ctx, totalObjects(c.plan.merge)*pack.MergeCost)
	if err != nil {
		return err
	}
	defer release()
	params := pack.MergeParams{Dir: packFolder(c.draft.dir)}
	for _, p := range c.plan.merge {
		params.Packs = append(params.Packs, p.path)
	}
	if c.plan.keep != nil {
		params.Keep = c.plan.keep.has
	}
	made, err := pack.Merge(ctx, params)
	switch {
	case errors.Is(err, pack.ErrEmpty):
		return nil
	case err != nil || c.plan.keep == nil:
		return err
	}
	return c.plan.keep.checkIndex(filepath.Join(params.Dir, made.Name+".idx"))
}

// commit makes the new generation the current one, with content that was fetched in the meantime.
// There is no other writer of the mirror while it runs.
func (c *compaction) commit(ctx context.Context) (state, error) {
	if c.store.generations.get(c.uid) != c.from {
		return state{}, errOvertaken
	}
	now, err := readState(c.home)
	if err != nil {
		return state{}, err
	}
	if c.plan.keep != nil && now.content().Fingerprint() != c.state.content().Fingerprint() {
		return state{}, errOvertaken // a ref may lead again to a dropped object
	}
	if err := c.linkNew(); err != nil {
		return state{}, err
	}
	fault := c.store.params.Limits.fault
	st, err := c.draft.commit(now.content(), func(next state) error {
		return errors.Join(c.store.verify(ctx, c.draft.dir, next), fault("verified"))
	})
	if err != nil {
		return state{}, err
	}
	if err := fault("switched"); err != nil {
		return state{}, err
	}
	c.store.retire(ctx, c.home, c.draft.dir)
	if c.plan.keep != nil {
		err = c.writeExamination(st.Refs)
	}
	return st, err
}

// linkNew adds the packs that arrived after the compaction began.
func (c *compaction) linkNew() error {
	now, err := listPacks(c.from)
	if err != nil {
		return err
	}
	arrived := slices.DeleteFunc(now, func(p packFile) bool { return slices.Contains(c.packs, p) })
	return linkAll(arrived, c.draft.dir)
}

// linkAll adds packs to a generation, each after its index.
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
