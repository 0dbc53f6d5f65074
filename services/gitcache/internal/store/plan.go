// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

const (
	// maxPacks is how many packs a mirror may have before small ones are merged.
	maxPacks = 20
	// growth is how many times larger than all smaller ones together a pack has to be in order to
	// stay as it is.
	growth = 2
)

// packFile is a pack on disk. It is a comparable value.
type packFile struct {
	path    string
	size    int64
	objects int64
}

// listPacks lists the packs of a generation, the largest first. Nil: they are not of a kind that
// can be merged.
func listPacks(dir string) ([]packFile, error) {
	if cfg, err := readConfig(dir); err != nil || cfg.isSHA256 {
		return nil, err
	}
	entries, err := os.ReadDir(packFolder(dir))
	if err != nil {
		return nil, err
	}
	packs := []packFile{}
	for _, e := range entries {
		switch ending := filepath.Ext(e.Name()); {
		case strings.HasPrefix(e.Name(), temporaryPack), ending == ".idx", ending == ".rev":
		case ending == ".pack":
			p, err := readPackFile(filepath.Join(packFolder(dir), e.Name()), e)
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

func readPackFile(path string, e fs.DirEntry) (packFile, error) {
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

func totalSize(packs []packFile) (sum int64) {
	for _, p := range packs {
		sum += p.size
	}
	return sum
}

func totalObjects(packs []packFile) (sum int64) {
	for _, p := range packs {
		sum += p.objects
	}
	return sum
}

// plan decides which packs become one, and which stay.
type plan struct {
	link  []packFile
	merge []packFile // none: there is nothing to do
	keep  objectSet  // what the new pack holds; nil: all
}

// planGeometric plans to merge the packs that are small beside the others, so that a pack is
// written again only a few times in its life, however many fetches follow. The packs are given
// largest first.
func planGeometric(packs []packFile) plan {
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

// objectSet is a set of objects.
type objectSet map[pack.ID]struct{}

// add adds an object, and reports whether it is new to the set.
func (s objectSet) add(id string) bool {
	parsed, ok := pack.ParseID(id)
	if !ok || s.has(parsed) {
		return false
	}
	s[parsed] = struct{}{}
	return true
}

func (s objectSet) has(id pack.ID) bool {
	_, ok := s[id]
	return ok
}

// missedBytes returns how many bytes of the packs are objects outside the set.
func (s objectSet) missedBytes(packs []packFile) (sum int64, err error) {
	for _, p := range packs {
		sizes, err := pack.Sizes(p.path)
		if err != nil {
			return 0, err
		}
		for id, size := range sizes {
			if !s.has(id) {
				sum += size
			}
		}
	}
	return sum, nil
}

// checkIndex returns an error unless the index at path has all objects of the set.
func (s objectSet) checkIndex(path string) error {
	index, err := pack.ReadIndex(path)
	if err != nil {
		return err
	}
	for id := range s {
		if _, ok := index.Find(id); !ok {
			return fmt.Errorf("object %s is not in the new pack", id)
		}
	}
	return nil
}
