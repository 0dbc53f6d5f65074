// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"log/slog"

	"github.com/leatdev/leat/services/gitcache/internal/api/wire"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
)

// maxFills bounds how often one read has blobs fetched: once suffices, unless the mirror is given
// up in between.
const maxFills = 3

// filling uses the mirror of this replica, and fetches between one try and the next what a partial
// one lacks.
func (s *Service) filling(ctx context.Context, r *mirroring.Repository, use func() error) error {
	for fills := 0; ; fills++ {
		err := use()
		absent, ok := errors.AsType[*content.AbsentError](err)
		if !ok || fills == maxFills {
			return err
		}
		if err := r.FetchBlobs(ctx, absent.IDs); err != nil {
			return err
		}
	}
}

// read opens the mirror of this replica, and maps errors. use is called again where content had to
// be fetched first.
func (s *Service) read(ctx context.Context, r *mirroring.Repository, use func(content.Reader) error) error {
	err := s.filling(ctx, r, func() error {
		reader, err := s.Mirrors.Open(ctx, r.Definition().UID)
		if err != nil {
			return err
		}
		defer func() { _ = reader.Close() }()
		return use(reader)
	})
	if err != nil {
		return s.failed(ctx, r, err)
	}
	return nil
}

// failed maps an error of reading a mirror. A mirror that turned out to be damaged is given up:
// what its refs promise has to be fetched again.
func (s *Service) failed(ctx context.Context, r *mirroring.Repository, err error) error {
	if errors.Is(err, content.ErrDamaged) {
		s.Logger.ErrorContext(ctx, "mirror is damaged, it will be cloned again",
			slog.String("leat.repository", r.Definition().Name), slog.Any("error", err))
		r.DiscardContent()
	}
	return wire.Error(err, r.Definition().Name)
}
