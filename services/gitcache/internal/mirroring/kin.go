// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"slices"
)

// partOrphans takes those out whose parent is not there: it was deleted, and they go with it.
func partOrphans(defs []mirror.Definition) (kept, orphans []mirror.Definition) {
	type identity struct{ name, uid string }
	known := make(map[identity]bool, len(defs))
	for _, def := range defs {
		known[identity{def.Name, def.UID}] = true
	}
	for _, def := range defs {
		if def.Parent != "" && !known[identity{def.Parent, def.ParentUID}] {
			orphans = append(orphans, def)
			continue
		}
		kept = append(kept, def)
	}
	return kept, orphans
}

// Orphans returns the definitions of submodules whose parent is gone. They are not part of the set.
func (s *Set) Orphans() []mirror.Definition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.orphans)
}

// Borrow copies what another replica's mirror holds, the owner's if there is one, whether or not this replica should keep
// a copy. ErrNoMirror: none holds anything.
func (r *Repository) Borrow(ctx context.Context) error {
	owner, err := r.Owner(ctx)
	if err != nil {
		return err
	}
	lenders := []string{owner}
	if owner == "" {
		lenders = r.Others()
	}
	for _, lender := range lenders {
		if err = r.catchUpWith(ctx, lender); err == nil {
			break
		}
	}
	if _, missing := r.Content(); err == nil && missing != nil {
		return mirror.ErrNoMirror
	}
	return err
}
