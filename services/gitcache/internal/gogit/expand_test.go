// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// TestShortIDs makes enough commits that one digit never names one alone.
func TestShortIDs(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	var ids []string
	for i := range 40 {
		ids = append(ids, repo.Commit(t, "main", map[string]string{"a": fmt.Sprint(i)}))
	}
	f := newFixture(t, repo.URL())
	f.fetch(t)
	ids = append(ids, repo.Commit(t, "main", map[string]string{"a": "in a pack of its own"}))
	f.fetch(t)
	r, err := f.Open(t.Context(), "uid-1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for _, id := range ids {
		for digits := 1; digits <= 40; digits++ {
			prefix := id[:digits]
			var same []string
			for _, other := range ids {
				if strings.HasPrefix(other, prefix) {
					same = append(same, other)
				}
			}
			got, err := r.Expand(t.Context(), prefix)
			if len(same) == 1 {
				if got != id || err != nil {
					t.Errorf("%s: got %q (%v), want %s", prefix, got, err, id)
				}
				continue
			}
			slices.Sort(same)
			several, ok := errors.AsType[*content.AmbiguousError](err)
			if !ok || !slices.Equal(several.Candidates, same[:min(len(same), content.MaxCandidates)]) || !errors.Is(err, content.ErrCommitNotFound) {
				t.Errorf("%s: got %q (%v), want an error that names %v", prefix, got, err, same)
			}
		}
	}
	tree := repo.Git(t, "rev-parse", "main^{tree}")
	for _, prefix := range []string{tree[:12], tree, "0000000", "", "xyz0123"} {
		if got, err := r.Expand(t.Context(), prefix); !errors.Is(err, content.ErrCommitNotFound) {
			t.Errorf("%q: got %q (%v), want ErrCommitNotFound", prefix, got, err)
		}
	}
}

// TestTagsOfTags are peeled to the commit at their end.
func TestTagsOfTags(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	commit := repo.Commit(t, "main", map[string]string{"a": "1"})
	repo.AnnotatedTag(t, "inner", commit)
	repo.AnnotatedTag(t, "middle", "refs/tags/inner")
	repo.AnnotatedTag(t, "outer", "refs/tags/middle")
	f := newFixture(t, repo.URL())
	f.fetch(t)
	for _, tag := range []string{"inner", "middle", "outer"} {
		got, err := f.have.Resolve(mirror.Selector{Kind: mirror.SelectTag, Value: tag})
		if got != commit || err != nil {
			t.Errorf("%s: got %q (%v), want %s", tag, got, err, commit)
		}
	}
}
