// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/signers"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/provenance"
)

// judge decides what of a mirror is delivered. It is immutable.
type judge struct {
	fingerprint string
	policy      *provenance.Policy
	broken      error // the policy cannot be used: nothing is judged
}

func newJudge(v Verification) *judge {
	policy, err := provenance.New(v.Mode, v.PGPKeys, v.SSHAllowedSigners)
	return &judge{fingerprint: v.Fingerprint(), policy: policy, broken: err}
}

// admit returns next with what of its refs is delivered. Whatever before says about a ref that has not moved is kept, where
// the policy is the same; otherwise the ref is judged anew. A ref that is held back delivers the last that it delivered
// before, if the policy lets that through.
func (j *judge) admit(ctx context.Context, reader content.Reader, before, next Content) (Content, error) {
	if j.broken != nil {
		return Content{}, &UpstreamError{
			Reason:  ReasonSignatureRejected,
			Message: "The repository's verification cannot be used; correct it in the repository's spec.", Cause: j.broken,
		}
	}
	s := &session{judge: j, reader: reader, known: map[string]string{}}
	refs := make(Refs, 0, len(next.Refs))
	for _, ref := range next.Refs {
		old, _ := before.Refs.Get(ref.Name)
		judged, err := s.settle(ctx, ref, old, before.Policy == j.fingerprint)
		if err != nil {
			return Content{}, fmt.Errorf("verify %s: %w", ref.Name, err)
		}
		refs = append(refs, judged)
	}
	next.Refs, next.Policy = refs, j.fingerprint
	return next, nil
}

// session judges the objects of one mirror, each once.
type session struct {
	*judge
	reader content.Reader
	known  map[string]string // verdicts by object and name
}

// settle judges a ref. old is what it was before, same tells that it was judged by the same policy.
func (s *session) settle(ctx context.Context, ref, old Ref, same bool) (Ref, error) {
	ref.Held, ref.GoodObject, ref.GoodCommit = "", "", ""
	switch {
	case s.fingerprint == "" || ref.Commit == "": // a tag of a file delivers nothing anyway
		return ref, nil
	case same && old.Object == ref.Object && old.Held == "":
		return ref, nil
	}
	var err error
	if ref.Held, err = s.verdict(ctx, ref); err != nil || ref.Held == "" {
		return ref, err
	}
	for _, good := range []Ref{
		{Name: ref.Name, Object: old.Object, Commit: old.Commit},
		{Name: ref.Name, Object: old.GoodObject, Commit: old.GoodCommit},
	} {
		if good.Commit == "" || good.Object == ref.Object {
			continue
		}
		why, err := s.verdict(ctx, good)
		if errors.Is(err, content.ErrCommitNotFound) { // the mirror was made anew, without it
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

// verdict tells why what a ref leads to is not delivered; empty: it is.
func (s *session) verdict(ctx context.Context, ref Ref) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	tag, isTag := strings.CutPrefix(ref.Name, TagPrefix)
	switch {
	case !isTag && !s.policy.Mode.WantsCommit():
		return branchExcluded, nil
	case isTag && s.policy.Mode.WantsTag():
		why, err := s.remember(ref.Object+" "+tag, func() (string, error) { return s.tag(ctx, ref, tag) })
		if why != "" || err != nil {
			return why, err
		}
	}
	return s.remember(ref.Commit, func() (string, error) { return s.commit(ctx, ref.Commit) })
}

func (s *session) remember(key string, find func() (string, error)) (string, error) {
	if why, ok := s.known[key]; ok {
		return why, nil
	}
	why, err := find()
	if err == nil {
		s.known[key] = why
	}
	return why, err
}

func (s *session) tag(ctx context.Context, ref Ref, name string) (string, error) {
	if ref.Object == ref.Commit {
		return "a lightweight tag leads to, and those carry no signature", nil
	}
	tag, err := s.reader.Object(ctx, ref.Object)
	if err != nil {
		return "", err
	}
	if tag.Kind != content.KindTag {
		return "a tag leads to that is none", nil
	}
	why, err := phrase(s.policy.VerifyTag(tag.Data, name, time.Now()))
	if why != "" {
		why = "a tag leads to that " + why
	}
	return why, err
}

// commit tells why a commit is not delivered. Also where commits need no signature it has to be there.
func (s *session) commit(ctx context.Context, id string) (string, error) {
	commit, err := s.reader.Object(ctx, id)
	if err != nil {
		return "", err
	}
	if commit.Kind != content.KindCommit {
		return "is no commit", nil
	}
	if !s.policy.Mode.WantsCommit() {
		return "", nil
	}
	return phrase(s.policy.VerifyCommit(commit.Data, time.Now()))
}

// phrase tells a verdict from a failure.
func phrase(err error) (string, error) {
	if rejected, ok := errors.AsType[*signers.RejectedError](err); ok {
		return rejected.Why, nil
	}
	return "", err
}

// checkCommit tells whether a commit that was named by its id is delivered: it has to be signed itself, or, where only tags
// are, be what one of them delivers. The error is a *RejectedError, or the reader's.
func (j *judge) checkCommit(ctx context.Context, reader content.Reader, c Content, id string) error {
	if j.fingerprint == "" {
		return nil
	}
	rejected := &RejectedError{Selector: Selector{Kind: SelectCommit, Value: id}, Commit: id, Why: "no signed tag leads to"}
	if !j.policy.Mode.WantsCommit() {
		if c.Refs.delivers(id) {
			return nil
		}
		return rejected
	}
	why, err := (&session{judge: j, reader: reader}).commit(ctx, id)
	if err != nil || why == "" {
		return err
	}
	rejected.Why = why
	return rejected
}
