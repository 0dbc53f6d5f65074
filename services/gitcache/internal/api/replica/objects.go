// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/api/wire"
	"github.com/leatdev/leat/services/gitcache/internal/lfs"
)

type objectStream = connect.ServerStream[gitcachev1.ReadLFSObjectResponse]

// ListLFSObjects implements the call.
func (s *Service) ListLFSObjects(
	ctx context.Context, req *gitcachev1.ListLFSObjectsRequest,
) (*gitcachev1.ListLFSObjectsResponse, error) {
	if _, err := s.repository(ctx, req.GetRepository(), req.GetUid()); err != nil {
		return nil, err
	}
	fingerprint, held, err := s.objects.Held(req.GetUid())
	if err != nil {
		return nil, wire.Error(err, req.GetRepository())
	}
	resp := &gitcachev1.ListLFSObjectsResponse{Fingerprint: fingerprint}
	if fingerprint == req.GetKnownFingerprint() {
		return resp, nil
	}
	for _, p := range held {
		resp.Objects = append(resp.Objects, &gitcachev1.LFSObject{Oid: p.OID, Size: p.Size})
	}
	return resp, nil
}

// ReadLFSObject implements the call.
func (s *Service) ReadLFSObject(
	ctx context.Context, req *gitcachev1.ReadLFSObjectRequest, stream *objectStream,
) (err error) {
	if _, err := s.repository(ctx, req.GetRepository(), req.GetUid()); err != nil {
		return err
	}
	want := lfs.Want{
		Pointer: lfs.Pointer{OID: req.GetObject().GetOid(), Size: req.GetObject().GetSize()}, Path: req.GetPath(),
	}
	if !want.Valid() {
		return rpcerr.Field(
			"object", "It must have an oid of 64 lower-case hexadecimal digits and a size that is not negative.",
		)
	}
	object, err := s.objects.Provide(ctx, req.GetUid(), req.GetLfsUrl(), want)
	if errors.Is(err, lfs.ErrAbsent) {
		return rpcerr.NotFound("lfs object", want.OID)
	}
	if err != nil {
		return wire.Error(err, req.GetRepository())
	}
	defer func() { err = errors.Join(err, object.Close()) }()
	return wire.SendChunks(
		object, func(chunk []byte) error { return stream.Send(&gitcachev1.ReadLFSObjectResponse{Chunk: chunk}) },
	)
}
