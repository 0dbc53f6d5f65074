// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helmrepo

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/internal/attestation"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Pin implements [mirror.Pinner]. An index names the digest of every version, so only signatures are
// asked for.
func (u *Upstream) Pin(ctx context.Context, p mirror.FetchParams, names []string) (mirror.Content, error) {
	c, err := u.pin(ctx, p, p.Have.Unpinned(names))
	if err != nil {
		return mirror.Content{}, u.explain(ctx, err, p)
	}
	return c, nil
}

func (u *Upstream) pin(ctx context.Context, p mirror.FetchParams, names []string) (mirror.Content, error) {
	policy, err := policyOf(p.Definition)
	if err != nil || len(names) == 0 || p.Have.Policy != policy.Fingerprint() {
		return p.Have, err
	}
	client, err := u.dial(p)
	if err != nil {
		return mirror.Content{}, err
	}
	defer client.close()
	known, err := u.recallAll(p.Definition.UID)
	if err != nil || known.index == nil {
		return mirror.Content{}, fmt.Errorf("read memo: %w", err)
	}
	known.Signatures = known.Signatures.Want(names, u.params.Now())
	isAsked := make(map[string]bool, len(names))
	for _, name := range names {
		isAsked[name] = true
	}
	s := &search{client: client, policy: policy, releases: listReleases(client.base, known.index)}
	c := p.Have
	if c.Refs, err = u.verify(ctx, s, &known, p.Have, p.Have.Refs, func(name string) bool { return isAsked[name] }); err != nil {
		return mirror.Content{}, err
	}
	return u.params.Mirrors.Amend(p, c, known.write)
}

// policyOf returns the policy of a definition. The error is a *mirror.UpstreamError.
func policyOf(def mirror.Definition) (*attestation.Policy, error) {
	policy, err := attestation.New(def.Verification)
	if err != nil {
		return nil, &mirror.UpstreamError{
			Reason:  reason.UpstreamSignatureRejected,
			Message: "The repository's verification cannot be used; correct it in the repository's spec.", Cause: err,
		}
	}
	return policy, nil
}

// search searches for the provenance files of charts.
type search struct {
	client   *client
	policy   *attestation.Policy
	releases []release
	// isRequested asks again about all that is not signed, whatever the pause is.
	isRequested bool
}

// verify returns refs with what each delivers, and puts into the memo what it found out. Without a
// policy it does nothing. about selects the refs that the server may be asked about; nil: about
// every one.
func (u *Upstream) verify(
	ctx context.Context, s *search, m *memo, have mirror.Content, refs mirror.Refs, about func(string) bool,
) (mirror.Refs, error) {
	if !s.policy.IsRequired() {
		m.Signatures, m.header.NextQuestion = attestation.Ledger{}, nil
		return refs, nil
	}
	if m.Notes == nil {
		m.Notes = notes{}
	}
	judge := &attestation.Judge{
		Policy: s.policy, Ledger: m.Signatures, Before: have.Refs, Now: u.params.Now(), About: about, Metrics: u.params.Signatures,
		Again:   func(string) bool { return s.isRequested },
		Subject: func(q attestation.Question) string { return q.Ref + " " + q.Digest },
		Ask: func(ctx context.Context, q attestation.Question) (attestation.Verdict, error) {
			return u.ask(ctx, s, m.Notes, q)
		},
	}
	settled, err := judge.Settle(ctx, refs)
	if err != nil {
		return nil, err
	}
	m.Signatures, m.header.NextQuestion = judge.Ledger, nil
	if at, isDue := judge.NextQuestion(); isDue {
		m.header.NextQuestion = &at
	}
	return settled, nil
}

// ask fetches the provenance file of one archive. A digest that the index lacks is noted as the file
// has it, so that the archive has to have it.
func (u *Upstream) ask(ctx context.Context, s *search, noted notes, q attestation.Question) (attestation.Verdict, error) {
	r, ok := s.find(q)
	if !ok {
		return attestation.Verdict{Why: "is not what the index lists any more"}, nil
	}
	chart, version, _ := strings.Cut(strings.TrimPrefix(r.ref, mirror.TagPrefix), "/")
	archive := attestation.Archive{Chart: chart, Version: version, Digest: noted[r.id]}
	if r.hasDigest {
		archive.Digest = r.id
	}
	address := r.address(s.client.base)
	if at, err := url.Parse(address); err == nil {
		archive.File = path.Base(at.Path)
	}
	message, err := s.client.getProvenance(ctx, address)
	if err == nil && message == nil {
		return attestation.Verdict{Why: s.policy.Missing(0, nil)}, nil
	}
	if err != nil {
		return attestation.Verdict{}, err
	}
	says, err := s.policy.VerifyProvenance(archive, message, u.params.Now())
	if err != nil {
		return attestation.Verdict{Why: s.policy.Missing(1, err)}, nil
	}
	if !r.hasDigest {
		noted[r.id] = says.Digest
	}
	return attestation.Verdict{Version: says.Version}, nil
}

// find returns the release that a question is about.
func (s *search) find(q attestation.Question) (release, bool) {
	for _, r := range s.releases {
		if r.ref == q.Ref && r.id == q.Digest {
			return r, true
		}
	}
	return release{}, false
}
