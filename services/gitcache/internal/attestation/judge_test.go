// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package attestation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/testkit/signtest"
	"github.com/leatdev/leat/services/gitcache/internal/attestation"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// court has a repository's refs decided, fetch after fetch.
type court struct {
	policy  *attestation.Policy
	ledger  attestation.Ledger
	refs    mirror.Refs
	now     time.Time
	signed  map[string]bool // digests
	asked   []string        // digests, since the last look
	isNews  func(string) bool
	about   func(string) bool
	fails   error
	version string // that charts were signed as
	next    func() (time.Time, bool)
}

func newCourt(t *testing.T) *court {
	t.Helper()
	return &court{
		policy: policy(t, upstream.Verification{CosignKeys: signtest.NewKey(t, signtest.P256).PublicKey(t)}),
		now:    time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), signed: map[string]bool{},
	}
}

func (c *court) want(names ...string) { c.ledger = c.ledger.Want(names, c.now) }

// fetch decides over refs: name → digest.
func (c *court) fetch(refs ...mirror.Ref) error {
	j := &attestation.Judge{
		Policy: c.policy, Ledger: c.ledger, Before: c.refs, Now: c.now, Again: c.isNews, About: c.about, Fits: attestation.FitsTag,
		Subject: func(q attestation.Question) string { return q.Digest },
		Ask: func(_ context.Context, q attestation.Question) (attestation.Verdict, error) {
			c.asked = append(c.asked, q.Digest)
			if c.fails != nil {
				return attestation.Verdict{}, c.fails
			}
			if c.signed[q.Digest] {
				return attestation.Verdict{Version: c.version}, nil
			}
			return attestation.Verdict{Why: "has no signature"}, nil
		},
	}
	settled, err := j.Settle(context.Background(), mirror.NewRefs(refs))
	if err == nil {
		c.refs, c.ledger, c.next = settled, j.Ledger, j.NextQuestion
	}
	return err
}

func (c *court) mustFetch(t *testing.T, refs ...mirror.Ref) {
	t.Helper()
	if err := c.fetch(refs...); err != nil {
		t.Fatal(err)
	}
}

// wantRef wants what a ref delivers, and why it is held back.
func (c *court) wantRef(t *testing.T, name, delivered, held string) {
	t.Helper()
	ref, _ := c.refs.Get(mirror.TagPrefix + name)
	if ref.Delivered() != delivered || ref.Held != held {
		t.Errorf("%s: got %+v, want %q delivered and it held for %q", name, ref, delivered, held)
	}
}

func (c *court) wantAsked(t *testing.T, digests ...string) {
	t.Helper()
	if !slices.Equal(c.asked, digests) {
		t.Errorf("got questions about %q, want %q", c.asked, digests)
	}
	c.asked = nil
}

func at(name, digest string) mirror.Ref {
	return mirror.Ref{Name: mirror.TagPrefix + name, Object: digest, Commit: digest}
}

const (
	notVerified = mirror.NotVerified
	missing     = "has no signature"
)

// TestNothingIsAskedOrDeliveredUnresolved asks only about resolved refs, once.
func TestNothingIsAskedOrDeliveredUnresolved(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	c.signed["a"] = true
	refs := []mirror.Ref{at("1.0.0", "a"), at("2.0.0", "b"), {Name: mirror.TagPrefix + "3.0.0"}}
	c.mustFetch(t, refs...)
	c.wantAsked(t)
	c.wantRef(t, "1.0.0", "", notVerified)
	c.want("refs/tags/1.0.0")
	c.mustFetch(t, refs...)
	c.mustFetch(t, refs...)
	c.wantAsked(t, "a")
	c.wantRef(t, "1.0.0", "a", "")
	c.wantRef(t, "2.0.0", "", notVerified)
	c.wantRef(t, "3.0.0", "", "")
	if c.ledger.Policy != c.policy.Fingerprint() {
		t.Errorf("got the ledger %+v, want it of the policy", c.ledger)
	}
}

// TestLastGoodArtifactStays delivers what was signed until the next signed one comes.
func TestLastGoodArtifactStays(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	c.signed["a"], c.signed["c"] = true, true
	c.want("refs/tags/latest")
	c.mustFetch(t, at("latest", "a"))
	c.mustFetch(t, at("latest", "b"))
	c.wantRef(t, "latest", "a", missing)
	c.mustFetch(t, at("latest", "bb"))
	c.wantRef(t, "latest", "a", missing)
	c.mustFetch(t, at("latest", "c"))
	c.wantRef(t, "latest", "c", "")
	c.wantAsked(t, "a", "b", "bb", "c")
	if _, isDue := c.next(); isDue || len(c.ledger.Verdicts) != 1 || len(c.ledger.Good) != 0 {
		t.Errorf("got %+v, want what no ref leads to forgotten", c.ledger)
	}
}

// TestSignatureArrivesLater asks again, ever more seldom, and at once where there is news.
func TestSignatureArrivesLater(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	c.want("refs/tags/1.0.0")
	polls := 0
	for range 24 * 30 { // a day of polls every two minutes
		c.mustFetch(t, at("1.0.0", "a"))
		c.now = c.now.Add(2 * time.Minute)
		polls++
	}
	asked := len(c.asked)
	if asked < 24 || asked > 45 {
		t.Errorf("got %d questions in %d polls, want about one an hour in the end", asked, polls)
	}
	next, isDue := c.next()
	if !isDue || next.Sub(c.now) > time.Hour {
		t.Errorf("got the next question at %s, now it is %s", next, c.now)
	}
	c.signed["a"], c.asked = true, nil
	c.now = next
	c.mustFetch(t, at("1.0.0", "a"))
	c.wantAsked(t, "a")
	c.wantRef(t, "1.0.0", "a", "")
	if _, isDue := c.next(); isDue {
		t.Error("got another question due, want none about what is signed")
	}

	c.want("refs/tags/2.0.0")
	c.mustFetch(t, at("1.0.0", "a"), at("2.0.0", "b"))
	c.now = c.now.Add(10 * time.Minute)
	c.mustFetch(t, at("1.0.0", "a"), at("2.0.0", "b"))
	c.now, c.asked = c.now.Add(time.Second), nil
	c.mustFetch(t, at("1.0.0", "a"), at("2.0.0", "b"))
	c.wantAsked(t)
	c.isNews = func(digest string) bool { return digest == "b" }
	c.mustFetch(t, at("1.0.0", "a"), at("2.0.0", "b"))
	c.wantAsked(t, "b")
}

// TestNewKeysAskAgain forgets what another policy found, but not what was delivered last.
func TestNewKeysAskAgain(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	c.signed["a"] = true
	c.want("refs/tags/latest")
	c.mustFetch(t, at("latest", "a"))
	c.mustFetch(t, at("latest", "b"))
	c.wantRef(t, "latest", "a", missing)
	c.asked = nil
	c.policy = newCourt(t).policy
	c.refs = mirror.NewRefs([]mirror.Ref{{Name: "refs/tags/latest", Object: "b", Commit: "b", Held: notVerified}})
	c.mustFetch(t, at("latest", "b"))
	c.wantAsked(t, "b", "a")
	c.wantRef(t, "latest", "a", missing)
	c.policy, c.signed = newCourt(t).policy, map[string]bool{} // neither is signed by the new keys
	c.mustFetch(t, at("latest", "b"))
	c.wantRef(t, "latest", "", missing)
}

// TestImmutableArtifacts deliver what they were first, if that is signed.
func TestImmutableArtifacts(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	c.signed["a"] = true
	c.want("refs/tags/1.0.0", "refs/tags/2.0.0")
	republished := func(name, digest, first string) mirror.Ref {
		ref := at(name, digest)
		ref.Held, ref.GoodObject, ref.GoodCommit = mirror.Republished, first, first
		return ref
	}
	c.mustFetch(t, republished("1.0.0", "b", "a"), republished("2.0.0", "d", "c"))
	c.wantRef(t, "1.0.0", "a", mirror.Republished)
	c.wantRef(t, "2.0.0", "", mirror.Republished)
	c.wantAsked(t, "a", "c")
}

// TestChartsFitTheirTags does not let a signed chart become another version.
func TestChartsFitTheirTags(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	c.signed["a"], c.version = true, "1.0.0+b1"
	names := []string{"1.0.0_b1", "v1.0.0_b1", "9.0.0", "latest", "1.0"}
	var refs []mirror.Ref
	for _, name := range names {
		refs = append(refs, at(name, "a"))
		c.want(mirror.TagPrefix + name)
	}
	digestRef := mirror.Ref{Name: mirror.DigestPrefix + "a", Object: "a", Commit: "a"}
	c.want(digestRef.Name)
	c.mustFetch(t, append(refs, digestRef)...)
	c.wantAsked(t, "a")
	for _, name := range names {
		if name == "9.0.0" {
			c.wantRef(t, name, "", `was signed as version "1.0.0+b1"`)
			continue
		}
		c.wantRef(t, name, "a", "")
	}
	if ref, _ := c.refs.Get(digestRef.Name); ref.Delivered() != "a" {
		t.Errorf("got %+v, want the digest delivered", ref)
	}
}

// TestSecQuestionsAreBounded asks about a few at a time, however many are wanted, and forgets who
// wanted them.
func TestSecQuestionsAreBounded(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	var refs []mirror.Ref
	for i := range 3 * attestation.MaxQuestions {
		name := fmt.Sprintf("0.0.%d", i)
		refs = append(refs, at(name, "d"+name))
		c.want(mirror.TagPrefix + name)
	}
	asked := map[string]bool{}
	for round := range 3 {
		c.mustFetch(t, refs...)
		for _, digest := range c.asked {
			asked[digest] = true
		}
		if at, isDue := c.next(); !isDue || at.After(c.now) {
			t.Errorf("got the next question at %s in round %d, want what was left out, or is missing, due now", at, round)
		}
		if len(c.asked) != attestation.MaxQuestions {
			t.Errorf("got %d questions, want %d", len(c.asked), attestation.MaxQuestions)
		}
		c.asked = nil
	}
	if len(asked) != len(refs) {
		t.Errorf("got questions about %d artifacts, want about all %d", len(asked), len(refs))
	}
	c.wantRef(t, "0.0.0", "", missing)
	c.now = c.now.Add(attestation.WantedFor + time.Second)
	c.mustFetch(t, refs...)
	c.wantAsked(t)
	c.wantRef(t, "0.0.0", "", notVerified)
	if _, isDue := c.next(); isDue || len(c.ledger.Wanted) != 0 || len(c.ledger.Verdicts) != 0 {
		t.Errorf("got %+v, want nothing to ask after a month", c.ledger)
	}
	c.mustFetch(t)
	if len(c.ledger.Verdicts) != 0 {
		t.Errorf("got %d verdicts without refs", len(c.ledger.Verdicts))
	}
	c.want("refs/tags/0.0.0")
	c.about = func(name string) bool { return name == "refs/tags/0.0.1" }
	c.mustFetch(t, refs...)
	c.wantAsked(t)
}

// TestFailuresAreNotVerdicts keeps what was known where the upstream cannot be asked.
func TestFailuresAreNotVerdicts(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	c.signed["a"] = true
	c.want("refs/tags/1.0.0")
	c.mustFetch(t, at("1.0.0", "a"))
	c.fails = errors.New("away")
	c.mustFetch(t, at("1.0.0", "a"))
	if err := c.fetch(at("1.0.0", "b")); !errors.Is(err, c.fails) {
		t.Errorf("got %v, want that the upstream is away", err)
	}
	c.fails = nil
	c.mustFetch(t, at("1.0.0", "b"))
	c.wantRef(t, "1.0.0", "a", missing)
}
