// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/services/gitcache/internal/lfs"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// downloadTimeout is how long an owner may take before the first byte of an object: it may have to
// download it.
const downloadTimeout = time.Minute

// Objects are the LFS objects of other replicas. It may be used concurrently.
type Objects struct{ replicas *Replicas }

var _ lfs.Holders = Objects{}

// Objects returns what the same replicas hold of LFS.
func (r *Replicas) Objects() Objects { return Objects{replicas: r} }

// List implements [lfs.Holders].
func (o Objects) List(ctx context.Context, replica string, def mirror.Definition, known string) (string, []lfs.Pointer, error) {
	c, err := o.replicas.client(replica)
	if err != nil {
		return "", nil, err
	}
	resp, err := c.ListLFSObjects(ctx, &gitcachev1.ListLFSObjectsRequest{Repository: def.Name, Uid: def.UID, KnownFingerprint: known})
	if err != nil {
		return "", nil, fmt.Errorf("list lfs objects: %w", err)
	}
	held := make([]lfs.Pointer, 0, len(resp.GetObjects()))
	for _, object := range resp.GetObjects() {
		p := lfs.Pointer{OID: object.GetOid(), Size: object.GetSize()}
		if !p.Valid() {
			return "", nil, fmt.Errorf("list lfs objects: %q is none", p.OID)
		}
		held = append(held, p)
	}
	return resp.GetFingerprint(), held, nil
}

// Read implements [lfs.Holders].
func (o Objects) Read(ctx context.Context, replica string, def mirror.Definition, url string, w lfs.Want) (io.ReadCloser, error) {
	c, err := o.replicas.client(replica)
	if err != nil {
		return nil, err
	}
	return open(ctx, downloadTimeout, lfs.ErrAbsent, func(ctx context.Context) (*connect.ServerStreamForClient[gitcachev1.ReadLFSObjectResponse], error) {
		return c.ReadLFSObject(ctx, &gitcachev1.ReadLFSObjectRequest{
			Repository: def.Name, Uid: def.UID, Object: &gitcachev1.LFSObject{Oid: w.OID, Size: w.Size}, Path: w.Path, LfsUrl: url,
		})
	})
}
