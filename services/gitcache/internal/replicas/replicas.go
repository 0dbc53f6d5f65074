// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package replicas calls other replicas of gitcache about mirrors and ownership.
package replicas

import (
	"context"
	"errors"
	"fmt"
	"sync"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

type client = gitcachev1connect.ReplicaServiceClient

// Replicas are the other replicas, by their base URLs. It may be used concurrently.
type Replicas struct {
	dial func(baseURL string) (client, error)

	mu    sync.Mutex
	byURL map[string]client // as many as there have been replicas
}

var _ mirror.Replicas = (*Replicas)(nil)

// New returns replicas; dial is called once for each.
func New(dial func(baseURL string) (gitcachev1connect.ReplicaServiceClient, error)) *Replicas {
	return &Replicas{dial: dial, byURL: map[string]client{}}
}

func (r *Replicas) client(url string) (client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.byURL[url]; ok {
		return c, nil
	}
	c, err := r.dial(url)
	if err != nil {
		return nil, err
	}
	r.byURL[url] = c
	return c, nil
}

// Inspect implements [mirror.Replicas].
func (r *Replicas) Inspect(ctx context.Context, replica string, def mirror.Definition, known string) (mirror.Copy, error) {
	c, err := r.client(replica)
	if err != nil {
		return mirror.Copy{}, err
	}
	resp, err := c.GetMirror(ctx, &gitcachev1.GetMirrorRequest{Repository: def.Name, Uid: def.UID, KnownFingerprint: known})
	if rpcerr.ReasonOf(err) == errorsv1.Reason_REASON_REPOSITORY_NOT_READY {
		return mirror.Copy{}, errors.Join(mirror.ErrNoMirror, err)
	}
	if err != nil {
		return mirror.Copy{}, fmt.Errorf("get mirror: %w", err)
	}
	return toCopy(resp), nil
}

// toCopy reads what another replica says of its mirror. Nothing in it is believed before the files have been verified.
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
	c := mirror.Copy{Fingerprint: resp.GetFingerprint(), Generation: resp.GetGeneration(), Files: files, Content: mirror.Content{
		Refs: mirror.NewRefs(refs), Head: resp.GetHead(), DefaultBranch: resp.GetDefaultBranch(), Epoch: resp.GetEpoch(),
		Policy: resp.GetPolicy(), Partial: resp.GetPartial(),
	}}
	if at := resp.GetFilledAt(); at != nil {
		c.Content.FilledAt = at.AsTime()
	}
	if at := resp.GetFreshAt(); at != nil {
		c.Content.FreshAt = at.AsTime()
	}
	if at := resp.GetChangedAt(); at != nil {
		c.Content.ChangedAt = at.AsTime()
	}
	return c
}

// FetchBlobs implements [mirror.Replicas].
func (r *Replicas) FetchBlobs(ctx context.Context, replica string, def mirror.Definition, ids []string) error {
	c, err := r.client(replica)
	if err != nil {
		return err
	}
	_, err = c.FetchBlobs(ctx, &gitcachev1.FetchBlobsRequest{Repository: def.Name, Uid: def.UID, Ids: ids})
	switch {
	case err == nil:
		return nil
	case rpcerr.HasReason(err) && rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_OWNER_UNAVAILABLE:
		return fmt.Errorf("fetch blobs: %w", err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("fetch blobs: %w: %w", mirror.ErrNotOwner, err)
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
