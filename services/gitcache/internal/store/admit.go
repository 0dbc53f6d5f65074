// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// keptPrefix is where the git command finds what is delivered for a ref that is held back. It also
// keeps tools that drop unreachable objects from dropping these.
const keptPrefix = "refs/leat/"

// admit asks the repository's policy what of c is delivered.
func (d *Draft) admit(ctx context.Context, p mirror.FetchParams, c mirror.Content) (mirror.Content, error) {
	if p.Admit == nil {
		return c, nil
	}
	reader, err := d.store.Objects(d.dir)
	if err != nil {
		return mirror.Content{}, fmt.Errorf("open what was fetched: %w", err)
	}
	c, err = p.Admit(ctx, reader, c)
	return c, errors.Join(err, reader.Close())
}

// SaveDelivery implements [mirror.Storage].
func (s *Store) SaveDelivery(_ context.Context, uid string, c mirror.Content) error {
	home, err := s.home(uid)
	if err != nil {
		return err
	}
	st, err := readState(home)
	if err != nil {
		return err
	}
	st.Refs, st.Policy = c.Refs, c.Policy
	if err := writeRefs(filepath.Join(home, st.Generation), c); err != nil {
		return fmt.Errorf("write refs: %w", err)
	}
	return writeJSON(filepath.Join(home, stateFile), st)
}

// allRefs are the refs, by name, and beside those that are held back what is delivered instead.
func allRefs(refs mirror.Refs) mirror.Refs {
	all := slices.Clone(refs)
	for _, ref := range refs {
		if ref.GoodObject != "" {
			all = append(all, mirror.Ref{
				Name: keptPrefix + strings.TrimPrefix(ref.Name, "refs/"), Object: ref.GoodObject, Commit: ref.GoodCommit,
			})
		}
	}
	return mirror.NewRefs(all)
}
