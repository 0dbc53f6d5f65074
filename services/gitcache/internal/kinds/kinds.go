// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package kinds makes one back end out of several: Git mirrors, and mirrors of charts and artifacts.
//
// The type of a definition chooses who talks to the upstream. The folder that has a mirror's UID
// chooses who reads and copies it, because replicas hold mirrors whose definition has another type:
// its type was changed, and the first fetch of the new kind has not succeeded yet. Until then the
// mirror of the old kind is served; after that it is removed.
package kinds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Upstream talks to upstreams of one type.
type Upstream interface {
	mirror.Upstream
	mirror.Pinner
}

// Artifacts keep the mirrors of all types but Git.
type Artifacts interface {
	mirror.Storage
	content.Opener
	// Holds reports whether the folder of a mirror is there, be it readable or not.
	Holds(uid string) bool
}

// Params are the parts of a [Backend].
type Params struct {
	// Git mirrors Git repositories.
	Git mirror.Backend
	// Artifacts keep what the other types mirror.
	Artifacts Artifacts
	// Upstreams talk to upstreams of the other types. Definitions of a type that is missing are
	// refused.
	Upstreams map[upstream.Type]Upstream
}

// Backend implements [mirror.Backend]. It may be used concurrently.
type Backend struct{ params Params }

var _ mirror.Backend = (*Backend)(nil)

// New returns a back end.
func New(p Params) *Backend { return &Backend{params: p} }

// reader is a storage that is read, too.
type reader interface {
	mirror.Storage
	content.Opener
}

// storage returns who holds the mirror of a UID.
func (b *Backend) storage(uid string) reader {
	if b.params.Artifacts.Holds(uid) {
		return b.params.Artifacts
	}
	return b.params.Git
}

// upstream returns who talks to the upstream of a definition. The error is a *mirror.FieldError.
func (b *Backend) upstream(def mirror.Definition) (Upstream, error) {
	if !def.Type.IsArtifacts() {
		return b.params.Git, nil
	}
	if u, ok := b.params.Upstreams[def.Type]; ok {
		return u, nil
	}
	return nil, &mirror.FieldError{Field: "type", Message: fmt.Sprintf("Repositories of the type %s are not supported by this gitcache.", def.Type)}
}

// Check implements [mirror.Upstream].
func (b *Backend) Check(def mirror.Definition) error {
	u, err := b.upstream(def)
	if err != nil {
		return err
	}
	return u.Check(def)
}

// Enter implements [mirror.Upstream].
func (b *Backend) Enter(ctx context.Context, def mirror.Definition) (leave func(), err error) {
	if u, err := b.upstream(def); err == nil {
		return u.Enter(ctx, def)
	}
	return func() {}, nil // nothing will be sent; Fetch returns why
}

// call runs what talks to an upstream, with the error that [mirror.Upstream] promises where nothing
// can.
func (b *Backend) call(def mirror.Definition, call func(Upstream) (mirror.Content, error)) (mirror.Content, error) {
	u, err := b.upstream(def)
	if field, ok := errors.AsType[*mirror.FieldError](err); ok {
		return mirror.Content{}, &mirror.UpstreamError{Reason: reason.UpstreamProtocol, Message: field.Message}
	}
	return call(u)
}

// Fetch implements [mirror.Upstream]. A mirror of another kind is replaced by one that is fetched
// from the beginning.
func (b *Backend) Fetch(ctx context.Context, p mirror.FetchParams) (mirror.Content, error) {
	uid := p.Definition.UID
	isOther := p.Have.Exists() && p.Definition.Type.IsArtifacts() != b.params.Artifacts.Holds(uid)
	if isOther {
		p.Have = mirror.Content{}
	}
	c, err := b.call(p.Definition, func(u Upstream) (mirror.Content, error) { return u.Fetch(ctx, p) })
	if err == nil && isOther {
		err = b.other(p.Definition.Type.IsArtifacts()).Remove(ctx, uid)
	}
	return c, err
}

// other returns who keeps the mirrors that are of another kind.
func (b *Backend) other(isArtifacts bool) mirror.Storage {
	if isArtifacts {
		return b.params.Git
	}
	return b.params.Artifacts
}

// Fill implements [mirror.Upstream].
func (b *Backend) Fill(ctx context.Context, p mirror.FetchParams, ids []string) (mirror.Content, error) {
	if p.Definition.Type.IsArtifacts() != b.params.Artifacts.Holds(p.Definition.UID) {
		return mirror.Content{}, mirror.ErrNoMirror // of this kind; a fetch is under way
	}
	return b.call(p.Definition, func(u Upstream) (mirror.Content, error) { return u.Fill(ctx, p, ids) })
}

// Pin implements [mirror.Pinner].
func (b *Backend) Pin(ctx context.Context, p mirror.FetchParams, names []string) (mirror.Content, error) {
	if p.Definition.Type.IsArtifacts() != b.params.Artifacts.Holds(p.Definition.UID) {
		return p.Have, nil
	}
	return b.call(p.Definition, func(u Upstream) (mirror.Content, error) { return u.Pin(ctx, p, names) })
}

// Load implements [mirror.Storage]. Where a crash left mirrors of both kinds, the mirror of
// artifacts counts.
func (b *Backend) Load(ctx context.Context, uid string) (mirror.Content, error) {
	return b.storage(uid).Load(ctx, uid)
}

// SaveDelivery implements [mirror.Storage].
func (b *Backend) SaveDelivery(ctx context.Context, uid string, c mirror.Content) error {
	return b.storage(uid).SaveDelivery(ctx, uid, c)
}

// Remove implements [mirror.Storage].
func (b *Backend) Remove(ctx context.Context, uid string) error {
	return errors.Join(b.params.Artifacts.Remove(ctx, uid), b.params.Git.Remove(ctx, uid))
}

// Export implements [mirror.Storage].
func (b *Backend) Export(ctx context.Context, uid string) (string, []mirror.File, error) {
	return b.storage(uid).Export(ctx, uid)
}

// OpenFile implements [mirror.Storage].
func (b *Backend) OpenFile(ctx context.Context, uid, generation, name string) (io.ReadCloser, error) {
	if generation == artifact.Generation {
		return b.params.Artifacts.OpenFile(ctx, uid, generation, name)
	}
	return b.params.Git.OpenFile(ctx, uid, generation, name)
}

// Adopt implements [mirror.Storage]. The generation shows the kind of the copy; a mirror of the
// other kind is removed.
func (b *Backend) Adopt(
	ctx context.Context, uid string, c mirror.Copy, open func(context.Context, mirror.File) (io.ReadCloser, error),
) (mirror.Content, error) {
	isArtifacts := c.Generation == artifact.Generation
	to := b.other(!isArtifacts)
	adopted, err := to.Adopt(ctx, uid, c, open)
	if err == nil && (isArtifacts || b.params.Artifacts.Holds(uid)) {
		err = b.other(isArtifacts).Remove(ctx, uid)
	}
	return adopted, err
}

// Confirm implements [mirror.Storage].
func (b *Backend) Confirm(ctx context.Context, uid string, c mirror.Content) error {
	return b.storage(uid).Confirm(ctx, uid, c)
}

// Stored implements [mirror.Storage].
func (b *Backend) Stored() []mirror.Stored {
	all := b.params.Git.Stored()
	for _, s := range b.params.Artifacts.Stored() {
		i, found := slices.BinarySearchFunc(all, s.UID, func(a mirror.Stored, uid string) int { return strings.Compare(a.UID, uid) })
		if !found {
			all = slices.Insert(all, i, s)
			continue
		}
		all[i].Bytes += s.Bytes
		if s.ReadAt.After(all[i].ReadAt) {
			all[i].ReadAt = s.ReadAt
		}
	}
	return all
}

// Usage implements [mirror.Storage]: both kinds share one limit.
func (b *Backend) Usage() mirror.Usage {
	git, artifacts := b.params.Git.Usage(), b.params.Artifacts.Usage()
	return mirror.Usage{Bytes: git.Bytes + artifacts.Bytes, Limit: max(git.Limit, artifacts.Limit), Packs: git.Packs + artifacts.Packs}
}

// Compact implements [mirror.Storage].
func (b *Backend) Compact(
	ctx context.Context, uid string, enter func(context.Context) (leave func(), err error),
) (mirror.Compaction, error) {
	return b.storage(uid).Compact(ctx, uid, enter)
}

// Open implements [content.Opener].
func (b *Backend) Open(ctx context.Context, uid string) (content.Reader, error) {
	return b.storage(uid).Open(ctx, uid)
}
