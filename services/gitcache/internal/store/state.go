// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/kit/durable"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// state is the content of state.json: the mirror as of its last fetch that moved refs. A replica
// whose policy is not the content's verifies the refs again before it delivers any.
type state struct {
	Generation string `json:"generation"`
	mirror.Content
	Packs map[string]int64 `json:"packs"` // name → bytes of every pack and index; in the place of Content's
}

// freshness is the content of fresh.json: a later poll found nothing new. It is a file of its own
// because it is written after every such poll, and the state of a large mirror is large.
type freshness struct {
	FreshAt time.Time `json:"fresh_at"`
	Epoch   uint64    `json:"epoch"`
}

// examination is the content of examined.json: when Compact last looked for objects that no ref
// reaches, and what the refs were then.
type examination struct {
	At   time.Time `json:"at"`
	Tips []string  `json:"tips"`
}

// content returns the content with the size that the packs have.
func (s state) content() mirror.Content {
	c := s.Content
	c.DiskBytes, c.Packs = s.bytes(), s.packs()
	return c
}

// packs counts them; each has an index beside it.
func (s state) packs() int {
	n := 0
	for name := range s.Packs {
		if strings.HasSuffix(name, ".pack") {
			n++
		}
	}
	return n
}

func (s state) bytes() int64 {
	var sum int64
	for _, size := range s.Packs {
		sum += size
	}
	return sum
}

// tips returns the objects that refs name, and the objects that are delivered instead of held ones.
func tips(refs mirror.Refs) []string {
	var ids []string
	for _, ref := range allRefs(refs) {
		ids = append(ids, ref.Object)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// readState reads state.json and, where that is later, fresh.json. The error matches os.ErrNotExist
// where there is no mirror.
func readState(home string) (state, error) {
	var s state
	if err := readJSON(filepath.Join(home, stateFile), &s); err != nil {
		return state{}, err
	}
	var f freshness
	if err := readJSON(filepath.Join(home, freshFile), &f); err == nil && f.FreshAt.After(s.FreshAt) {
		s.FreshAt, s.Epoch = f.FreshAt, f.Epoch
	}
	if !strings.HasPrefix(s.Generation, generationPrefix) || s.Generation != filepath.Base(s.Generation) {
		return state{}, fmt.Errorf("read mirror state: generation %q", s.Generation)
	}
	return s, nil
}

func readJSON(path string, into any) error {
	if err := durable.ReadJSON(path, into); err != nil {
		return fmt.Errorf("read mirror state: %w", err)
	}
	return nil
}

func writeJSON(path string, v any) error {
	if err := durable.WriteJSON(path, temporaryPrefix, v); err != nil {
		return fmt.Errorf("write mirror state: %w", err)
	}
	return nil
}
