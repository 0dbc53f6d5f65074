// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package replicas calls other replicas of gitcache. It is the only way to reach one.
//
// A replica is reached by its name, which carries a signature ([Names]): names come from Redis, and
// Redis is not trusted to decide where calls go. Connections are kept for as long as the process
// lives. Calls end with their context; a stream of a file also ends when nothing arrives for a
// while. Errors of the wire leave the package as the errors that the ports of packages mirror and
// lfs promise. The package retries nothing, and decides nothing about ownership.
package replicas

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/forward"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// peer is another replica: its answers to calls, and what replicas offer one another.
type peer struct {
	calls   gitcachev1connect.GitCacheServiceClient
	mirrors gitcachev1connect.ReplicaServiceClient
}

// Replicas are the other replicas, by their names. It may be used concurrently.
type Replicas struct {
	dial func(name string) (rpc.Client, error)

	mu     sync.Mutex
	byName map[string]peer // as many as there have been replicas
}

var _ mirror.Replicas = (*Replicas)(nil)

// New returns replicas; dial is called once for each.
func New(dial func(name string) (rpc.Client, error)) *Replicas {
	return &Replicas{dial: dial, byName: map[string]peer{}}
}

// reach returns the clients of a replica, and makes them at the first call.
func (r *Replicas) reach(name string) (peer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, ok := r.byName[name]; ok {
		return p, nil
	}
	c, err := r.dial(name)
	if err != nil {
		return peer{}, err
	}
	p := peer{
		calls:   gitcachev1connect.NewGitCacheServiceClient(c.HTTP, c.BaseURL, c.Options...),
		mirrors: gitcachev1connect.NewReplicaServiceClient(c.HTTP, c.BaseURL, c.Options...),
	}
	r.byName[name] = p
	return p, nil
}

// client returns a client for what replicas offer one another.
func (r *Replicas) client(name string) (gitcachev1connect.ReplicaServiceClient, error) {
	p, err := r.reach(name)
	return p.mirrors, err
}

// GitCache returns a client for calls that another replica is to answer.
func (r *Replicas) GitCache(name string) (gitcachev1connect.GitCacheServiceClient, error) {
	p, err := r.reach(name)
	return p.calls, err
}

// Refresh implements [mirror.Replicas].
func (r *Replicas) Refresh(ctx context.Context, replica string, def mirror.Definition, via mirror.Via, wait bool) (*mirror.Problem, error) {
	c, err := r.GitCache(replica)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", mirror.ErrNoAnswer, err)
	}
	resp, err := c.RefreshRepository(forward.Mark(ctx, via), &gitcachev1.RefreshRepositoryRequest{Name: def.Name, Wait: wait})
	if err != nil {
		return nil, coreError("refresh", err)
	}
	problem := resp.GetState().GetProblem()
	if problem == nil {
		return nil, nil
	}
	return &mirror.Problem{
		Reason: reason.FromNumber(int32(problem.GetReason())), Message: problem.GetMessage(), Since: problem.GetSince().AsTime(),
	}, nil
}

// coreError returns a replica's error in the terms of the ports in package mirror: it also matches
// the sentinel that the reason stands for.
func coreError(action string, err error) error {
	means := map[errorsv1.Reason]error{
		errorsv1.Reason_REASON_OWNER_UNAVAILABLE:    mirror.ErrNotOwner,
		errorsv1.Reason_REASON_NOT_FOUND:            mirror.ErrUnknownRepository,
		errorsv1.Reason_REASON_REPOSITORY_NOT_READY: mirror.ErrNoMirror,
	}[rpcerr.ReasonOf(err)]
	if forward.IsNoAnswer(err) {
		means = mirror.ErrNoAnswer
	}
	if means == nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	return fmt.Errorf("%s: %w: %w", action, means, err)
}

// Inspect implements [mirror.Replicas].
func (r *Replicas) Inspect(ctx context.Context, replica string, def mirror.Definition, known string) (mirror.Copy, error) {
	c, err := r.client(replica)
	if err != nil {
		return mirror.Copy{}, err
	}
	resp, err := c.GetMirror(ctx, &gitcachev1.GetMirrorRequest{Repository: def.Name, Uid: def.UID, KnownFingerprint: known})
	if err != nil {
		return mirror.Copy{}, coreError("get mirror", err)
	}
	return toCopy(resp), nil
}

// toCopy returns another replica's description of its mirror. The caller verifies the files before
// it trusts any of it.
func toCopy(resp *gitcachev1.GetMirrorResponse) mirror.Copy {
	refs := make([]mirror.Ref, 0, len(resp.GetRefs()))
	for _, ref := range resp.GetRefs() {
		refs = append(refs, mirror.Ref{
			Name: string(ref.GetName()), Object: ref.GetObject(), Commit: ref.GetCommit(),
			Held: ref.GetHeld(), GoodObject: ref.GetGoodObject(), GoodCommit: ref.GetGoodCommit(),
		})
	}
	files := make([]mirror.File, 0, len(resp.GetFiles()))
	for _, f := range resp.GetFiles() {
		files = append(files, mirror.File{Name: f.GetName(), Size: f.GetSize(), Digest: f.GetDigest()})
	}
	return mirror.Copy{Fingerprint: resp.GetFingerprint(), Generation: resp.GetGeneration(), Files: files, Content: mirror.Content{
		Refs: mirror.NewRefs(refs), Head: resp.GetHead(), DefaultBranch: resp.GetDefaultBranch(), Epoch: resp.GetEpoch(),
		Policy: resp.GetPolicy(), Partial: resp.GetPartial(),
		FilledAt: timeOf(resp.GetFilledAt()), FreshAt: timeOf(resp.GetFreshAt()), ChangedAt: timeOf(resp.GetChangedAt()),
	}}
}

// timeOf returns the zero time for a time that is not set.
func timeOf(at *timestamppb.Timestamp) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.AsTime()
}

// FetchBlobs implements [mirror.Replicas].
func (r *Replicas) FetchBlobs(ctx context.Context, replica string, def mirror.Definition, ids []string) error {
	c, err := r.client(replica)
	if err != nil {
		return err
	}
	_, err = c.FetchBlobs(ctx, &gitcachev1.FetchBlobsRequest{Repository: def.Name, Uid: def.UID, Ids: ids})
	return errandError(ctx, "fetch blobs", err)
}

// Pin implements [mirror.Replicas].
func (r *Replicas) Pin(ctx context.Context, replica string, def mirror.Definition, names []string) error {
	c, err := r.client(replica)
	if err != nil {
		return err
	}
	_, err = c.FetchBlobs(ctx, &gitcachev1.FetchBlobsRequest{Repository: def.Name, Uid: def.UID, Refs: names})
	return errandError(ctx, "look up refs", err)
}

// errandError returns the error of what an owner was asked to do: a reason of its own stays, and
// anything else means that it is not the owner any more.
func errandError(ctx context.Context, errand string, err error) error {
	switch {
	case err == nil:
		return nil
	case rpcerr.HasReason(err) && rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_OWNER_UNAVAILABLE:
		return fmt.Errorf("%s: %w", errand, err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%s: %w: %w", errand, mirror.ErrNotOwner, err)
}

// TakeOver implements [mirror.Replicas].
func (r *Replicas) TakeOver(ctx context.Context, replica string, def mirror.Definition) error {
	c, err := r.client(replica)
	if err != nil {
		return err
	}
	if _, err := c.TakeOver(ctx, &gitcachev1.TakeOverRequest{Repository: def.Name, Uid: def.UID}); err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	return nil
}
