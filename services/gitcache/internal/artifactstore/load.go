// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package artifactstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Load implements [mirror.Storage]. An artifact that is gone, or has another size, is left out: it is
// fetched again when it is needed.
func (s *Store) Load(ctx context.Context, uid string) (mirror.Content, error) {
	home, err := mirror.Folder(s.params.Dir, uid)
	if err != nil {
		return mirror.Content{}, err
	}
	st, err := readState(home)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			s.params.Logger.WarnContext(ctx, "damaged mirror dropped", slog.String("leat.repository.uid", uid), slog.Any("error", err))
		}
		return mirror.Content{}, errors.Join(mirror.ErrNoMirror, s.Remove(ctx, uid))
	}
	whole := st.without(func(name string) bool {
		info, err := os.Stat(filepath.Join(home, name))
		return err != nil || info.Size() != st.Files[name].Size
	})
	if lost := len(st.Files) - len(whole.Files); lost > 0 {
		s.params.Logger.WarnContext(ctx, "damaged artifacts dropped", slog.String("leat.repository.uid", uid), slog.Int("files", lost))
	}
	if err := sweep(home, whole); err != nil {
		return mirror.Content{}, fmt.Errorf("sweep artifacts: %w", err)
	}
	s.set(uid, held{state: whole})
	return whole.content(), nil
}

// sweep removes what does not count.
func sweep(home string, st state) error {
	entries, err := os.ReadDir(home)
	for _, e := range entries {
		if _, ok := st.Files[e.Name()]; ok || e.Name() == stateFile || e.Name() == freshFile {
			continue
		}
		err = errors.Join(err, os.RemoveAll(filepath.Join(home, e.Name())))
	}
	return err
}

// Remove implements [mirror.Storage]. Readers that are open can continue with what they have open.
func (s *Store) Remove(_ context.Context, uid string) error {
	home, err := mirror.Folder(s.params.Dir, uid)
	if err != nil {
		return err
	}
	s.forget(uid)
	for _, path := range s.listings.Keys() {
		if strings.HasPrefix(path, home+string(filepath.Separator)) {
			s.listings.Remove(path)
		}
	}
	if err := os.RemoveAll(home); err != nil {
		return fmt.Errorf("remove artifacts: %w", err)
	}
	return nil
}
