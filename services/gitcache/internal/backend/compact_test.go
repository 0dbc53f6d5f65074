// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// many is more packs than a mirror keeps.
const many = 24

// fetchTimes makes commits and fetches each of them by itself; it returns the last.
func (s *subject) fetchTimes(t *testing.T, repo *gittest.Repo, times int) (last string) {
	t.Helper()
	for i := range times {
		last = repo.Commit(t, "main", map[string]string{"d/f" + strconv.Itoa(i%5): fmt.Sprintf("%d\n%s", i, strings.Repeat("line\n", 50))})
		s.fetch(t)
	}
	return last
}

func (s *subject) packs(t *testing.T) []string {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(s.dir, s.def.UID, "gen-*", "objects", "pack", "*.pack"))
	if err != nil {
		t.Fatal(err)
	}
	return packs
}

// compact compacts a mirror without another writer.
func (s *subject) compact(t *testing.T) mirror.Compaction {
	t.Helper()
	return s.compactAfter(t, func() {})
}

// compactAfter does something right before the mirror switches.
func (s *subject) compactAfter(t *testing.T, last func()) mirror.Compaction {
	t.Helper()
	done, err := s.Compact(t.Context(), s.def.UID, func(context.Context) (func(), error) {
		last()
		return func() {}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// large is a file that makes its pack larger than many small ones together.
func large() string {
	var b strings.Builder
	for i := range 20_000 {
		b.WriteString(strconv.Itoa(i*i*7919) + "\n")
	}
	return b.String()
}

func manyPacksBecomeFew(t *testing.T, open opener) {
	repo := gittest.New(t).Repo(t, "demo")
	s := newSubject(t, open, repo.URL())
	first := repo.Commit(t, "main", map[string]string{"large": large()})
	s.fetch(t)
	original := filepath.Base(s.packs(t)[0])
	if done := s.compact(t); done.PacksBefore != 0 {
		t.Errorf("got %+v of a mirror with one pack, want nothing done", done)
	}
	last := s.fetchTimes(t, repo, many)
	reader, err := s.Open(t.Context(), s.def.UID)
	if err != nil {
		t.Fatal(err)
	}
	before := files(t, reader, last)

	done := s.compact(t)
	if done.PacksBefore != many+1 || done.PacksAfter != 2 || done.Full || done.BytesAfter >= done.BytesBefore {
		t.Errorf("got %+v, want a large pack and one more of %d", done, many+1)
	}
	if _, err := reader.Tree(t.Context(), first, ""); err != nil {
		t.Errorf("got %v from a reader of the old generation", err)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
	packs := s.packs(t)
	if len(packs) != 2 || filepath.Base(packs[0]) != original && filepath.Base(packs[1]) != original {
		t.Errorf("got packs %v once nobody reads the old ones, want %s and another", packs, original)
	}
	if diff := cmp.Diff(before, files(t, s.reader(t), last)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	s.fsck(t)
	if usage := s.Usage(); usage.Packs != 2 || usage.Bytes != done.BytesAfter {
		t.Errorf("got %+v, want what is there now: %+v", usage, done)
	}
	s.have.DiskBytes, s.have.Packs = done.BytesAfter, done.PacksAfter
	s.reload(t)
	s.fetchTimes(t, repo, 1) // continues in the new generation
	s.fsck(t)
}

// fetchedWhileCompacting has a fetch come between the merge of packs and the switch.
func fetchedWhileCompacting(t *testing.T, open opener) {
	repo := gittest.New(t).Repo(t, "demo")
	s := newSubject(t, open, repo.URL())
	s.fetchTimes(t, repo, many)
	var news string
	done := s.compactAfter(t, func() { news = s.fetchTimes(t, repo, 1) })
	if done.PacksAfter != 2 {
		t.Errorf("got %+v, want the merged pack and the one that came", done)
	}
	if got := files(t, s.reader(t), news); len(got) == 0 {
		t.Error("got nothing of what was fetched during the compaction")
	}
	s.fsck(t)
}

// copiesOfCompacted copies before and after: large packs do not travel again.
func copiesOfCompacted(t *testing.T, open opener) {
	repo := gittest.New(t).Repo(t, "demo")
	owner, follower := newSubject(t, open, repo.URL()), newSubject(t, open, nowhere)
	repo.Commit(t, "main", map[string]string{"large": large()})
	owner.fetch(t)
	owner.fetchTimes(t, repo, many)
	follower.mustAdopt(t, owner)
	owner.compact(t)
	last := owner.fetchTimes(t, repo, 1)
	follower.mustAdopt(t, owner)
	if diff := cmp.Diff(owner.exported(t).Files, follower.exported(t).Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if got := files(t, follower.reader(t), last); len(got) == 0 {
		t.Error("got nothing of what was copied")
	}
	if done := follower.compact(t); done.PacksBefore != 0 {
		t.Errorf("got %+v of what was compacted already, want nothing done", done)
	}
}

// aWeekPasses makes the last look for what no ref reaches one of a week ago.
func (s *subject) aWeekPasses(t *testing.T) {
	t.Helper()
	path := filepath.Join(s.dir, s.def.UID, "examined.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var examined map[string]any
	if err := json.Unmarshal(data, &examined); err != nil {
		t.Fatal(err)
	}
	examined["at"] = time.Now().Add(-8 * 24 * time.Hour)
	if data, err = json.Marshal(examined); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// unreachableGoes force-pushes most of a repository away.
func unreachableGoes(t *testing.T, open opener) {
	repo := gittest.New(t).Repo(t, "demo")
	s := newSubject(t, open, repo.URL())
	lost := s.fetchTimes(t, repo, 10)
	s.compact(t) // the first look only remembers
	forced := repo.ForcePush(t, "main", map[string]gittest.File{"other": gittest.Text("1")})
	repo.AnnotatedTag(t, "v1", forced)
	s.fetch(t)

	s.aWeekPasses(t)
	if done := s.compact(t); done.PacksBefore != 0 {
		t.Errorf("got %+v at the first look, want what was there to stay", done)
	}
	r, err := s.Open(t.Context(), s.def.UID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Commit(t.Context(), lost); err != nil {
		t.Errorf("got %v for a commit that was a ref's a week ago", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	kept := repo.Commit(t, "main", map[string]string{"other": "2"})
	s.fetch(t)
	if done := s.compact(t); done.PacksBefore != 0 {
		t.Errorf("got %+v before a week has passed, want nothing done", done)
	}
	s.aWeekPasses(t)
	done := s.compact(t)
	if !done.Full || done.PacksAfter != 1 || done.BytesAfter > done.BytesBefore/2 {
		t.Errorf("got %+v, want most of it gone", done)
	}
	s.wantFiles(t, kept, map[string]string{"other": "2"})
	s.fsck(t)
	if _, err := s.reader(t).Commit(t.Context(), lost); !errors.Is(err, content.ErrCommitNotFound) {
		t.Errorf("got %v for a commit that no ref has reached for weeks, want ErrCommitNotFound", err)
	}
}
