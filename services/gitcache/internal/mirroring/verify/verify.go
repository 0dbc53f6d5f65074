// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package verify decides which commits of a mirror a repository delivers, by the signatures that
// its policy demands.
//
// A [Verifier] is one policy, ready for use. [Verifier.Admit] verifies the refs of a mirror. A ref
// that the policy rejects is held back: it still delivers the last object that passed, or nothing.
// The result is part of the content, so that it travels to followers and survives a restart.
// [Verifier.CheckCommit] verifies a commit that a caller names by its id.
//
// The package trusts no claim of an upstream about its own objects. It reads each object, and looks
// where a signed tag really points.
//
// The signatures of charts and artifacts are not part of a mirror: only the upstream has them. There
// the adapter that fetches decides what refs deliver, by the definition's policy. A Verifier takes its
// decision over; after a change of the policy it holds back everything that the upstream has not been
// asked about.
package verify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/signers"
	"github.com/leatdev/leat/services/gitcache/internal/attestation"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/provenance"
)

// maxNestedTags bounds tags of tags: a tag could point to itself.
const maxNestedTags = 16

// Verifier applies the policy of one definition. It is immutable.
type Verifier struct {
	fingerprint string
	policy      *provenance.Policy
	policyErr   error // the policy cannot be used, so nothing is admitted
	isArtifacts bool  // the policy is for charts and artifacts
}

// New returns the Verifier of a policy. A policy that cannot be used makes [Verifier.Admit] fail.
func New(v upstream.Verification) *Verifier {
	if v.Mode == upstream.ModeArtifact {
		_, err := attestation.New(v)
		return &Verifier{fingerprint: attestation.Fingerprint(v), policyErr: err, isArtifacts: true}
	}
	policy, err := provenance.New(v)
	return &Verifier{fingerprint: provenance.Fingerprint(v), policy: policy, policyErr: err}
}

// IsRequired reports whether the policy demands any signature.
func (v *Verifier) IsRequired() bool { return v.fingerprint != "" }

// HasVerified reports whether the refs of c were verified by this policy.
func (v *Verifier) HasVerified(c mirror.Content) bool { return c.Policy == v.fingerprint }

// Admit returns next with the verification of each of its refs. A ref that has not moved keeps the
// result that before has for it, if the same policy found it. A ref that is held back delivers what
// it delivered before, if the policy accepts that. The error is a *mirror.UpstreamError where the
// policy cannot be used; it matches content.ErrDamaged where the mirror lacks an object that a ref
// leads to.
func (v *Verifier) Admit(ctx context.Context, reader content.Reader, before, next mirror.Content) (mirror.Content, error) {
	if v.policyErr != nil {
		return mirror.Content{}, &mirror.UpstreamError{
			Reason:  reason.UpstreamSignatureRejected,
			Message: "The repository's verification cannot be used; correct it in the repository's spec.", Cause: v.policyErr,
		}
	}
	if v.isArtifacts {
		next.Refs, next.Policy = unasked(next), v.fingerprint
		return next, nil
	}
	p := &pass{verifier: v, reader: reader, rejections: map[string]string{}}
	refs := make(mirror.Refs, 0, len(next.Refs))
	for _, ref := range next.Refs {
		old, _ := before.Refs.Get(ref.Name)
		verified, err := p.verifyRef(ctx, ref, old, v.HasVerified(before))
		if err != nil {
			return mirror.Content{}, fmt.Errorf("verify %s: %w", ref.Name, err)
		}
		refs = append(refs, verified)
	}
	next.Refs, next.Policy = refs, v.fingerprint
	return next, nil
}

// CheckCommit returns nil if a commit that a caller named by its id is delivered. It has to be
// signed itself or, where only tags are signed, a tag has to deliver it. The error is a
// *mirror.RejectedError, or the reader's.
func (v *Verifier) CheckCommit(ctx context.Context, reader content.Reader, c mirror.Content, id string) error {
	if !v.IsRequired() {
		return nil
	}
	if v.isArtifacts { // whichever ref made Resolve return it
		if c.Refs.Delivers(id) {
			return nil
		}
		return &mirror.RejectedError{
			Selector: mirror.Selector{Kind: mirror.SelectCommit, Value: id, Within: mirror.TagPrefix}, Commit: id, Why: mirror.NotVerified,
		}
	}
	rejected := &mirror.RejectedError{
		Selector: mirror.Selector{Kind: mirror.SelectCommit, Value: id}, Commit: id, Why: "no signed tag leads to",
	}
	if !v.policy.Mode.WantsCommit() {
		if c.Refs.Delivers(id) {
			return nil
		}
		return rejected
	}
	why, err := (&pass{verifier: v, reader: reader}).verifyCommit(ctx, id)
	if err != nil || why == "" {
		return err
	}
	rejected.Why = why
	return rejected
}

// unasked returns the refs of artifacts, held back: the upstream has not been asked about any of them
// under the policy that counts now.
func unasked(c mirror.Content) mirror.Refs {
	refs := make(mirror.Refs, 0, len(c.Refs))
	for _, ref := range c.Refs {
		if ref.Commit == "" { // known by name alone
			refs = append(refs, ref)
			continue
		}
		if ref.Held == mirror.Republished && ref.GoodCommit != "" { // the ref still leads to its first target
			ref.Object, ref.Commit = ref.GoodObject, ref.GoodCommit
		}
		ref.Held, ref.GoodObject, ref.GoodCommit = mirror.NotVerified, "", ""
		refs = append(refs, ref)
	}
	return refs
}

// pass verifies the objects of one mirror, each once.
//
// Its methods return why an object is rejected, as a phrase that follows the name of the commit, or
// "" where it passes. Their errors are failures to verify, which prove nothing about the object.
type pass struct {
	verifier   *Verifier
	reader     content.Reader
	rejections map[string]string // by object and name; nil: nothing is remembered
}

// verifyRef returns ref with its verification. old is the ref before it moved; isSamePolicy reports
// that this policy verified it.
func (p *pass) verifyRef(ctx context.Context, ref, old mirror.Ref, isSamePolicy bool) (mirror.Ref, error) {
	if !p.verifier.IsRequired() && ref.Held == mirror.Republished { // an immutable repository: no signature is the reason
		return ref, nil
	}
	ref.Held, ref.GoodObject, ref.GoodCommit = "", "", ""
	switch {
	case !p.verifier.IsRequired() || ref.Commit == "": // a tag of a file delivers nothing anyway
		return ref, nil
	case isSamePolicy && old.Object == ref.Object && old.Held == "":
		return ref, nil
	}
	var err error
	if ref.Held, err = p.rejection(ctx, ref); errors.Is(err, content.ErrCommitNotFound) {
		return ref, errors.Join(content.ErrDamaged, err) // a mirror has the objects that its refs lead to
	}
	if err != nil || ref.Held == "" {
		return ref, err
	}
	// The policy may have changed since these passed, so they are verified again.
	for _, good := range []mirror.Ref{
		{Name: ref.Name, Object: old.Object, Commit: old.Commit},
		{Name: ref.Name, Object: old.GoodObject, Commit: old.GoodCommit},
	} {
		if good.Commit == "" || good.Object == ref.Object {
			continue
		}
		why, err := p.rejection(ctx, good)
		if errors.Is(err, content.ErrCommitNotFound) { // the mirror was cloned again, without it
			continue
		}
		if err != nil {
			return ref, err
		}
		if why == "" {
			ref.GoodObject, ref.GoodCommit = good.Object, good.Commit
			return ref, nil
		}
	}
	return ref, nil
}

// rejection returns why the object of a ref is not delivered.
func (p *pass) rejection(ctx context.Context, ref mirror.Ref) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	mode := p.verifier.policy.Mode
	tag, isTag := strings.CutPrefix(ref.Name, mirror.TagPrefix)
	switch {
	case !isTag && !mode.WantsCommit():
		return mirror.ExcludedBranch, nil
	case isTag && mode.WantsTag():
		why, err := p.once(ref.Object+" "+tag, func() (string, error) { return p.verifyTag(ctx, ref, tag) })
		if why != "" || err != nil {
			return why, err
		}
	}
	return p.once(ref.Commit, func() (string, error) { return p.verifyCommit(ctx, ref.Commit) })
}

// once returns what verifyObject returned for the key before, or calls it. Many refs lead to one
// commit.
func (p *pass) once(key string, verifyObject func() (string, error)) (string, error) {
	if why, ok := p.rejections[key]; ok {
		return why, nil
	}
	why, err := verifyObject()
	if err == nil {
		p.rejections[key] = why
	}
	return why, err
}

func (p *pass) verifyTag(ctx context.Context, ref mirror.Ref, name string) (string, error) {
	if ref.Object == ref.Commit {
		return "a lightweight tag leads to, and those carry no signature", nil
	}
	tag, err := p.reader.Object(ctx, ref.Object)
	if err != nil {
		return "", err
	}
	if tag.Kind != content.KindTag {
		return "a tag leads to that is too long to be read", nil
	}
	why, err := rejectionOf(p.verifier.policy.VerifyTag(tag.Data, name, time.Now()))
	if why == "" && err == nil {
		why, err = p.verifyTarget(ctx, tag.Data, ref.Commit)
	}
	if why != "" {
		why = "a tag leads to that " + why
	}
	return why, err
}

// verifyTarget rejects a signed tag that does not point to the commit. Which commit a tag leads to
// is only the upstream's word until the tags are read: the upstream must not be able to put a
// commit of its choice behind a signed tag.
func (p *pass) verifyTarget(ctx context.Context, tag []byte, commit string) (string, error) {
	for range maxNestedTags {
		id, isTag, err := provenance.Target(tag)
		if err != nil {
			return rejectionOf(err)
		}
		if !isTag && id != commit {
			return "points to another commit", nil
		}
		if !isTag {
			return "", nil
		}
		inner, err := p.reader.Object(ctx, id)
		if err != nil {
			return "", err
		}
		tag = inner.Data
	}
	return "points to tags without end", nil
}

// verifyCommit rejects a commit that is not signed. Where commits need no signature the commit
// still has to exist.
func (p *pass) verifyCommit(ctx context.Context, id string) (string, error) {
	commit, err := p.reader.Object(ctx, id)
	if err != nil {
		return "", err
	}
	policy := p.verifier.policy
	if commit.Kind != content.KindCommit {
		return "is no commit, or one that is too long to be read", nil
	}
	if !policy.Mode.WantsCommit() {
		return "", nil
	}
	if why, err := rejectionOf(policy.VerifyCommit(commit.Data, time.Now())); why != "" || err != nil {
		return why, err
	}
	// Bundles are built from the tree that the back end reads. It has to be the tree that was
	// signed, whatever the back end makes of a commit with two tree lines.
	signed, err := provenance.Tree(commit.Data)
	if err != nil {
		return rejectionOf(err)
	}
	read, err := p.reader.Tree(ctx, id, "")
	if err == nil && read != signed {
		return "can be read in two ways", nil
	}
	return "", err
}

// rejectionOf separates a rejection from a failure to verify.
func rejectionOf(err error) (string, error) {
	if rejected, ok := errors.AsType[*signers.RejectedError](err); ok {
		return rejected.Why, nil
	}
	return "", err
}
