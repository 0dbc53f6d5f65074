// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package helmrepo talks to Helm repositories over HTTP: an index of charts, and their archives.
//
// Its promises:
//
//   - A poll is one request for the index. A server that reports whether it has changed, by an ETag or
//     a time, sends it only when it has; otherwise its hash decides. An unchanged index is not read.
//   - An archive is fetched once, when its content is first needed, and kept only if its bytes have
//     the digest that the index names.
//   - Nothing is sent before the guard has agreed. The credential and the client certificate go to
//     the origin of the repository's URL alone. A repository that is reached by https takes nothing
//     over plain HTTP. Addresses that no administrator wrote are judged by the guard of package
//     uploadpack.
//   - What a server sends is bounded, compressed or not, before it is held: redirects, the index, the
//     archive and its content.
//   - Where signatures are required, the provenance file of a version is fetched before the version is
//     first resolved, and one that is missing again with polls, ever more seldom.
//   - A version that is published again with other content is followed, and where the repository is
//     immutable it is held back once its first content has been delivered.
//
// Calls run one way: fetch.go, fill.go and signatures.go have the methods of [Upstream] that ask a
// server. client.go sends their requests, releases.go decides what refs deliver, and memo.go keeps what
// the next fetch has to know.
//
// The package keeps nothing itself: [artifact.Mirrors] does.
package helmrepo

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/attestation"
	"github.com/leatdev/leat/services/gitcache/internal/chartindex"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Carriers carry requests as definitions prescribe. Its methods may be called concurrently.
type Carriers interface {
	// Check and Enter are as in [mirror.Upstream].
	Check(def mirror.Definition) error
	Enter(ctx context.Context, def mirror.Definition) (leave func(), err error)
	// Carrier returns a transport that holds every request to the guard and to the limits of its
	// host. It adds the repository's credential to requests for the origin of its URL if asked to.
	// The caller closes its idle connections.
	Carrier(def mirror.Definition, guard func() error, credential bool) (http.RoundTripper, error)
	// Refused makes an error of an answer that is not success.
	Refused(resp *http.Response) error
	// Explain makes an error of the carrier, or of Refused, a *mirror.UpstreamError. A
	// *mirror.QuietError stays as it is.
	Explain(err error, def mirror.Definition) error
}

// Params are the parts of an Upstream.
type Params struct {
	Carriers Carriers
	Mirrors  artifact.Mirrors
	// Limits are the limits of bundles. Zero: the defaults.
	Limits bundle.Limits
	// MaxIndex bounds the bytes of an index. Zero: [chartindex.MaxBytes], the most that can be read.
	MaxIndex int64
	// TempDir is for an index while it is read.
	TempDir string
	// Now returns the time, by which missing signatures are asked for again. Nil: time.Now.
	Now func() time.Time
	// Signatures counts questions about those. Nil: they are not counted.
	Signatures *attestation.Metrics
	Logger     *slog.Logger
}

// Upstream implements [mirror.Upstream] and [mirror.Pinner] for Helm repositories. It may be used
// concurrently, like that.
type Upstream struct {
	Carriers
	params Params
}

var (
	_ mirror.Upstream = (*Upstream)(nil)
	_ mirror.Pinner   = (*Upstream)(nil)
)

// New returns an Upstream. It sends nothing.
func New(p Params) *Upstream {
	if p.MaxIndex <= 0 {
		p.MaxIndex = chartindex.MaxBytes
	}
	if p.Now == nil {
		p.Now = time.Now
	}
	return &Upstream{Carriers: p.Carriers, params: p}
}
