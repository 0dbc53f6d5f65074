// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"io"

	"connectrpc.com/connect"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/lfs"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
)

type fileStream = connect.ServerStream[gitcachev1.ReadMirrorFileResponse]

// Replica implements ReplicaService. Use [ReplicaOptions] with its handler, which lets only other
// replicas in.
type Replica struct {
	set     *mirroring.Set
	storage mirror.Storage
	objects *lfs.Objects
}

var _ gitcachev1connect.ReplicaServiceHandler = (*Replica)(nil)

// NewReplica returns a Replica.
func NewReplica(set *mirroring.Set, storage mirror.Storage, objects *lfs.Objects) *Replica {
	return &Replica{set: set, storage: storage, objects: objects}
}

// GetMirror implements the call.
func (s *Replica) GetMirror(ctx context.Context, req *gitcachev1.GetMirrorRequest) (*gitcachev1.GetMirrorResponse, error) {
	r, err := s.repository(ctx, req.GetRepository(), req.GetUid())
	if err != nil {
		return nil, err
	}
	c, err := r.Mirrored()
	if err != nil {
		return nil, toError(mirror.ErrNoMirror, req.GetRepository())
	}
	resp := &gitcachev1.GetMirrorResponse{
		Fingerprint: c.Fingerprint(), FreshAt: fromTime(c.FreshAt), ChangedAt: fromTime(c.ChangedAt), Epoch: c.Epoch,
		Policy: c.Policy, Partial: c.Partial, FilledAt: fromTime(c.FilledAt),
	}
	if resp.GetFingerprint() == req.GetKnownFingerprint() {
		return resp, nil
	}
	// After the content, so that the files hold at least what its refs need.
	generation, files, err := s.storage.Export(ctx, req.GetUid())
	if err != nil {
		return nil, toError(err, req.GetRepository())
	}
	resp.Generation, resp.Head, resp.DefaultBranch = generation, c.Head, c.DefaultBranch
	for _, f := range files {
		resp.Files = append(resp.Files, &gitcachev1.MirrorFile{Name: f.Name, Size: f.Size, Digest: f.Digest})
	}
	for _, ref := range c.Refs {
		resp.Refs = append(resp.Refs, &gitcachev1.MirrorRef{
			Name: []byte(ref.Name), Object: ref.Object, Commit: ref.Commit, Held: ref.Held, GoodObject: ref.GoodObject, GoodCommit: ref.GoodCommit,
		})
	}
	return resp, nil
}

// ReadMirrorFile implements the call.
func (s *Replica) ReadMirrorFile(ctx context.Context, req *gitcachev1.ReadMirrorFileRequest, stream *fileStream) (err error) {
	if _, err := s.repository(ctx, req.GetRepository(), req.GetUid()); err != nil {
		return err
	}
	file, err := s.storage.OpenFile(ctx, req.GetUid(), req.GetGeneration(), req.GetName())
	if errors.Is(err, mirror.ErrNoMirror) {
		return rpcerr.NotFound("mirror file", req.GetName())
	}
	if err != nil {
		return toError(err, req.GetRepository())
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return sendChunks(file, func(chunk []byte) error { return stream.Send(&gitcachev1.ReadMirrorFileResponse{Chunk: chunk}) })
}

// sendChunks sends a file to its end.
func sendChunks(file io.Reader, sendChunk func([]byte) error) error {
	buffer := make([]byte, chunkSize)
	for {
		n, err := io.ReadFull(file, buffer)
		if n > 0 {
			if err := sendChunk(buffer[:n]); err != nil {
				return fmt.Errorf("send chunk: %w", err)
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read file: %w", err)
		}
	}
}

// TakeOver implements the call.
func (s *Replica) TakeOver(ctx context.Context, req *gitcachev1.TakeOverRequest) (*gitcachev1.TakeOverResponse, error) {
	r, err := s.repository(ctx, req.GetRepository(), req.GetUid())
	if err != nil {
		return nil, err
	}
	epoch, err := r.TakeOver(ctx)
	if err != nil {
		return nil, toError(err, req.GetRepository())
	}
	return &gitcachev1.TakeOverResponse{Epoch: epoch}, nil
}

// repository returns the repository of that name and UID, once its mirror on disk has been looked
// at.
func (s *Replica) repository(ctx context.Context, name, uid string) (*mirroring.Repository, error) {
	if err := checkAnyName("repository", name); err != nil {
		return nil, err
	}
	r, err := s.set.Get(name)
	if err == nil && r.Definition().UID != uid {
		err = mirror.ErrUnknownRepository
	}
	if err != nil {
		return nil, toError(err, name)
	}
	return r, r.AwaitLoaded(ctx)
}
