// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

const (
	// maxPacks is how many packs a mirror may have before small ones are merged.
	maxPacks = 20
	// growth is how many times larger than all smaller ones together a pack has to be in order to
	// stay as it is.
	growth = 2
	// examineEvery is the time between two looks for what no ref reaches.
	examineEvery = 7 * 24 * time.Hour
	// worthwhile is the share of a mirror that has to be unreachable to be dropped.
	worthwhile = 0.25
	// walkCost is the memory for each object while what refs reach is collected.
	walkCost = 96

	examinedFile = "examined.json"
)

// packFile is a pack on disk.
type packFile struct {
	path    string
	size    int64
	objects int64
}

// listPacks lists the packs of a generation, the largest first. Nil: they are not of a kind that
// can be merged.
func listPacks(dir string) ([]packFile, error) {
	if !fits(dir, formatSHA1) {
		return nil, nil
	}
	names, err := os.ReadDir(packFolder(dir))
	if err != nil {
		return nil, err
	}
	packs := []packFile{}
	for _, e := range names {
		switch ending := filepath.Ext(e.Name()); {
		case strings.HasPrefix(e.Name(), temporaryPack), ending == ".idx", ending == ".rev":
		case ending == ".pack":
			p, err := describePack(filepath.Join(packFolder(dir), e.Name()), e)
			if err != nil {
				return nil, err
			}
			packs = append(packs, p)
		default: // a mark that git sets for packs to be left as they are
			return nil, nil
		}
	}
	slices.SortFunc(packs, func(a, b packFile) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.path, b.path))
	})
	return packs, nil
}

func describePack(path string, e fs.DirEntry) (packFile, error) {
	info, err := e.Info()
	if err != nil {
		return packFile{}, err
	}
	index, err := os.Stat(strings.TrimSuffix(path, ".pack") + ".idx")
	if err != nil {
		return packFile{}, err
	}
	return packFile{path: path, size: info.Size(), objects: pack.Objects(index.Size())}, nil
}

func total(packs []packFile) (sum int64) {
	for _, p := range packs {
		sum += p.size
	}
	return sum
}

func objects(packs []packFile) (sum int64) {
	for _, p := range packs {
		sum += p.objects
	}
	return sum
}

func contains(packs []packFile, path string) bool {
	return slices.ContainsFunc(packs, func(p packFile) bool { return p.path == path })
}

// plan says which packs become one, and which stay.
type plan struct {
	link  []packFile
	merge []packFile // none: there is nothing to do
	keep  keep       // what the new pack holds; nil: all
}

// geometric plans to merge the packs that are small beside the others. They are given largest
// first.
func geometric(packs []packFile) plan {
	if len(packs) <= maxPacks {
		return plan{}
	}
	after := int64(0) // bytes of the packs behind this one
	first := len(packs)
	for i, p := range slices.Backward(packs) {
		if p.size < growth*after {
			first = i
		}
		after += p.size
	}
	first = min(first, len(packs)-2) // the packs are many: two at least
	return plan{link: packs[:first], merge: packs[first:]}
}

// examination is when a mirror was last searched for what no ref reaches, and what the refs were
// then.
type examination struct {
	At   time.Time `json:"at"`
	Tips []string  `json:"tips"`
}

// sort decides what to do. Once a week, if refs moved, it finds out what they reach. What does not
// count among that for two weeks running goes, if it is a good part of the mirror: a commit is left
// for a week at least, since somebody may still name it by its id.
func (c *compaction) sort(ctx context.Context) error {
	c.plan = geometric(c.packs)
	var last examination
	if err := readJSON(filepath.Join(c.home, examinedFile), &last); err != nil {
		return c.examined(c.state.Refs) // for the first time, or after damage: from here on
	}
	if time.Since(last.At) < examineEvery || !c.state.ChangedAt.After(last.At) {
		return nil
	}
	release, err := c.store.admit(ctx, objects(c.packs)*walkCost)
	if err != nil {
		return err
	}
	defer release()
	objects, err := c.store.Objects(c.from)
	if err != nil {
		return err
	}
	keep := keep{}
	err = objects.Reachable(ctx, slices.Concat(tips(c.state.Refs), last.Tips), keep.add)
	if err = errors.Join(err, objects.Close()); err != nil {
		return fmt.Errorf("find what refs reach: %w", err)
	}
	lost, err := keep.lost(c.packs)
	if err != nil {
		return err
	}
	if float64(lost) < worthwhile*float64(total(c.packs)) {
		return c.examined(c.state.Refs)
	}
	c.plan = plan{merge: c.packs, keep: keep}
	return nil
}

func (c *compaction) examined(refs mirror.Refs) error {
	return writeJSON(filepath.Join(c.home, examinedFile), examination{At: time.Now(), Tips: tips(refs)})
}

// tips are the objects that refs name, and those that are delivered instead of what is held back.
func tips(refs mirror.Refs) []string {
	var ids []string
	for _, ref := range allRefs(refs) {
		ids = append(ids, ref.Object)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// keep are the objects that stay.
type keep map[pack.ID]struct{}

// add reports whether the object was not among them.
func (k keep) add(id string) bool {
	parsed, ok := pack.ParseID(id)
	if _, known := k[parsed]; known || !ok {
		return false
	}
	k[parsed] = struct{}{}
	return true
}

func (k keep) has(id pack.ID) bool {
	_, ok := k[id]
	return ok
}

// lost is how many bytes of the packs are not kept.
func (k keep) lost(packs []packFile) (sum int64, err error) {
	for _, p := range packs {
		sizes, err := pack.Sizes(p.path)
		if err != nil {
			return 0, err
		}
		for id, size := range sizes {
			if !k.has(id) {
				sum += size
			}
		}
	}
	return sum, nil
}

// within makes sure that an index has all of them.
func (k keep) within(path string) error {
	if k == nil {
		return nil
	}
	index, err := pack.ReadIndex(path)
	if err != nil {
		return err
	}
	for id := range k {
		if _, ok := index.Find(id); !ok {
			return fmt.Errorf("object %s is not in the new pack", id)
		}
	}
	return nil
}
