// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/lfs"
)

type objectStream = connect.ServerStream[gitcachev1.ReadLFSObjectResponse]

// ListLFSObjects implements the call.
func (s *Replica) ListLFSObjects(ctx context.Context, req *gitcachev1.ListLFSObjectsRequest) (*gitcachev1.ListLFSObjectsResponse, error) {
	if _, err := s.repository(ctx, req.GetRepository(), req.GetUid()); err != nil {
		return nil, err
	}
	fingerprint, held, err := s.objects.Held(req.GetUid())
	if err != nil {
		return nil, toError(err, req.GetRepository())
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
func (s *Replica) ReadLFSObject(ctx context.Context, req *gitcachev1.ReadLFSObjectRequest, stream *objectStream) (err error) {
	if _, err := s.repository(ctx, req.GetRepository(), req.GetUid()); err != nil {
		return err
	}
	want := lfs.Want{Pointer: lfs.Pointer{OID: req.GetObject().GetOid(), Size: req.GetObject().GetSize()}, Path: req.GetPath()}
	if !want.Valid() {
		return rpcerr.Field("object", "It must have an oid of 64 lower-case hexadecimal digits and a size that is not negative.")
	}
	object, err := s.objects.Provide(ctx, req.GetUid(), req.GetLfsUrl(), want)
	if errors.Is(err, lfs.ErrAbsent) {
		return rpcerr.NotFound("lfs object", want.OID)
	}
	if err != nil {
		return toError(err, req.GetRepository())
	}
	defer func() { err = errors.Join(err, object.Close()) }()
	return sendChunks(object, func(chunk []byte) error { return stream.Send(&gitcachev1.ReadLFSObjectResponse{Chunk: chunk}) })
}

// objectError maps what keeps an LFS object from being had; nil: err is of another kind.
func objectError(err error, in rpcerr.Option) error {
	if missing, ok := errors.AsType[*lfs.MissingError](err); ok {
		said := missing.Said
		if said != "" {
			said = ": " + said
		}
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_LFS_OBJECT_MISSING,
			fmt.Sprintf("The upstream does not have the Git LFS object of %q%s. Push it with git lfs push --all, or leave the file out.", missing.Path, said),
			in, rpcerr.With("path", missing.Path), rpcerr.With("oid", missing.OID))
	}
	file, ok := errors.AsType[*lfs.FileError](err)
	if !ok {
		return nil
	}
	return upstreamError(err, fmt.Sprintf("The Git LFS object of %q", file.Path), in, rpcerr.With("path", file.Path))
}
