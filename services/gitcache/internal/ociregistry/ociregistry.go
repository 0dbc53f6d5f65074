// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package ociregistry mirrors repositories of OCI registries: it lists tags, looks up the pinned ones,
// and downloads artifacts when they are first needed.
//
// Its promises:
//
//   - Nothing is sent before the guard of a fetch has agreed, nor once it no longer does. Requests go
//     the way that package uploadpack has for the repository: proxy, certificates, limits of the host.
//   - A credential goes to the registry itself, and to a token server only if that is the registry,
//     one of the definition's token hosts, or known to belong to it. It goes over TLS unless the
//     credential allows plain HTTP. It goes to no redirect, no log and no error.
//   - The login of gitcache's own identity at a cloud goes only to that cloud's registries, over TLS,
//     and to no server that passes for one by a repository's own certificates.
//   - A poll is one list of tags, page by page, and one HEAD for each pinned tag, but at most
//     [MaxLooked]. Where more are pinned, the ones that were pinned longest ago are looked up in turns.
//   - Where signatures are required, the signatures of a digest are fetched before it is first delivered, and ones
//     that are missing again with polls, ever more seldom. The requests for one digest are bounded.
//   - The mirrors of a registry are asked before it, in their order, with credentials of their own. What
//     a mirror cannot serve is asked of the next. A mirror has 10 s to begin an answer, and one that
//     failed is left alone for a minute.
//   - Manifests and layers match their digests, from whatever host they come.
//   - Every answer is bounded: tags, pages, manifests, layers, tokens.
//   - A failure comes out as a *mirror.UpstreamError with a reason and a sentence with advice,
//     and an artifact that cannot be delivered as a *mirror.ArtifactError.
//
// A registry lists names without digests. A digest that no tag leads to is a ref of its own where
// signatures are required (mirror.DigestPrefix). A tag is pinned when it is first resolved: from
// then on every poll looks it up, for [PinnedFor]. After that it is unpinned, which counts as a
// change of the ref, so the services that still follow it have it resolved again.
//
// It is the only package that imports oras-go, whose client speaks the distribution protocol. The
// trade of credentials for tokens is package registryauth's, because oras-go refuses token servers in
// private networks. Files call one another downwards: fetch, fill; signatures, memo; conversation; turns,
// layers; errors.
package ociregistry

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/attestation"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/ociregistry/registryauth"
)

// PinnedFor is how long polls look a tag up after it was last looked up for a caller.
const PinnedFor = 30 * 24 * time.Hour

// rememberRounds is of how many repositories the place of the next turn is known. A repository that is
// forgotten begins again.
const rememberRounds = 10_000

// Carriers carry requests as a definition prescribes: through its proxy, with its certificates, within
// the limits of the host, each after the guard has agreed. They may be used concurrently.
type Carriers interface {
	// Check returns nil if a definition can be used; the error is a *mirror.FieldError.
	Check(def mirror.Definition) error
	// Enter is as in [mirror.Upstream].
	Enter(ctx context.Context, def mirror.Definition) (leave func(), err error)
	// Mirrors returns definitions of the same repository at the mirrors of its registry, the first to ask
	// first.
	Mirrors(def mirror.Definition) []mirror.Definition
	// Effective returns the definition with the credential that its URL has, if it has none of its own.
	Effective(def mirror.Definition) (mirror.Definition, error)
	// Transport carries requests of a fetch. Without credential none is added.
	Transport(p mirror.FetchParams, credential bool) (http.RoundTripper, error)
	// Refused makes an error of an answer that is not success.
	Refused(resp *http.Response) error
	// Explain makes an error for people of what a Transport or Refused gave.
	Explain(err error, def mirror.Definition) error
}

// Params are the parts of an [Upstream].
type Params struct {
	Carriers Carriers
	// Logins are for credentials that are identities at a cloud. Nil: those are refused.
	Logins  registryauth.Logins
	Mirrors artifact.Mirrors
	// Limits bound an artifact. Zero: the defaults of bundles.
	Limits bundle.Limits
	// Now returns the time, by which pins end. Nil: time.Now.
	Now func() time.Time
	// MirrorPatience is how long a mirror of a registry may take to begin an answer. The rest must
	// arrive at 1 KiB a second, measured over three times that long. Zero: 10 s.
	MirrorPatience time.Duration
	// Signatures counts questions about those. Nil: they are not counted.
	Signatures *attestation.Metrics
}

// Upstream implements [mirror.Upstream] and [mirror.Pinner] for OCI repositories. It may be used
// concurrently, like these.
type Upstream struct {
	params  Params
	tokens  *registryauth.Tokens
	refused *lru.Cache[refusal, verdict]
	// rounds has the last tag of the last round of each repository, by UID.
	rounds *lru.Cache[string, string]
	// paused has until when mirrors that failed are not asked, by URL.
	paused *lru.Cache[string, time.Time]
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
	p.MirrorPatience = cmp.Or(p.MirrorPatience, mirrorPatience)
	kept, err := registryauth.NewTokens()
	if err != nil {
		return nil, err
	}
	refused, err := lru.New[refusal, verdict](rememberRefused)
	if err != nil {
		return nil, err
	}
	rounds, err := lru.New[string, string](rememberRounds)
	if err != nil {
		return nil, err
	}
	paused, err := lru.New[string, time.Time](rememberMirrors)
	if err != nil {
		return nil, err
	}
	return &Upstream{params: p, tokens: kept, refused: refused, rounds: rounds, paused: paused}, nil
}

// Check implements [mirror.Upstream].
func (u *Upstream) Check(def mirror.Definition) error {
	at, err := upstream.ParseRegistry(def.URL)
	if err != nil {
		return &mirror.FieldError{
			Field:   "url",
			Message: "It is not the URL of an OCI repository, such as oci://registry.example.com/team/web.",
		}
	}
	if err := u.params.Carriers.Check(def); err != nil {
		return err
	}
	effective, err := u.params.Carriers.Effective(def)
	if err != nil {
		return err
	}
	return u.checkIdentity(effective.Credential, at.Base)
}

// checkIdentity checks a credential that is an identity at a cloud.
func (u *Upstream) checkIdentity(c upstream.Credential, registry *url.URL) error {
	switch {
	case c.Method != upstream.MethodWorkloadIdentity:
		return nil
	case u.params.Logins == nil:
		return &mirror.FieldError{
			Field: "credential.workload_identity", Message: "This replica of gitcache has no identity at a cloud.",
		}
	}
	return u.params.Logins.Check(c, registry)
}

// Enter implements [mirror.Upstream].
func (u *Upstream) Enter(ctx context.Context, def mirror.Definition) (leave func(), err error) {
	return u.params.Carriers.Enter(ctx, def)
}

const (
	rememberRefused = 10_000
	// refusedFor is how long an artifact that cannot be delivered is not downloaded again.
	refusedFor = 10 * time.Minute
)

// refusal names an artifact that cannot be delivered, and verdict is why.
type refusal struct{ uid, id string }

type verdict struct {
	err   *mirror.ArtifactError
	until time.Time
}
