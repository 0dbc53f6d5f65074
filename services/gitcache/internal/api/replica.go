// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Replica implements ReplicaService. Use [ReplicaOptions] with its handler, which lets only other replicas in.
type Replica struct {
	set *mirror.Set
}

var _ gitcachev1connect.ReplicaServiceHandler = (*Replica)(nil)

// NewReplica returns a Replica.
func NewReplica(set *mirror.Set) *Replica { return &Replica{set: set} }

// GetMirror implements the call.
func (s *Replica) GetMirror(ctx context.Context, req *gitcachev1.GetMirrorRequest) (*gitcachev1.GetMirrorResponse, error) {
	r, err := s.repository(ctx, req.GetRepository(), req.GetUid())
	if err != nil {
		return nil, err
	}
	c, err := r.Content()
	if err != nil {
		return nil, toError(mirror.ErrNoMirror, req.GetRepository())
	}
	resp := &gitcachev1.GetMirrorResponse{
		Fingerprint: c.Fingerprint(), FreshAt: fromTime(c.FreshAt), ChangedAt: fromTime(c.ChangedAt), Epoch: c.Epoch,
	}
	if resp.GetFingerprint() == req.GetKnownFingerprint() {
		return resp, nil
	}
	resp.Head, resp.DefaultBranch = c.Head, c.DefaultBranch
	for _, ref := range c.Refs {
		resp.Refs = append(resp.Refs, &gitcachev1.MirrorRef{Name: []byte(ref.Name), Object: ref.Object, Commit: ref.Commit})
	}
	return resp, nil
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

// repository returns the repository of that name and UID, once its mirror on disk has been looked at.
func (s *Replica) repository(ctx context.Context, name, uid string) (*mirror.Repository, error) {
	if err := checkName("repository", name); err != nil {
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
