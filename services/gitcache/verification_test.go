// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/internal/testkit/signtest"
	"github.com/leatdev/leat/services/gitcache"
)

const (
	byCommit       = gitcachev1.VerificationMode_VERIFICATION_MODE_COMMIT
	byTag          = gitcachev1.VerificationMode_VERIFICATION_MODE_TAG
	byTagAndCommit = gitcachev1.VerificationMode_VERIFICATION_MODE_TAG_AND_COMMIT

	signatureRejected = errorsv1.Reason_REASON_UPSTREAM_SIGNATURE_REJECTED
)

func verified(def *gitcachev1.RepositoryDefinition, mode gitcachev1.VerificationMode, keys string) *gitcachev1.RepositoryDefinition {
	def.Version++
	def.Verification = &gitcachev1.Verification{Mode: mode, SshAllowedSigners: keys}
	return def
}

func (r *replica) commitOf(t *testing.T, repository string, ref *typev1.GitRef) (string, error) {
	t.Helper()
	resp, err := r.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: &typev1.Source{Repository: repository, Ref: ref}})
	return resp.GetSnapshot().GetCommit(), err
}

func (r *replica) wantCommit(t *testing.T, ref *typev1.GitRef, want string) {
	t.Helper()
	if got, err := r.commitOf(t, "demo", ref); got != want || err != nil {
		t.Errorf("%v: got %s (%v), want %s", ref, got, err, want)
	}
}

func (r *replica) wantRejected(t *testing.T, ref *typev1.GitRef, words ...string) {
	t.Helper()
	_, err := r.commitOf(t, "demo", ref)
	wantMessage(t, err, signatureRejected, words...)
}

func held(s *gitcachev1.RepositoryState) bool {
	return ready(s) && s.GetProblem().GetReason() == signatureRejected
}

func untroubled(s *gitcachev1.RepositoryState) bool { return ready(s) && s.GetProblem() == nil }

func tag(name string) *typev1.GitRef { return &typev1.GitRef{Selector: &typev1.GitRef_Tag{Tag: name}} }

func TestUnsignedPushLeavesTheLastGoodCommit(t *testing.T) {
	t.Parallel()
	server, redis, signer := gittest.New(t), redistest.Start(t), signtest.New(t)
	repo := server.Repo(t, "demo")
	good := signer.Commit(t, repo, "main", map[string]string{"a": "1"})
	dir := t.TempDir()
	r := start(t, redis.URL(), dir)
	r.put(t, verified(definition("demo", repo.URL()), byCommit, signer.PublicKey()))
	r.state(t, "demo", untroubled)
	r.wantCommit(t, branch("main"), good)

	bad := repo.Commit(t, "main", map[string]string{"a": "2"})
	state := r.refresh(t, "demo")
	for _, word := range []string{"refs/heads/main", bad, "is not signed", good} {
		if !strings.Contains(state.GetProblem().GetMessage(), word) {
			t.Errorf("got the problem %q, want it to hold %q", state.GetProblem().GetMessage(), word)
		}
	}
	check := func(r *replica) {
		t.Helper()
		for _, ref := range []*typev1.GitRef{nil, branch("main"), {Selector: &typev1.GitRef_Name{Name: "refs/heads/main"}}, commit(good), commit(good[:8])} {
			r.wantCommit(t, ref, good)
		}
		r.wantRejected(t, commit(bad), bad, "is not signed")
		r.wantRejected(t, commit(bad[:10]), bad)
		refs, err := r.ListRefs(t.Context(), &gitcachev1.ListRefsRequest{Repository: "demo"})
		if got := refs.GetRefs(); err != nil || len(got) != 1 || got[0].GetCommit() != good || !strings.Contains(got[0].GetHeldBack(), bad) {
			t.Errorf("got refs %v (%v), want main at %s, %s held back", got, err, good, bad)
		}
	}
	check(r)
	repo.ResetStats()
	r.refresh(t, "demo")
	if got := repo.Stats(); got.Fetches != 0 {
		t.Errorf("got %+v, want no fetch: nothing moved", got)
	}
	r.stop()

	again := start(t, redis.URL(), dir) // what was good last is on its disk
	again.state(t, "demo", held)
	check(again)
	better := signer.Commit(t, repo, "main", map[string]string{"a": "3"})
	if state := again.refresh(t, "demo"); state.GetProblem() != nil {
		t.Errorf("got the problem %v, want none", state.GetProblem())
	}
	again.wantCommit(t, branch("main"), better)
	again.wantRejected(t, commit(bad), "is not signed") // though a signed one descends from it
}

func TestRefThatNeverHadASignedCommit(t *testing.T) {
	t.Parallel()
	server, redis, signer := gittest.New(t), redistest.Start(t), signtest.New(t)
	repo := server.Repo(t, "demo")
	good := signer.Commit(t, repo, "main", map[string]string{"a": "1"})
	bad := signtest.New(t).Commit(t, repo, "side", map[string]string{"a": "1"})
	r := start(t, redis.URL(), t.TempDir())
	r.put(t, verified(definition("demo", repo.URL()), byCommit, signer.PublicKey()))
	r.state(t, "demo", held)
	r.wantCommit(t, branch("main"), good)
	r.wantRejected(t, branch("side"), "refs/heads/side", bad, "SHA256:", "may not sign here", "add the signer's key")
}

func TestModesOfVerification(t *testing.T) {
	t.Parallel()
	server, redis, signer := gittest.New(t), redistest.Start(t), signtest.New(t)
	repo := server.Repo(t, "demo")
	plain := repo.Commit(t, "main", map[string]string{"a": "1"})
	signer.Tag(t, repo, "v1.0.0", plain)
	repo.Tag(t, "v1.1.0", plain)
	repo.AnnotatedTag(t, "v1.2.0", plain)
	signed := signer.Commit(t, repo, "main", map[string]string{"a": "2"})
	signer.Tag(t, repo, "v2.0.0", signed)
	repo.AnnotatedTag(t, "v2.1.0", signed)
	repo.Git(t, "update-ref", "refs/tags/v3.0.0", "refs/tags/v1.0.0") // an old release under a new name
	r := start(t, redis.URL(), t.TempDir())
	def := definition("demo", repo.URL())
	const none = ""
	for mode, want := range map[gitcachev1.VerificationMode]map[string]string{
		byCommit: {"main": signed, "v1.0.0": none, "v1.1.0": none, "v1.2.0": none, "v2.0.0": signed, "v2.1.0": signed, "v3.0.0": none, "*": signed, "<2": none, plain: none, signed: signed},
		byTag:    {"main": none, "v1.0.0": plain, "v1.1.0": none, "v1.2.0": none, "v2.0.0": signed, "v2.1.0": none, "v3.0.0": none, "*": signed, "<2": plain, plain: plain, signed: signed},
		byTagAndCommit: {
			"main": signed, "v1.0.0": none, "v1.1.0": none, "v1.2.0": none, "v2.0.0": signed, "v2.1.0": none, "v3.0.0": none,
			"*": signed, "<2": none, plain: none, signed: signed,
		},
	} {
		r.put(t, verified(def, mode, signer.PublicKey()))
		await.Success(t, "the answers of the new mode", func(ctx context.Context) error { // the old mode's answers end with the first of the new one
			resp, err := r.GetRepository(ctx, &gitcachev1.GetRepositoryRequest{Name: "demo"})
			if err == nil && (resp.GetRepository().GetVerification().GetMode() != mode || !held(resp.GetState())) {
				err = io.ErrNoProgress
			}
			if err == nil {
				_, err = r.ListRefs(ctx, &gitcachev1.ListRefsRequest{Repository: "demo"})
			}
			return err
		})
		for name, commitID := range want {
			ref := tag(name)
			switch {
			case name == "main":
				ref = branch(name)
			case strings.ContainsAny(name, "*<"):
				ref = semver(name)
			case len(name) == 40:
				ref = commit(name)
			}
			got, err := r.commitOf(t, "demo", ref)
			if got != commitID || (commitID == none) != (err != nil) {
				t.Errorf("%s: %s: got %q (%v), want %q", mode, name, got, err, commitID)
			}
			if err != nil {
				wantReason(t, err, signatureRejected)
			}
		}
	}
}

func TestPolicyComesLater(t *testing.T) {
	t.Parallel()
	server, redis, signer, other := gittest.New(t), redistest.Start(t), signtest.New(t), signtest.New(t)
	repo := server.Repo(t, "demo")
	good := signer.Commit(t, repo, "main", map[string]string{"a": "1"})
	r := start(t, redis.URL(), t.TempDir())
	def := definition("demo", repo.URL())
	r.put(t, def)
	r.state(t, "demo", untroubled)
	bad := repo.Commit(t, "side", map[string]string{"a": "1"})
	r.refresh(t, "demo")
	r.wantCommit(t, branch("side"), bad)

	server.Stop() // everything that follows is judged from the mirror
	r.put(t, verified(def, byCommit, signer.PublicKey()))
	r.state(t, "demo", func(s *gitcachev1.RepositoryState) bool { return s.GetProblem().GetReason() == signatureRejected })
	r.wantCommit(t, branch("main"), good)
	r.wantRejected(t, branch("side"), bad)

	r.put(t, verified(def, byCommit, other.PublicKey()))
	await.Success(t, "the refusal of the branch", func(ctx context.Context) error { return r.answers(ctx, branch("main"), "", signatureRejected) })

	def.Version, def.Verification = def.GetVersion()+1, nil
	r.put(t, def)
	await.Success(t, "the branch without verification", func(ctx context.Context) error { return r.answers(ctx, branch("side"), bad, 0) })
	r.wantCommit(t, branch("main"), good)
}

func (r *replica) answers(ctx context.Context, ref *typev1.GitRef, want string, reason errorsv1.Reason) error {
	resp, err := r.ResolveSnapshot(ctx, &gitcachev1.ResolveSnapshotRequest{Source: &typev1.Source{Repository: "demo", Ref: ref}})
	if got := resp.GetSnapshot().GetCommit(); got != want || rpcerr.ReasonOf(err) != reason {
		return fmt.Errorf("got %s (%w), want %s", got, err, want)
	}
	return nil
}

func TestFollowerDeliversWhatTheOwnerDoes(t *testing.T) {
	t.Parallel()
	server, redis, signer := gittest.New(t), redistest.Start(t), signtest.New(t)
	repo := server.Repo(t, "demo")
	good := signer.Commit(t, repo, "main", map[string]string{"a": "1"})
	soon := func(c *gitcache.Config) { c.Rebalance = 500 * time.Millisecond }
	one, two := start(t, redis.URL(), t.TempDir(), soon), start(t, redis.URL(), t.TempDir(), soon)
	one.put(t, verified(definition("demo", repo.URL()), byCommit, signer.PublicKey()))
	one.state(t, "demo", untroubled)
	repo.Commit(t, "main", map[string]string{"a": "2"})
	state := one.refresh(t, "demo")
	owner, follower := one, two
	if state.GetOwner() == two.url {
		owner, follower = two, one
	}
	mirrorOf := func(r *replica) (*gitcachev1.GetMirrorResponse, error) {
		return dialReplica(t, r.url, "gitcache").GetMirror(t.Context(), &gitcachev1.GetMirrorRequest{Repository: "demo", Uid: "uid-demo"})
	}
	want, err := mirrorOf(owner)
	if err != nil {
		t.Fatal(err)
	}
	if ref := want.GetRefs()[0]; ref.GetGoodCommit() != good || ref.GetHeld() == "" || want.GetPolicy() == "" {
		t.Errorf("got the ref %v under %q, want it held, %s instead", ref, want.GetPolicy(), good)
	}
	await.Success(t, "the follower's copy", func(context.Context) error {
		got, err := mirrorOf(follower)
		if err == nil && got.GetFingerprint() != want.GetFingerprint() {
			err = io.ErrNoProgress
		}
		return err
	})
	server.Stop()
	owner.stop()
	await.Success(t, "the commit from the follower", func(ctx context.Context) error { return follower.answers(ctx, branch("main"), good, 0) })
}

func TestKeysAreChecked(t *testing.T) {
	t.Parallel()
	r := start(t, redistest.Start(t).URL(), t.TempDir())
	for field, v := range map[string]*gitcachev1.Verification{
		"mode":                {SshAllowedSigners: signtest.New(t).PublicKey()},
		"pgp_keys":            {Mode: byCommit},
		"ssh_allowed_signers": {Mode: byCommit, SshAllowedSigners: "nobody"},
	} {
		def := definition("demo", "https://git.invalid/demo.git")
		def.Verification = v
		_, err := r.PutRepository(t.Context(), &gitcachev1.PutRepositoryRequest{Repository: def})
		wantField(t, err, "repository.verification."+field)
	}
}
