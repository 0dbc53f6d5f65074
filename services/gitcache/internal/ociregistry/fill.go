// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"oras.land/oras-go/v2/errdef"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// downloadTimeout bounds the download of one artifact: a registry that trickles must not keep others
// from being unpacked.
const downloadTimeout = 10 * time.Minute

// Fill implements [mirror.Upstream]. ids are as in package artifact.
func (u *Upstream) Fill(ctx context.Context, p mirror.FetchParams, ids []string) (mirror.Content, error) {
	var absent []artifact.ID
	var failed error
	for _, text := range ids {
		id, err := artifact.ParseID(text)
		if err != nil {
			return mirror.Content{}, err
		}
		if u.params.Mirrors.Has(p.Definition.UID, id) {
			continue
		}
		if v, ok := u.refused.Get(refusal{p.Definition.UID, text}); ok && u.params.Now().Before(v.until) {
			failed = v.err
			continue
		}
		absent = append(absent, id)
	}
	if len(absent) == 0 {
		return p.Have, failed
	}
	var rejected map[artifact.ID]*mirror.ArtifactError // by the registry that was asked last
	c, err := u.converse(ctx, p, func(t *conversation) (mirror.Content, error) {
		rejected = map[artifact.ID]*mirror.ArtifactError{}
		failed := failed
		for _, id := range absent {
			if u.params.Mirrors.Has(p.Definition.UID, id) { // from a mirror of the registry that lacked another
				continue
			}
			kept, err := t.download(ctx, p, id)
			p = kept
			if bad, ok := errors.AsType[*mirror.ArtifactError](err); ok {
				rejected[id], failed = bad, bad
				continue
			}
			if err != nil {
				return mirror.Content{}, err
			}
		}
		return p.Have, failed
	})
	for id, bad := range rejected {
		u.refused.Add(refusal{p.Definition.UID, id.String()}, verdict{err: bad, until: u.params.Now().Add(refusedFor)})
	}
	return c, err
}

// download makes the mirror hold one artifact, and returns the params with what it holds then. The
// mirror is free while the artifact arrives.
func (t *conversation) download(ctx context.Context, p mirror.FetchParams, id artifact.ID) (mirror.FetchParams, error) {
	staged, err := t.stage(ctx, id)
	if err != nil {
		return p, artifact.Unusable(err)
	}
	defer staged.Discard()
	return p.Write(ctx, func(p mirror.FetchParams) (mirror.Content, error) {
		if err := staged.Keep(); err != nil {
			return p.Have, err
		}
		return t.upstream.params.Mirrors.Amend(p, p.Have, nil)
	})
}

// stage downloads and unpacks one artifact.
func (t *conversation) stage(ctx context.Context, id artifact.ID) (artifact.Staged, error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	m, err := t.manifest(ctx, id.Digest)
	if err != nil {
		return nil, err
	}
	layers, err := pick(m, id.Layer)
	if err != nil {
		return nil, err
	}
	return t.upstream.params.Mirrors.Stage(ctx, t.params.Definition.UID, id, func(sink artifact.Sink) error {
		for _, layer := range layers {
			if err := t.take(ctx, layer, sink); err != nil {
				return err
			}
		}
		return nil
	})
}

// take downloads a layer, which has the digest of the manifest.
func (t *conversation) take(ctx context.Context, layer picked, sink artifact.Sink) error {
	limits := t.upstream.params.Limits
	sum, err := sha256Of(layer.Digest)
	if err != nil {
		return err
	}
	if layer.Size < 0 || layer.Size > limits.Bytes { // before anybody downloads it
		return &bundle.LimitError{Limit: bundle.LimitBytes, Max: limits.Bytes, Name: layer.name}
	}
	body, err := t.repository.Blobs().Fetch(ctx, layer.Descriptor)
	if errors.Is(err, errdef.ErrNotFound) {
		return &mirror.ArtifactError{
			Reason:  reason.RefNotFound,
			Message: fmt.Sprintf("%s has lost the layer %s of the artifact; publish it again.", t.host, layer.Digest),
		}
	}
	if err != nil {
		return err
	}
	_, err = artifact.Consume(body, sum, limits.Bytes, func(r io.Reader) error {
		if layer.name != "" {
			return sink.Add(bundle.Entry{Name: layer.name, Size: layer.Size}, r)
		}
		return artifact.Unpack(ctx, r, artifact.Params{Chart: layer.isChart, Limits: limits}, sink)
	})
	if _, isOther := errors.AsType[*artifact.MismatchError](err); isOther {
		err = errBytes
	}
	_ = body.Close() // all of it was read, or the rest is not wanted
	return err
}
