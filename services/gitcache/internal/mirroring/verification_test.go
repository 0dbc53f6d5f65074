// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/testkit/signtest"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring/verify"
)

const (
	goodCommit = "aaaa"
	badCommit  = "bbbb"
	nextCommit = "cccc"
)

// signed makes a world whose upstream has main, and commits of which all but one are signed.
func signed(t *testing.T) (world, mirror.Definition) {
	t.Helper()
	signer := signtest.New(t)
	raw := func(message string) string {
		return "tree " + emptyTree + "\nauthor A <a@b.c> 1 +0000\ncommitter A <a@b.c> 1 +0000\n\n" + message + "\n"
	}
	w := newWorld()
	w.upstream.objects = &objects{commits: map[string]string{
		goodCommit: signer.SignCommit(t, raw("good")), badCommit: raw("bad"), nextCommit: signer.SignCommit(t, raw("next")),
	}}
	w.upstream.set(map[string]string{"refs/heads/main": goodCommit}, nil)
	def := definition("demo")
	def.Verification = upstream.Verification{Mode: upstream.ModeCommit, SSHAllowedSigners: signer.PublicKey()}
	return w, def
}

func wantMain(t *testing.T, r *mirroring.Repository, want string) {
	t.Helper()
	c, err := r.Content()
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Resolve(mirror.Selector{Kind: mirror.SelectBranch, Value: "main"})
	if _, rejected := errors.AsType[*mirror.RejectedError](err); got != want || rejected != (want == "") {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
}

func push(t *testing.T, w world, r *mirroring.Repository, commit string) {
	t.Helper()
	w.upstream.set(map[string]string{"refs/heads/main": commit}, nil)
	if _, err := r.Refresh(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func (w world) lastEvent() mirror.Event {
	all := w.events.all()
	return all[len(all)-1]
}

func TestHeldBackRefsMoveNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, def := signed(t)
		set, stop := w.replica(t, "a", nil, def)
		defer stop()
		synctest.Wait()
		r := get(t, set, "demo")
		push(t, w, r, badCommit)
		wantMain(t, r, goodCommit)
		last := w.lastEvent()
		if len(last.Changed) > 0 || last.All || last.State.Problem == nil || last.State.Problem.Reason != reason.UpstreamSignatureRejected {
			t.Errorf("got the event %+v, want one of a problem, and of no ref", last)
		}
		since := last.State.Problem.Since
		time.Sleep(time.Hour) // virtual: polls continue
		if p := r.State().Problem; p == nil || !p.Since.Equal(since) || !strings.Contains(p.Message, badCommit) {
			t.Errorf("got %+v, want the problem that stands since %s", p, since)
		}
		if r.State().Phase != mirror.PhaseReady {
			t.Errorf("got %s, want ready: the upstream is well", r.State().Phase)
		}
		push(t, w, r, nextCommit)
		wantMain(t, r, nextCommit)
		if last := w.lastEvent(); !slices.Equal(last.Changed, []string{"refs/heads/main"}) || last.State.Problem != nil {
			t.Errorf("got the event %+v, want main changed, and no problem", last)
		}
	})
}

func TestNewPolicyCountsBeforeAnythingIsDelivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, strict := signed(t)
		open := strict
		open.Verification = upstream.Verification{}
		set, stop := w.replica(t, "a", nil, open)
		defer stop()
		synctest.Wait()
		r := get(t, set, "demo")
		push(t, w, r, badCommit)
		wantMain(t, r, badCommit)
		w.upstream.set(nil, &mirror.UpstreamError{Reason: reason.UpstreamUnreachable})

		w.upstream.objects.fail(errors.New("disk is slow"))
		set.Apply([]mirror.Definition{strict})
		notReady := new(mirror.NotReadyError)
		if _, err := r.Content(); !errors.As(err, &notReady) || !notReady.Unverified {
			t.Fatalf("got %v, want that it has not been judged", err)
		}
		if _, err := r.Mirrored(); err != nil {
			t.Errorf("got %v, want the mirror for those who copy it", err)
		}
		synctest.Wait()
		if _, err := r.Content(); !errors.Is(err, mirror.ErrNotReady) {
			t.Errorf("got %v while judging fails, want that it is not ready", err)
		}
		w.upstream.objects.fail(nil)
		time.Sleep(20 * time.Second)
		wantMain(t, r, "")
		if last := w.lastEvent(); !slices.Contains(last.Changed, "refs/heads/main") {
			t.Errorf("got the event %+v, want main changed: it delivers nothing now", last)
		}
		set.Apply([]mirror.Definition{open})
		synctest.Wait()
		wantMain(t, r, badCommit)
	})
}

func TestLastGoodCommitIsJudgedToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, def := signed(t)
		set, stop := w.replica(t, "a", nil, def)
		defer stop()
		synctest.Wait()
		r := get(t, set, "demo")
		push(t, w, r, badCommit)
		def.Verification.SSHAllowedSigners += signtest.New(t).PublicKey()
		set.Apply([]mirror.Definition{def})
		synctest.Wait()
		wantMain(t, r, goodCommit)

		def.Verification.SSHAllowedSigners = signtest.New(t).PublicKey()
		set.Apply([]mirror.Definition{def})
		synctest.Wait()
		wantMain(t, r, "")
	})
}

func TestDamageFoundWhileJudging(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, def := signed(t)
		open := def
		open.Verification = upstream.Verification{}
		set, stop := w.replica(t, "a", nil, open)
		defer stop()
		synctest.Wait()
		before := w.upstream.count()
		w.upstream.objects.fail(content.ErrDamaged)
		set.Apply([]mirror.Definition{def})
		synctest.Wait()
		w.upstream.objects.fail(nil)
		time.Sleep(time.Minute)
		if got := w.upstream.count(); got == before {
			t.Error("got no clone of a mirror that is damaged")
		}
		wantMain(t, get(t, set, "demo"), goodCommit)
	})
}

// TestMirrorFromBeforeThePolicy has a mirror as a restart finds it on its disk, or a follower in
// its copy.
func TestMirrorFromBeforeThePolicy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, def := signed(t)
		w.upstream.set(nil, &mirror.UpstreamError{Reason: reason.UpstreamUnreachable})
		ref := mirror.Ref{Name: "refs/heads/main", Object: badCommit, Commit: badCommit}
		onDisk := map[string]mirror.Content{def.UID: {Refs: mirror.Refs{ref}, FreshAt: time.Now(), Epoch: 1}}
		set, stop := w.replica(t, "a", onDisk, def)
		defer stop()
		synctest.Wait()
		wantMain(t, get(t, set, "demo"), "")
	})
}

// TestUpstreamLiesAboutTags has an upstream advertise, for a tag that is signed, commits that it
// does not point to.
func TestUpstreamLiesAboutTags(t *testing.T) {
	t.Parallel()
	w, def := signed(t)
	signer := signtest.New(t)
	def.Verification = upstream.Verification{Mode: upstream.ModeTag, SSHAllowedSigners: signer.PublicKey()}
	tag := func(object, kind, name string) string {
		return signer.SignTag(t, "object "+object+"\ntype "+kind+"\ntag "+name+"\ntagger A <a@b.c> 1 +0000\n\n"+name+"\n")
	}
	all := w.upstream.objects.commits
	all["d1"], all["d2"], all["d3"] = tag(goodCommit, "commit", "v1"), tag("d1", "tag", "v2"), tag("d3", "tag", "v3")
	refs := mirror.NewRefs([]mirror.Ref{
		{Name: "refs/tags/v1", Object: "d1", Commit: goodCommit},
		{Name: "refs/tags/v2", Object: "d2", Commit: goodCommit},
		{Name: "refs/tags/v3", Object: "d3", Commit: goodCommit}, // points to itself
	})
	lies := mirror.NewRefs([]mirror.Ref{
		{Name: "refs/tags/v1", Object: "d1", Commit: badCommit},
		{Name: "refs/tags/v2", Object: "d2", Commit: badCommit},
		{Name: "refs/tags/v4", Object: "d1", Commit: goodCommit},
	})
	for name, test := range map[string]struct {
		refs mirror.Refs
		want []string
	}{"truth": {refs, []string{goodCommit, goodCommit, ""}}, "lies": {lies, []string{"", "", ""}}} {
		admitted, err := verify.New(def.Verification).Admit(t.Context(), w.upstream.objects, mirror.Content{}, mirror.Content{Refs: test.refs})
		if err != nil {
			t.Fatal(err)
		}
		for i, ref := range admitted.Refs {
			if got := ref.Delivered(); got != test.want[i] {
				t.Errorf("%s: %s: got %q (%s), want %q", name, ref.Name, got, ref.Held, test.want[i])
			}
		}
	}
}

func TestDetachedHead(t *testing.T) {
	t.Parallel()
	held := mirror.Ref{Name: "refs/heads/main", Object: badCommit, Commit: badCommit, Held: "is not signed"}
	good := mirror.Ref{Name: "refs/heads/side", Object: goodCommit, Commit: goodCommit}
	for head, want := range map[string]string{badCommit: "", goodCommit: goodCommit} {
		c := mirror.Content{Refs: mirror.NewRefs([]mirror.Ref{held, good}), Head: head, Policy: "some", FreshAt: time.Now()}
		got, err := c.Resolve(mirror.Selector{})
		if _, rejected := errors.AsType[*mirror.RejectedError](err); got != want || rejected != (want == "") {
			t.Errorf("HEAD at %s: got %q (%v), want %q", head, got, err, want)
		}
	}
}

// TestStopWhileVerificationFails stops a replica whose mirror cannot be verified: it ends, instead
// of trying for ever.
func TestStopWhileVerificationFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, strict := signed(t)
		open := strict
		open.Verification = upstream.Verification{}
		set, stop := w.replica(t, "a", nil, open)
		synctest.Wait()
		w.upstream.objects.fail(errors.New("disk is slow"))
		set.Apply([]mirror.Definition{strict})
		synctest.Wait()
		stop()
	})
}
