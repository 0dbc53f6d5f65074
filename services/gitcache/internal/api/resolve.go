// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/services/gitcache/internal/api/wire"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot"
)

// maxLookups bounds the refs that one call has looked up one after the other. A range of versions
// may meet many that are not signed before one that is; the next call continues from there.
const maxLookups = 16

// ResolveSnapshot implements the call.
func (s *Service) ResolveSnapshot(
	ctx context.Context, req *gitcachev1.ResolveSnapshotRequest,
) (*gitcachev1.ResolveSnapshotResponse, error) {
	src, err := wire.ParseSource(req.GetSource())
	if err != nil {
		return nil, err
	}
	return answer(ctx, s, "source.repository", req.GetSource().GetRepository(), client.ResolveSnapshot, req,
		func(ctx context.Context, r *mirroring.Repository) (*gitcachev1.ResolveSnapshotResponse, error) {
			return s.resolve(ctx, r, src)
		})
}

func (s *Service) resolve(
	ctx context.Context, r *mirroring.Repository, src wire.Source,
) (*gitcachev1.ResolveSnapshotResponse, error) {
	def := r.Definition()
	ctx, span := s.Tracer.Start(ctx, "snapshot.resolve", trace.WithAttributes(
		attribute.String("leat.repository", def.Name), attribute.String("leat.repository.uid", def.UID)))
	defer span.End()
	selector, err := src.At(def)
	if err != nil {
		return nil, err
	}
	c, selected, err := s.selectRef(ctx, r, selector)
	if err != nil {
		span.SetStatus(codes.Error, "no commit")
		return nil, err
	}
	commit, epoch := selected.Commit, r.Epoch()
	if epoch == 0 {
		epoch = c.Epoch
	}
	span.SetAttributes(attribute.Int64("leat.epoch", int64(epoch)), attribute.String("leat.commit", commit))
	found, err := s.Snapshots.Resolve(ctx, snapshot.Folder{
		UID: def.UID, Commit: wire.ContentID(def, commit, src.Layer), Selection: src.Selection,
		Repository: def.Name, Epoch: epoch,
		CompletesCharts: !def.Type.IsArtifacts(), ChartRepositories: def.ChartRepositories,
	})
	if errors.Is(err, content.ErrCommitNotFound) && src.Selector.Kind != mirror.SelectCommit {
		// A ref's commit was fetched with the ref; its absence proves nothing about the upstream.
		err = fmt.Errorf("%w: %s leads to %s, which is missing", content.ErrDamaged, src.Selector, commit)
	}
	if err != nil {
		span.SetStatus(codes.Error, "no digest")
		return nil, s.failed(ctx, r, err)
	}
	span.SetAttributes(attribute.String("leat.digest", found.Digest.String()))
	return &gitcachev1.ResolveSnapshotResponse{
		Snapshot: &typev1.Snapshot{
			Commit: commit, Digest: found.Digest.String(), ContentSize: found.ContentSize, StoredSize: found.StoredSize,
			FileCount: int32(found.FileCount), Version: selected.Version,
		},
		FreshAt: wire.Time(c.FreshAt), Epoch: epoch,
	}, nil
}

// resolveCommit returns the commit that a selector means in the mirror of this replica.
func (s *Service) resolveCommit(
	ctx context.Context, r *mirroring.Repository, selector mirror.Selector,
) (string, error) {
	_, selected, err := s.selectRef(ctx, r, selector)
	return selected.Commit, err
}

// selectRef finds what a selector means in the mirror of this replica. Refs that the upstream has to
// be asked about are looked up first. A commit that is named by leading digits is returned whole.
func (s *Service) selectRef(
	ctx context.Context, r *mirroring.Repository, selector mirror.Selector,
) (mirror.Content, mirror.Selected, error) {
	for lookups := 0; ; lookups++ {
		c, err := contentOf(r)
		if err != nil {
			return c, mirror.Selected{}, err
		}
		selected, err := c.Select(selector)
		if err == nil {
			if selector.Kind == mirror.SelectCommit {
				selected.Commit, err = s.nameCommit(ctx, r, selected.Commit)
			}
			return c, selected, err
		}
		unpinned, ok := errors.AsType[*mirror.UnpinnedError](err)
		if !ok || lookups == maxLookups {
			return c, mirror.Selected{}, wire.Error(err, r.Definition().Name)
		}
		if err := r.Pin(ctx, unpinned.Names); err != nil {
			return c, mirror.Selected{}, wire.Error(err, r.Definition().Name)
		}
	}
}

// nameCommit finds the commit that its id, or the beginning of one, names, and makes sure that it
// may be delivered.
func (s *Service) nameCommit(ctx context.Context, r *mirroring.Repository, id string) (string, error) {
	whole := pack.IsName(id)
	if whole && !r.Verifies() {
		return id, nil // reading it shows whether it is there
	}
	err := s.read(ctx, r, func(reader content.Reader) (err error) {
		if !whole {
			if id, err = reader.Expand(ctx, id); err != nil {
				return err
			}
		}
		return r.CheckCommit(ctx, reader, id)
	})
	return id, err
}
