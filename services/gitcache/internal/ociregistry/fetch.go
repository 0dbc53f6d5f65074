// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry

import (
	"context"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/internal/attestation"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// lookups is how many tags of one repository are looked up at once.
const lookups = 4

// Fetch implements [mirror.Upstream].
func (u *Upstream) Fetch(ctx context.Context, p mirror.FetchParams) (mirror.Content, error) {
	policy, err := policyOf(p.Definition)
	if err != nil {
		return mirror.Content{}, err
	}
	return u.converse(ctx, p, func(t *conversation) (mirror.Content, error) {
		tags, err := t.tags(ctx)
		if err != nil {
			return mirror.Content{}, err
		}
		before, err := readMemo(u.params.Mirrors, p.Definition.UID)
		if err != nil {
			return mirror.Content{}, err
		}
		noted, pinned := before.expire(p.Have.Refs, u.params.Now())
		names := tags
		pinned = slices.DeleteFunc(pinned, func(name string) bool {
			_, isListed := slices.BinarySearch(tags, name)
			if policy.IsRequired() && strings.HasPrefix(name, mirror.DigestPrefix) {
				names = append(slices.Clip(names), name)
				return false
			}
			return !isListed
		})
		last, _ := u.rounds.Get(p.Definition.UID)
		round := noted.nextRound(pinned, last)
		looked, err := t.lookUpAll(ctx, round.names)
		if err != nil {
			return mirror.Content{}, err
		}
		u.rounds.Add(p.Definition.UID, round.last)
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			digest, isLooked := looked[name]
			return isLooked && digest == "" // deleted since the list was made
		})
		refs, noted := noted.settle(names, looked, keptRefs(p.Have.Refs, pinned, looked), p.Definition.Immutable)
		judge := t.judge(policy, noted)
		judge.Again = func(digest string) bool {
			if p.IsRequested {
				return true // another signature may have replaced one, which moves no tag that has a ref
			}
			tag := mirror.TagPrefix + signatureTag(digest)
			_, isListed := slices.BinarySearch(tags, tag)
			_, isKnown := p.Have.Refs.Get(tag)
			return isListed && !isKnown // it has been signed since the last poll
		}
		refs, noted, err = noted.verify(ctx, judge, refs)
		if err != nil {
			return mirror.Content{}, err
		}
		isSame := p.Have.Exists() && slices.Equal(refs, p.Have.Refs) && p.Have.Policy == policy.Fingerprint()
		var c mirror.Content
		if isSame && !judge.HasAsked() {
			c, err = u.params.Mirrors.Unchanged(p)
		} else {
			c, err = u.params.Mirrors.Accept(ctx, p, mirror.Content{Refs: refs, Policy: policy.Fingerprint()}, noted.write)
		}
		c.Notices = round.notices(len(pinned))
		return c, err
	})
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

// judge returns who decides about signatures, with what was noted of them before.
func (t *conversation) judge(policy *attestation.Policy, noted memo) *attestation.Judge {
	return &attestation.Judge{
		Policy: policy, Ledger: noted.ledger(), Before: t.params.Have.Refs, Now: t.upstream.params.Now(), Fits: attestation.FitsTag,
		Metrics: t.upstream.params.Signatures,
		Subject: func(q attestation.Question) string { return q.Digest },
		Ask: func(ctx context.Context, q attestation.Question) (attestation.Verdict, error) {
			return t.ask(ctx, policy, q.Digest)
		},
	}
}

// keptRefs returns the refs of the names that were not looked up, by name.
func keptRefs(have mirror.Refs, names []string, looked map[string]string) map[string]mirror.Ref {
	kept := map[string]mirror.Ref{}
	for _, name := range names {
		if _, isLooked := looked[name]; isLooked {
			continue
		}
		if ref, ok := have.Get(name); ok {
			kept[name] = ref
		}
	}
	return kept
}

// Pin implements [mirror.Pinner].
func (u *Upstream) Pin(ctx context.Context, p mirror.FetchParams, names []string) (mirror.Content, error) {
	policy, err := policyOf(p.Definition)
	if err != nil {
		return mirror.Content{}, err
	}
	names = p.Have.Unpinned(names)
	if len(names) == 0 || p.Have.Policy != policy.Fingerprint() {
		return p.Have, nil
	}
	return u.converse(ctx, p, func(t *conversation) (mirror.Content, error) {
		looked, err := t.lookUpAll(ctx, names)
		if err != nil {
			return mirror.Content{}, err
		}
		noted, err := readMemo(u.params.Mirrors, p.Definition.UID)
		if err != nil {
			return mirror.Content{}, err
		}
		noted = noted.makeRoom(names)
		all := slices.Clone(names)
		for _, ref := range p.Have.Refs {
			if !slices.Contains(names, ref.Name) && !noted.isForgotten(ref.Name) {
				all = append(all, ref.Name)
			}
		}
		for name, digest := range looked {
			if digest != "" {
				noted = noted.pinned(name, digest, u.params.Now())
			}
		}
		all = slices.DeleteFunc(all, func(name string) bool { // the registry does not have it
			digest, isLooked := looked[name]
			return isLooked && digest == ""
		})
		refs, _ := noted.settle(all, looked, keptRefs(p.Have.Refs, all, looked), p.Definition.Immutable)
		judge := t.judge(policy, noted)
		judge.About = func(name string) bool { return slices.Contains(names, name) }
		c := p.Have
		if c.Refs, noted, err = noted.verify(ctx, judge, refs); err != nil {
			return mirror.Content{}, err
		}
		return u.params.Mirrors.Amend(p, c, noted.write)
	})
}

// lookUpAll returns the digests of tags by full name; "" of one that the registry does not have. A
// digest by its own name costs no request.
func (t *conversation) lookUpAll(ctx context.Context, names []string) (map[string]string, error) {
	var mu sync.Mutex // guards looked
	looked := make(map[string]string, len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lookups)
	for _, name := range names {
		if digest, isDigest := strings.CutPrefix(name, mirror.DigestPrefix); isDigest {
			mu.Lock()
			looked[name] = digest
			mu.Unlock()
			continue
		}
		group.Go(func() error {
			digest, err := t.lookUp(ctx, strings.TrimPrefix(name, mirror.TagPrefix))
			mu.Lock()
			defer mu.Unlock()
			looked[name] = digest
			return err
		})
	}
	return looked, group.Wait()
}
