// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"path/filepath"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// SaveDelivery implements [mirror.Storage].
func (s *Store) SaveDelivery(_ context.Context, uid string, c mirror.Content) error {
	home, err := mirror.Folder(s.params.Dir, uid)
	if err != nil {
		return err
	}
	st, err := readState(home)
	if err != nil {
		return err
	}
	st.Refs, st.Policy = c.Refs, c.Policy
	if err := writeRefs(filepath.Join(home, st.Generation), c); err != nil {
		return err
	}
	return writeJSON(filepath.Join(home, stateFile), st)
}

// Unchanged records only that the mirror was found equal to the upstream. It asks the guard first.
func (s *Store) Unchanged(p mirror.FetchParams) (mirror.Content, error) {
	if err := p.Guard(); err != nil {
		return mirror.Content{}, err
	}
	c := p.Have
	c.FreshAt, c.Epoch = time.Now(), p.Epoch
	return c, s.writeFreshness(p.Definition.UID, c)
}

// Confirm implements [mirror.Storage].
func (s *Store) Confirm(_ context.Context, uid string, c mirror.Content) error {
	return s.writeFreshness(uid, c)
}

func (s *Store) writeFreshness(uid string, c mirror.Content) error {
	home, err := mirror.Folder(s.params.Dir, uid)
	if err != nil {
		return err
	}
	return writeJSON(filepath.Join(home, freshFile), freshness{FreshAt: c.FreshAt, Epoch: c.Epoch})
}
