// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"sync/atomic"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/leatdev/leat/internal/kit/signers"
	"github.com/leatdev/leat/services/gitcache/internal/attestation"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	payloadLayer    = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureType   = "application/vnd.dev.cosign.artifact.sig.v1+json"
	provenanceLayer = "application/vnd.cncf.helm.chart.provenance.v1.prov"
	signatureKey    = "dev.cosignproject.cosign/signature"

	// maxSignatures bounds the signatures of one artifact that are checked, and maxAsk the requests
	// for them.
	maxSignatures = 32
	maxAsk        = 80
	// maxSignatureManifest bounds a manifest or list of signatures, maxSignature one signed payload or
	// bundle.
	maxSignatureManifest = 1 << 20
	maxSignature         = 256 << 10
	maxReferrerPages     = 4
	// askTimeout bounds the questions about one artifact.
	askTimeout = time.Minute
)

// errTooMany means that an artifact has more signatures than are checked.
var errTooMany = fmt.Errorf("has more than %d signatures or needs more than %d requests for them, and those looked at do not count", maxSignatures, maxAsk)

// question is the search for a good signature of one artifact. Its methods return whether it was
// found. Their errors are failures of the registry. The defect of a signature is noted, and the
// search continues.
type question struct {
	talk       *conversation
	repository *remote.Repository // like talk's, within the bound of requests
	policy     *attestation.Policy
	digest     string
	looked     int   // signatures
	last       error // why the last of them does not count; nil: there is none
	version    string
	signed     []byte // the artifact's own manifest; nil: it has not been needed
}

// ask searches for a good signature of an artifact.
func (t *conversation) ask(ctx context.Context, policy *attestation.Policy, sum string) (attestation.Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	q := &question{talk: t, policy: policy, digest: sum, repository: &remote.Repository{
		Client: &budget{below: t.repository.Client}, Reference: t.repository.Reference, PlainHTTP: t.repository.PlainHTTP,
		MaxMetadataBytes: maxSignatureManifest, ReferrerListMaxPages: maxReferrerPages,
	}}
	found, err := q.search(ctx)
	switch {
	case errors.Is(err, errTooMany):
		return attestation.Verdict{Why: errTooMany.Error()}, nil
	case err != nil:
		return attestation.Verdict{}, err
	case found:
		return attestation.Verdict{Version: q.version}, nil
	}
	return attestation.Verdict{Why: q.policy.Missing(q.looked, q.last)}, nil
}

// search looks in the order of how common each place is.
func (q *question) search(ctx context.Context) (bool, error) {
	var places []func(context.Context) (bool, error)
	if q.policy.TakesCosign() {
		places = append(places, q.searchTag, q.searchReferrers)
	}
	if q.policy.TakesProvenance() {
		places = append(places, q.searchProvenance)
	}
	for _, search := range places {
		if found, err := search(ctx); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// searchTag checks the signatures under the tag that cosign gives them.
func (q *question) searchTag(ctx context.Context) (bool, error) {
	d, body, err := q.repository.Manifests().FetchReference(ctx, signatureTag(q.digest))
	if err != nil {
		return false, q.note(err)
	}
	data, err := readBounded(body, d, maxSignatureManifest)
	if err != nil {
		return false, q.note(err)
	}
	return q.searchManifest(ctx, data)
}

// signatureTag returns the tag under which cosign keeps the signatures of a digest.
func signatureTag(sum string) string { return "sha256-" + sum + ".sig" }

// searchReferrers checks the manifests that refer to the artifact.
func (q *question) searchReferrers(ctx context.Context) (bool, error) {
	found := false
	subject := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.NewDigestFromEncoded(digest.SHA256, q.digest)}
	err := q.repository.Referrers(ctx, subject, "", func(page []ocispec.Descriptor) error {
		for _, d := range page {
			isSignature := d.ArtifactType == "" || d.ArtifactType == signatureType || attestation.IsBundleType(d.ArtifactType)
			if found || !isSignature || d.MediaType != ocispec.MediaTypeImageManifest {
				continue
			}
			if q.looked >= maxSignatures {
				return errTooMany
			}
			data, err := q.fetch(ctx, q.repository.Manifests(), d, maxSignatureManifest)
			if err == nil {
				found, err = q.searchManifest(ctx, data)
			}
			if err = q.note(err); err != nil {
				return err
			}
		}
		return nil
	})
	if found {
		return true, nil
	}
	return false, q.note(err)
}

// searchManifest checks the signatures that are the layers of a manifest.
func (q *question) searchManifest(ctx context.Context, data []byte) (bool, error) {
	var m ocispec.Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return false, q.note(unsigned("has a manifest of signatures that is not JSON as the specification has it"))
	}
	for _, layer := range m.Layers {
		isPayload, isBundle := layer.MediaType == payloadLayer, attestation.IsBundleType(layer.MediaType)
		if !isPayload && !isBundle {
			continue
		}
		if q.looked >= maxSignatures {
			return false, errTooMany
		}
		q.looked++
		signed, err := q.fetch(ctx, q.repository.Blobs(), layer, maxSignature)
		switch {
		case err != nil:
		case isBundle:
			err = q.policy.VerifyBundle(q.digest, signed, func() ([]byte, error) { return q.manifest(ctx) })
		default:
			err = q.verifyPayload(signed, layer.Annotations[signatureKey])
		}
		if err == nil {
			return true, nil
		}
		if err = q.note(err); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (q *question) verifyPayload(payload []byte, text string) error {
	signature, err := base64.StdEncoding.DecodeString(text)
	if err != nil || text == "" {
		return unsigned("has a signature that is not base64")
	}
	return q.policy.VerifyPayload(q.digest, payload, signature)
}

// manifest returns the bytes of the artifact's own manifest.
func (q *question) manifest(ctx context.Context) ([]byte, error) {
	if q.signed != nil {
		return q.signed, nil
	}
	d := ocispec.Descriptor{Digest: digest.NewDigestFromEncoded(digest.SHA256, q.digest)}
	_, body, err := q.repository.Manifests().FetchReference(ctx, d.Digest.String())
	if err != nil {
		return nil, err
	}
	q.signed, err = readBounded(body, d, maxManifest)
	return q.signed, err
}

// searchProvenance checks the provenance file that Helm pushes beside a chart.
func (q *question) searchProvenance(ctx context.Context) (bool, error) {
	data, err := q.manifest(ctx)
	if err != nil {
		return false, q.note(err)
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return false, q.note(unsigned("has a manifest that is not JSON as the specification has it"))
	}
	var archive, provenance ocispec.Descriptor
	for _, layer := range m.Layers {
		switch {
		case layer.MediaType == chartLayer && archive.Digest == "":
			archive = layer
		case layer.MediaType == provenanceLayer && provenance.Digest == "":
			provenance = layer
		}
	}
	if archive.Digest == "" || provenance.Digest == "" {
		return false, nil
	}
	q.looked++
	message, err := q.fetch(ctx, q.repository.Blobs(), provenance, attestation.MaxProvenance)
	if err == nil {
		var says attestation.Provenance
		says, err = q.policy.VerifyProvenance(attestation.Archive{
			Chart: path.Base(q.repository.Reference.Repository), Digest: archive.Digest.Encoded(),
		}, message, q.talk.upstream.params.Now())
		q.version = says.Version
	}
	if err == nil {
		return true, nil
	}
	return false, q.note(err)
}

// source fetches content by its descriptor.
type source interface {
	Fetch(ctx context.Context, target ocispec.Descriptor) (io.ReadCloser, error)
}

// fetch returns content that has the digest of its descriptor.
func (q *question) fetch(ctx context.Context, from source, d ocispec.Descriptor, limit int64) ([]byte, error) {
	if _, err := sha256Of(d.Digest); err != nil {
		return nil, unsigned("has a signature whose digest is not SHA-256")
	}
	if d.Size < 0 || d.Size > limit { // before anybody downloads it
		return nil, unsigned("has a signature of more than %d bytes", limit)
	}
	body, err := from.Fetch(ctx, d)
	if err != nil {
		return nil, err
	}
	return readBounded(body, d, limit)
}

// readBounded reads a body to its end and closes it. The bytes have the digest of the descriptor.
func readBounded(body io.ReadCloser, d ocispec.Descriptor, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err = errors.Join(err, body.Close()); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	switch {
	case int64(len(data)) > limit:
		return nil, unsigned("has a signature of more than %d bytes", limit)
	case d.Digest.Algorithm() != digest.SHA256 || hex.EncodeToString(sum[:]) != d.Digest.Encoded():
		return nil, unsigned("has a signature whose bytes do not have their digest")
	}
	return data, nil
}

// note notes an error that is about a signature, and returns any other.
func (q *question) note(err error) error {
	if err == nil || errors.Is(err, errTooMany) {
		return err
	}
	if _, isBad := errors.AsType[*signers.RejectedError](err); isBad {
		q.last = err
		return nil
	}
	if _, isBad := errors.AsType[*mirror.ArtifactError](err); isBad {
		q.last = unsigned("has a manifest or signature that cannot be used")
		return nil
	}
	if errors.Is(err, errdef.ErrNotFound) { // unsigned, or the signed artifact is gone
		return nil
	}
	if errors.Is(err, errdef.ErrTooManyPages) {
		return errTooMany
	}
	if errors.Is(err, errdef.ErrSizeExceedsLimit) || isProtocol(err) {
		q.last = unsigned("has a list of signatures that cannot be read")
		return nil
	}
	if answer, ok := errors.AsType[*errcode.ErrorResponse](err); ok && isUnknownRequest(answer.StatusCode) {
		return nil // no list of referrers here
	}
	return err
}

// isUnknownRequest reports whether a status comes from registries that do not know the referrers
// API.
func isUnknownRequest(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusNotImplemented:
		return true
	}
	return false
}

func unsigned(format string, args ...any) error {
	return &signers.RejectedError{Why: fmt.Sprintf(format, args...)}
}

// budget is a client that sends a bounded number of requests.
type budget struct {
	below remote.Client
	sent  atomic.Int64
}

// Do implements [remote.Client].
func (b *budget) Do(req *http.Request) (*http.Response, error) {
	if b.sent.Add(1) > maxAsk {
		return nil, errTooMany
	}
	return b.below.Do(req)
}
