// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/testkit/signtest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring/verify"
)

func artifacts() mirror.Content {
	return mirror.Content{FreshAt: time.Unix(1, 0), Policy: "another", Refs: mirror.NewRefs([]mirror.Ref{
		{Name: "refs/tags/1.0.0", Object: "a", Commit: "a"},
		{Name: "refs/tags/1.1.0", Object: "b", Commit: "b", Held: "has no signature", GoodObject: "a", GoodCommit: "a"},
		{Name: "refs/tags/1.2.0", Object: "c", Commit: "c", Held: mirror.NotVerified},
		{Name: "refs/tags/1.3.0", Object: "e", Commit: "e", Held: mirror.Republished, GoodObject: "d", GoodCommit: "d"},
		{Name: "refs/tags/1.4.0"},
	})}
}

// TestNewPolicyOfArtifacts holds everything back that the upstream was not asked about, and gives
// everything free where no signature is required, except what immutable repositories hold back.
func TestNewPolicyOfArtifacts(t *testing.T) {
	t.Parallel()
	key := signtest.NewKey(t, signtest.P256).PublicKey(t)
	strict := verify.New(upstream.Verification{Mode: upstream.ModeArtifact, CosignKeys: key})
	before := artifacts()
	got, err := strict.Admit(t.Context(), nil, before, before)
	if err != nil || !strict.HasVerified(got) || strict.HasVerified(before) || !strict.IsRequired() {
		t.Fatalf("got %+v (%v), want it of the policy", got, err)
	}
	want := mirror.Refs{
		{Name: "refs/tags/1.0.0", Object: "a", Commit: "a", Held: mirror.NotVerified},
		{Name: "refs/tags/1.1.0", Object: "b", Commit: "b", Held: mirror.NotVerified},
		{Name: "refs/tags/1.2.0", Object: "c", Commit: "c", Held: mirror.NotVerified},
		{Name: "refs/tags/1.3.0", Object: "d", Commit: "d", Held: mirror.NotVerified},
		{Name: "refs/tags/1.4.0"},
	}
	if diff := cmp.Diff(want, got.Refs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if problem, names := strict.Problem(got, nil, time.Now()); problem != nil || names != nil {
		t.Errorf("got %+v about %q, want none before anybody resolves", problem, names)
	}
	_, isRejected := errors.AsType[*mirror.RejectedError](strict.CheckCommit(t.Context(), nil, got, "a"))
	if err := strict.CheckCommit(t.Context(), nil, before, "a"); err != nil || !isRejected {
		t.Errorf("got %v for what a ref delivers, and rejected is %v for what none does", err, isRejected)
	}

	open := verify.New(upstream.Verification{})
	got, err = open.Admit(t.Context(), nil, before, before)
	if err != nil || got.Policy != "" {
		t.Fatalf("got %+v (%v)", got, err)
	}
	for i, ref := range got.Refs {
		if isImmutable := i == 3; isImmutable != (ref.Held == mirror.Republished) || !isImmutable && (ref.Held != "" || ref.GoodCommit != "") {
			t.Errorf("got %+v without a policy", ref)
		}
	}

	broken := verify.New(upstream.Verification{Mode: upstream.ModeArtifact, CosignKeys: "hello"})
	_, err = broken.Admit(t.Context(), nil, before, before)
	if failed, ok := errors.AsType[*mirror.UpstreamError](err); !ok || failed.Reason != reason.UpstreamSignatureRejected || broken.HasVerified(before) {
		t.Errorf("got %v of keys that cannot be used", err)
	}
}

// TestProblemsOfArtifacts name unsigned artifacts before republished ones.
func TestProblemsOfArtifacts(t *testing.T) {
	t.Parallel()
	key := signtest.NewKey(t, signtest.P256).PublicKey(t)
	strict, open := verify.New(upstream.Verification{Mode: upstream.ModeArtifact, CosignKeys: key}), verify.New(upstream.Verification{})
	c := artifacts()
	problem, names := strict.Problem(c, nil, time.Unix(5, 0))
	if problem == nil || problem.Reason != reason.UpstreamSignatureRejected || !slices.Equal(names, []string{"refs/tags/1.1.0", "refs/tags/1.3.0"}) {
		t.Fatalf("got %+v about %q", problem, names)
	}
	for _, word := range []string{"1 ref is held back", "refs/tags/1.1.0 leads to b, which has no signature; a is delivered instead", "cosign sign"} {
		if !strings.Contains(problem.Message, word) {
			t.Errorf("got %q, want it to have %q", problem.Message, word)
		}
	}
	c.Refs = mirror.NewRefs(slices.DeleteFunc(slices.Clone(c.Refs), func(ref mirror.Ref) bool { return ref.Held == "has no signature" }))
	again, names := open.Problem(c, problem, time.Unix(9, 0))
	if again == nil || again.Reason != reason.UpstreamRepublished || !again.Since.Equal(time.Unix(9, 0)) || !slices.Equal(names, []string{"refs/tags/1.3.0"}) {
		t.Errorf("got %+v about %q", again, names)
	}
	if later, _ := open.Problem(c, again, time.Unix(11, 0)); !later.Since.Equal(again.Since) {
		t.Errorf("got %+v, want it since %s", later, again.Since)
	}
}
