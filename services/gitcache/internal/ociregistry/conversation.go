// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/ociregistry/registryauth"
)

const (
	// pageSize is how many tags are asked for at once.
	pageSize = 1000
	// maxTags bounds the tags that are mirrored, maxTagBytes one of them: what the distribution
	// specification allows.
	maxTags     = 50_000
	maxTagBytes = 128
	maxPages    = 1000
	// maxManifest is the size that the distribution specification asks registries to accept, and the
	// bound of a page of tags.
	maxManifest  = 4 << 20
	maxRedirects = 5
)

// tagForm is the form of a tag in the distribution specification 1.1.
var tagForm = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)

// conversation is one call's exchange with a registry.
type conversation struct {
	upstream   *Upstream
	params     mirror.FetchParams
	repository *remote.Repository
	host       string
}

// converse runs a call with the mirrors of the registry and, where none of them can serve it, with the
// registry itself. Its failure becomes what [mirror.Upstream] promises.
func (u *Upstream) converse(
	ctx context.Context, p mirror.FetchParams, call func(*conversation) (mirror.Content, error),
) (mirror.Content, error) {
	for _, def := range u.params.Carriers.Mirrors(p.Definition) {
		if until, failed := u.paused.Get(def.URL); failed && u.params.Now().Before(until) {
			continue
		}
		at := p
		at.Definition = def
		c, err := u.converseWith(ctx, at, u.params.MirrorPatience, call)
		if err == nil || ctx.Err() != nil || p.Guard() != nil || errors.Is(err, mirror.ErrNotReady) {
			return c, err
		}
		if _, lacks := errors.AsType[*mirror.ArtifactError](err); !lacks {
			u.paused.Add(def.URL, u.params.Now().Add(mirrorPause))
		}
	}
	return u.converseWith(ctx, p, 0, call)
}

// converseWith runs a call with the registry of the definition's URL, whose answers begin within the
// patience. Zero: within the carrier's own limits.
func (u *Upstream) converseWith(
	ctx context.Context, p mirror.FetchParams, patience time.Duration, call func(*conversation) (mirror.Content, error),
) (mirror.Content, error) {
	t, closeIdle, err := u.dial(p, patience)
	var c mirror.Content
	if err == nil {
		defer closeIdle()
		c, err = call(t)
	}
	if err == nil {
		return c, nil
	}
	if gone := p.Guard(); gone != nil {
		return mirror.Content{}, gone
	}
	if errors.Is(err, mirror.ErrNotReady) { // the mirror went while an artifact was on its way
		return mirror.Content{}, err
	}
	if ctx.Err() != nil {
		return mirror.Content{}, fmt.Errorf("fetch from registry: %w", context.Cause(ctx))
	}
	return mirror.Content{}, explain(err, p.Definition, u.params.Carriers)
}

// dial sends nothing. The caller calls closeIdle in the end: the next conversation has another guard.
func (u *Upstream) dial(p mirror.FetchParams, patience time.Duration) (t *conversation, closeIdle func(), err error) {
	def, err := u.params.Carriers.Effective(p.Definition)
	if err != nil {
		return nil, nil, err
	}
	at, err := upstream.ParseRegistry(def.URL)
	if err != nil {
		return nil, nil, &mirror.FieldError{Field: "url", Message: "It is not the URL of an OCI repository."}
	}
	carrier, err := u.params.Carriers.Transport(p, false)
	if err != nil {
		return nil, nil, err
	}
	if patience > 0 {
		carrier = impatient{below: carrier, limit: patience}
	}
	login, err := registryauth.LoginOf(def, at.Base.Host)
	if err != nil {
		return nil, nil, err
	}
	identity, err := u.identity(p.Definition, def, at.Base)
	if err != nil {
		return nil, nil, err
	}
	a := &registryauth.Transport{
		Identity: identity, Carrier: carrier, Refused: u.params.Carriers.Refused, Base: at.Base,
		Scope: "repository:" + at.Name + ":pull", Login: login,
		AllowsPlain: def.Credential.AllowPlainHTTP, TokenHosts: def.TokenHosts.Names(), Tokens: u.tokens,
		Owner: fmt.Sprintf("%s %d %s", def.UID, def.Version, at.Base.Host), Now: u.params.Now,
	}
	if identity != nil {
		a.TokenHosts = nil
	}
	client := &http.Client{Transport: a, CheckRedirect: checkRedirect}
	repository := &remote.Repository{
		Client: client, PlainHTTP: at.Base.Scheme == "http", TagListPageSize: pageSize, MaxMetadataBytes: maxManifest,
		Reference: registry.Reference{Registry: at.Base.Host, Repository: at.Name},
	}
	t = &conversation{upstream: u, params: p, repository: repository, host: at.Base.Host}
	return t, client.CloseIdleConnections, nil
}

// identity returns the identity at a cloud that a definition has, or nil. own is the definition as its
// author wrote it, def has the credential of its URL.
func (u *Upstream) identity(own, def mirror.Definition, registry *url.URL) (*registryauth.Identity, error) {
	if def.Credential.Method != upstream.MethodWorkloadIdentity {
		return nil, nil
	}
	if own.Credential.Method == upstream.MethodWorkloadIdentity && own.CAPEM != "" {
		return nil, &mirror.FieldError{Field: "ca_pem", Message: "It must be empty with workload_identity."}
	}
	if err := u.checkIdentity(def.Credential, registry); err != nil {
		return nil, err
	}
	carrier, err := u.params.Carriers.Transport(
		mirror.FetchParams{Definition: own, Guard: func() error { return nil }}, false,
	)
	if err != nil {
		return nil, err
	}
	return &registryauth.Identity{
		Logins: u.params.Logins, Credential: def.Credential, Registry: registry, Carrier: carrier,
	}, nil
}

// checkRedirect follows redirects to stores of layers, but never from encrypted to plain, and never
// with a credential: the authorizer adds that for the registry's own host alone.
func checkRedirect(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return errRedirect
	case via[0].URL.Scheme == "https" && req.URL.Scheme != "https":
		return errRedirect
	}
	req.Header.Del("Authorization")
	return nil
}

var errRedirect = &mirror.UpstreamError{
	Reason:  reason.UpstreamProtocol,
	Message: "The registry redirects to where Leat does not follow: plain HTTP, or too often.",
}

// tags returns the full names of all tags, rising.
func (t *conversation) tags(ctx context.Context) ([]string, error) {
	var names []string
	pages := 0
	err := t.repository.Tags(ctx, "", func(page []string) error {
		if pages++; pages > maxPages {
			return errTooManyTags
		}
		for _, tag := range page {
			if !tagForm.MatchString(tag) { // no registry that keeps to the specification has one
				continue
			}
			if len(names) == maxTags {
				return errTooManyTags
			}
			names = append(names, mirror.TagPrefix+tag)
		}
		return nil
	})
	slices.Sort(names)
	return slices.Compact(names), err
}

var errTooManyTags = &mirror.UpstreamError{
	Reason: reason.UpstreamProtocol,
	Message: fmt.Sprintf(
		"The registry lists more than %d tags, or does not end its list; have it delete tags that nobody needs.",
		maxTags,
	),
}

// lookUp returns the digest that a tag leads to, or "" where the registry has no such tag. A registry
// that does not tell is asked for the manifest.
func (t *conversation) lookUp(ctx context.Context, tag string) (string, error) {
	d, err := t.repository.Resolve(ctx, tag)
	if err != nil && !errors.Is(err, errdef.ErrNotFound) && isAnswer(err) {
		var body io.ReadCloser
		d, body, err = t.repository.FetchReference(ctx, tag)
		if err == nil {
			err = body.Close()
		}
	}
	if errors.Is(err, errdef.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return sha256Of(d.Digest)
}

// isAnswer reports whether an error is about an answer without a digest, rather than a failure.
func isAnswer(err error) bool { return strings.Contains(err.Error(), "missing required header") }

// sha256Of returns the digits of a SHA-256 digest. The error is a *mirror.ArtifactError.
func sha256Of(d digest.Digest) (string, error) {
	if d.Validate() != nil || d.Algorithm() != digest.SHA256 {
		return "", unsupported("has a digest that is not SHA-256, which is the only one that Leat takes")
	}
	return d.Encoded(), nil
}

// manifest returns the manifest of a digest, which its bytes have.
func (t *conversation) manifest(ctx context.Context, sum string) (ocispec.Manifest, error) {
	var m ocispec.Manifest
	want := digest.NewDigestFromEncoded(digest.SHA256, sum)
	d, body, err := t.repository.Manifests().FetchReference(ctx, want.String())
	if errors.Is(err, errdef.ErrNotFound) {
		return m, &mirror.ArtifactError{
			Reason: reason.RefNotFound,
			Message: fmt.Sprintf(
				"%s has no artifact with the digest sha256:%s any more; publish it again, or select another version.",
				t.host, sum,
			),
		}
	}
	if err != nil {
		return m, err
	}
	data, err := io.ReadAll(io.LimitReader(body, maxManifest+1))
	if err = errors.Join(err, body.Close()); err != nil {
		return m, err
	}
	got := sha256.Sum256(data)
	switch {
	case len(data) > maxManifest:
		return m, unsupported("has a manifest of more than %d bytes", maxManifest)
	case hex.EncodeToString(got[:]) != sum:
		return m, errBytes
	}
	return parseManifest(data, d.MediaType)
}

// parseManifest reads the manifest of an image or artifact.
func parseManifest(data []byte, mediaType string) (ocispec.Manifest, error) {
	var m struct {
		ocispec.Manifest
		Manifests json.RawMessage `json:"manifests"`
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m.Manifest, unsupported("has a manifest that is not JSON as the specification has it")
	}
	isIndex := mediaType == ocispec.MediaTypeImageIndex || m.MediaType == ocispec.MediaTypeImageIndex ||
		len(m.Manifests) > 0 ||
		strings.Contains(mediaType+m.MediaType, "manifest.list")
	if isIndex {
		return m.Manifest, unsupported(
			"is an image index, which stands for several artifacts; select one of them by its digest",
		)
	}
	return m.Manifest, nil
}
