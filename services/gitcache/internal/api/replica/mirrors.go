// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/api/wire"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

type fileStream = connect.ServerStream[gitcachev1.ReadMirrorFileResponse]

// GetMirror implements the call.
func (s *Service) GetMirror(
	ctx context.Context, req *gitcachev1.GetMirrorRequest,
) (*gitcachev1.GetMirrorResponse, error) {
	r, err := s.repository(ctx, req.GetRepository(), req.GetUid())
	if err != nil {
		return nil, err
	}
	c, err := r.Mirrored()
	if err != nil {
		return nil, wire.Error(mirror.ErrNoMirror, req.GetRepository())
	}
	resp := &gitcachev1.GetMirrorResponse{
		Fingerprint: c.Fingerprint(), FreshAt: wire.Time(c.FreshAt), ChangedAt: wire.Time(c.ChangedAt), Epoch: c.Epoch,
		Policy: c.Policy, Partial: c.Partial, FilledAt: wire.Time(c.FilledAt),
	}
	if resp.GetFingerprint() == req.GetKnownFingerprint() {
		return resp, nil
	}
	// After the content, so that the files hold at least what its refs need.
	generation, files, err := s.storage.Export(ctx, req.GetUid())
	if err != nil {
		return nil, wire.Error(err, req.GetRepository())
	}
	resp.Generation, resp.Head, resp.DefaultBranch = generation, c.Head, c.DefaultBranch
	for _, f := range files {
		resp.Files = append(resp.Files, &gitcachev1.MirrorFile{Name: f.Name, Size: f.Size, Digest: f.Digest})
	}
	for _, ref := range c.Refs {
		resp.Refs = append(resp.Refs, &gitcachev1.MirrorRef{
			Name: []byte(ref.Name), Object: ref.Object, Commit: ref.Commit,
			Held: ref.Held, GoodObject: ref.GoodObject, GoodCommit: ref.GoodCommit,
		})
	}
	return resp, nil
}

// ReadMirrorFile implements the call.
func (s *Service) ReadMirrorFile(
	ctx context.Context, req *gitcachev1.ReadMirrorFileRequest, stream *fileStream,
) (err error) {
	if _, err := s.repository(ctx, req.GetRepository(), req.GetUid()); err != nil {
		return err
	}
	file, err := s.storage.OpenFile(ctx, req.GetUid(), req.GetGeneration(), req.GetName())
	if errors.Is(err, mirror.ErrNoMirror) {
		return rpcerr.NotFound("mirror file", req.GetName())
	}
	if err != nil {
		return wire.Error(err, req.GetRepository())
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return wire.SendChunks(
		file, func(chunk []byte) error { return stream.Send(&gitcachev1.ReadMirrorFileResponse{Chunk: chunk}) },
	)
}

// FetchBlobs implements the call.
func (s *Service) FetchBlobs(
	ctx context.Context, req *gitcachev1.FetchBlobsRequest,
) (*gitcachev1.FetchBlobsResponse, error) {
	r, err := s.repository(ctx, req.GetRepository(), req.GetUid())
	if err != nil {
		return nil, err
	}
	if len(req.GetIds()) > mirroring.MaxFill {
		return nil, rpcerr.Field("ids", fmt.Sprintf("It may have %d elements.", mirroring.MaxFill))
	}
	if len(req.GetRefs()) > mirroring.MaxPin {
		return nil, rpcerr.Field("refs", fmt.Sprintf("It may have %d elements.", mirroring.MaxPin))
	}
	for _, id := range req.GetIds() {
		if _, err := artifact.ParseID(id); err != nil && !pack.IsName(id) {
			return nil, rpcerr.Field(
				"ids", "Every element must be an id of 40 or 64 lower-case hexadecimal digits, or that of an artifact.",
			)
		}
	}
	if len(req.GetRefs()) > 0 {
		if err := r.LookUp(ctx, req.GetRefs()); err != nil {
			return nil, wire.Error(err, req.GetRepository())
		}
	}
	if len(req.GetIds()) > 0 {
		if err := r.Fill(ctx, req.GetIds()); err != nil {
			return nil, wire.Error(err, req.GetRepository())
		}
	}
	return &gitcachev1.FetchBlobsResponse{}, nil
}
