// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package ociregistry mirrors repositories of OCI registries: it lists tags, looks up the pinned ones,
// and downloads artifacts when they are first needed.
//
// What it promises:
//
//   - Nothing is sent before the guard of a fetch has agreed, nor once it no longer does. Requests go
//     the way that package uploadpack has for the repository: proxy, certificates, limits of the host.
//   - A credential goes to the registry itself, and to a token server only if that is the registry,
//     one of the definition's token hosts, or known to belong to it. It goes over TLS unless the
//     credential allows plain HTTP. It goes to no redirect, no log and no error.
//   - A poll is one list of tags, page by page, and one HEAD for each pinned tag.
//   - Where signatures are required, those of a digest are fetched before it is first delivered, and ones
//     that are missing again with polls, ever more seldom. The requests for one digest are bounded.
//   - Manifests and layers are what their digests say, from whatever host they come.
//   - Every answer is bounded: tags, pages, manifests, layers, tokens.
//   - A failure comes out as a *mirror.UpstreamError with a reason and a sentence that says what to do,
//     and an artifact that cannot be delivered as a *mirror.ArtifactError.
//
// A registry lists names without digests. A digest that no tag leads to is a ref of its own where
// signatures are required (mirror.DigestPrefix). A tag is pinned when it is first resolved: from then on
// every poll looks at it, for [PinnedFor]. After that it is unpinned, which counts as a change of the
// ref, so the services that still follow it have it resolved again.
//
// It is the only package that imports oras-go, whose client speaks the distribution protocol. The
// trade of credentials for tokens is this package's own, because oras-go refuses token servers in
// private networks. Files call one another downwards: fetch, fill; signatures, memo; conversation; auth,
// token; layers.
package ociregistry

import (
	"context"
	"net/http"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/leatdev/leat/internal/bundle"
	"github.com/leatdev/leat/internal/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/attestation"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// PinnedFor is how long a tag is looked at by every poll after it was last looked up for somebody.
const PinnedFor = 30 * 24 * time.Hour

// Carriers carry requests as a definition prescribes: through its proxy, with its certificates, within
// the limits of the host, each after the guard has agreed. They may be used concurrently.
type Carriers interface {
	// Check returns nil if a definition can be used; the error is a *mirror.FieldError.
	Check(def mirror.Definition) error
	// Enter is that of [mirror.Upstream].
	Enter(ctx context.Context, def mirror.Definition) (leave func(), err error)
	// Effective returns the definition with the credential that its URL has, if it has none of its own.
	Effective(def mirror.Definition) (mirror.Definition, error)
	// Transport carries requests of a fetch. Without credential none is added.
	Transport(p mirror.FetchParams, credential bool) (http.RoundTripper, error)
	// Refused makes an error of an answer that is not success.
	Refused(resp *http.Response) error
	// Explain makes an error for people of what a Transport or Refused gave.
	Explain(err error, def mirror.Definition) error
}

// Params are what an [Upstream] works with.
type Params struct {
	Carriers Carriers
	Mirrors  artifact.Mirrors
	// Limits bound an artifact. Zero: the defaults of bundles.
	Limits bundle.Limits
	// Now returns the time, by which pins end. Nil: time.Now.
	Now func() time.Time
	// Signatures counts questions about those. Nil: they are not counted.
	Signatures *attestation.Metrics
}

// Upstream implements [mirror.Upstream] and [mirror.Pinner] for OCI repositories. It may be used
// concurrently, for different repositories only.
type Upstream struct {
	params  Params
	tokens  *tokens
	refused *lru.Cache[refusal, verdict]
}

var (
	_ mirror.Upstream = (*Upstream)(nil)
	_ mirror.Pinner   = (*Upstream)(nil)
)

// New returns an Upstream. It sends nothing.
func New(p Params) (*Upstream, error) {
	p.Limits = p.Limits.WithDefaults()
	if p.Now == nil {
		p.Now = time.Now
	}
	kept, err := newTokens()
	if err != nil {
		return nil, err
	}
	refused, err := lru.New[refusal, verdict](rememberRefused)
	if err != nil {
		return nil, err
	}
	return &Upstream{params: p, tokens: kept, refused: refused}, nil
}

// Check implements [mirror.Upstream].
func (u *Upstream) Check(def mirror.Definition) error {
	if _, err := upstream.ParseRegistry(def.URL); err != nil {
		return &mirror.FieldError{Field: "url", Message: "It is not the URL of an OCI repository, such as oci://registry.example.com/team/web."}
	}
	return u.params.Carriers.Check(def)
}

// Enter implements [mirror.Upstream].
func (u *Upstream) Enter(ctx context.Context, def mirror.Definition) (leave func(), err error) {
	return u.params.Carriers.Enter(ctx, def)
}
