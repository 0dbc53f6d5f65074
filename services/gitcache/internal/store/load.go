// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Load implements [mirror.Storage]. A damaged mirror is removed, and one for another back end stays
// as it is; both count as none.
func (s *Store) Load(ctx context.Context, uid string) (mirror.Content, error) {
	home, err := mirror.Folder(s.params.Dir, uid)
	if err != nil {
		return mirror.Content{}, err
	}
	st, err := readState(home)
	if errors.Is(err, os.ErrNotExist) {
		return mirror.Content{}, errors.Join(mirror.ErrNoMirror, s.Remove(ctx, uid))
	}
	dir := filepath.Join(home, st.Generation)
	if err == nil {
		err = s.verify(ctx, dir, st)
	}
	switch {
	case ctx.Err() != nil:
		return mirror.Content{}, context.Cause(ctx)
	case errors.Is(err, ErrForeign):
		s.params.Logger.WarnContext(ctx, "mirror not readable by this back end", slog.String("leat.repository.uid", uid), slog.Any("error", err))
		return mirror.Content{}, mirror.ErrNoMirror
	case err != nil:
		s.params.Logger.WarnContext(ctx, "damaged mirror dropped", slog.String("leat.repository.uid", uid), slog.Any("error", err))
		return mirror.Content{}, errors.Join(mirror.ErrNoMirror, s.Remove(ctx, uid))
	}
	if err := sweep(home, st.Generation); err != nil {
		return mirror.Content{}, fmt.Errorf("sweep mirror: %w", err)
	}
	s.makeCurrent(uid, dir, st)
	return st.content(), nil
}

// Remove implements [mirror.Storage]. Readers that are open can continue.
func (s *Store) Remove(_ context.Context, uid string) error {
	home, err := mirror.Folder(s.params.Dir, uid)
	if err != nil {
		return err
	}
	s.generations.drop(uid)
	s.descriptions.forget(home)
	if err := os.RemoveAll(home); err != nil {
		return fmt.Errorf("remove mirror: %w", err)
	}
	s.disk.remove(uid)
	return nil
}
