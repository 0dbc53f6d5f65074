// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"fmt"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// origin is a private repository on a Git server, which holds nothing yet.
type origin struct {
	// push makes the server's repository have the branches and tags of the local one, whatever it
	// had. The branch main is never deleted: servers refuse that.
	push func(t *testing.T, local *gittest.Repo)
	// ways are definitions that must be able to fetch it, by what to call them.
	ways map[string]mirror.Definition
	// refused are definitions that must not, by their defects.
	refused map[string]refusal
}

// refusal is a definition that must fail, and its message.
type refusal struct {
	Definition mirror.Definition
	Reason     reason.Reason
}

// runServer fetches from one kind of server all that there is to fetch, in every way that it can be
// reached. make makes an origin, each time another.
func runServer(t *testing.T, open opener, makeOrigin func(t *testing.T) origin) {
	t.Helper()
	for name := range makeOrigin(t).ways {
		t.Run(name, func(t *testing.T) {
			o := makeOrigin(t)
			s := newSubject(t, open, "")
			s.def = o.ways[name]
			if err := s.Check(s.def); err != nil {
				t.Fatal(err)
			}
			life(t, s, o.push)
		})
	}
	t.Run("refused", func(t *testing.T) { serverRefuses(t, open, makeOrigin(t)) })
}

// life follows a repository from its first commit through all that people do to repositories.
func life(t *testing.T, s *subject, push func(*testing.T, *gittest.Repo)) {
	t.Helper()
	local := gittest.New(t).Repo(t, "local")
	s.fetch(t)
	s.wantRefs(t, map[string]string{})

	first := local.Commit(t, "main", map[string]string{"app/a": "1", "b": "1"})
	push(t, local)
	s.fetch(t)
	s.wantRefs(t, map[string]string{"heads/main": first})
	if s.have.DefaultBranch != "refs/heads/main" || s.have.Head != first {
		t.Errorf("got %+v, want HEAD at main", s.have)
	}
	s.wantFiles(t, first, map[string]string{"app/a": "1", "b": "1"})

	last := first
	for i := range 5 {
		last = local.Commit(t, "main", map[string]string{"app/a": fmt.Sprint("next ", i)})
	}
	local.AnnotatedTag(t, "v1.0.0", last)
	local.Tag(t, "light", first)
	topic := local.Commit(t, "topic/x", map[string]string{"t": "1"})
	push(t, local)
	s.fetch(t)
	s.wantRefs(t, map[string]string{"heads/main": last, "heads/topic/x": topic, "tags/v1.0.0": last, "tags/light": first})
	s.wantFiles(t, last, map[string]string{"app/a": "next 4", "b": "1"})
	changed := s.have.ChangedAt
	s.fetch(t)
	if !s.have.ChangedAt.Equal(changed) {
		t.Error("got a change from a poll without news")
	}

	forced := local.ForcePush(t, "main", map[string]gittest.File{"c": gittest.Text("1"), "run": gittest.Executable("x")})
	local.AnnotatedTag(t, "v1.0.0", forced)
	local.DeleteBranch(t, "topic/x")
	push(t, local)
	s.fetch(t)
	s.wantRefs(t, map[string]string{"heads/main": forced, "tags/v1.0.0": forced, "tags/light": first})
	s.wantFiles(t, forced, map[string]string{"c": "1", "run": "x"})
	s.fsck(t)
	s.reload(t)
	again := local.Commit(t, "main", map[string]string{"c": "2"})
	push(t, local)
	s.fetch(t)
	s.wantFiles(t, again, map[string]string{"c": "2", "run": "x"})
}

// serverRefuses tries what must fail, with and without a mirror.
func serverRefuses(t *testing.T, open opener, o origin) {
	t.Helper()
	local := gittest.New(t).Repo(t, "local")
	first := local.Commit(t, "main", map[string]string{"a": "1"})
	o.push(t, local)
	for name, r := range o.refused {
		s := newSubject(t, open, "")
		s.def = r.Definition
		t.Log(name)
		wantReason(t, s.try(t.Context()), r.Reason)
		for _, good := range o.ways {
			s.def = good
			break
		}
		s.fetch(t)
		s.def = r.Definition
		wantReason(t, s.try(t.Context()), r.Reason)
		s.wantUntouched(t, first)
	}
}
