// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// tagged has one commit for each tag, of the tag's own name.
func tagged(tags ...string) mirror.Content {
	var list []mirror.Ref
	for _, tag := range tags {
		list = append(list, mirror.Ref{Name: mirror.TagPrefix + tag, Object: tag, Commit: tag})
	}
	return mirror.Content{Refs: mirror.NewRefs(list)}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	c := tagged("v1.3.9", "v1.4.0", "1.4.10", "v1.4.9", "v1.5.0-rc.1", "v2.0.0-alpha", "2.1.0", "v3.0.0-beta.2", "v3.0.0-beta.10",
		"v1", "v1.99", "20260101", "release-9.9.9", "v01.4.11", "nested/v9.9.9", "v4.0.0+a", "v4.0.0+b")
	blob := mirror.Ref{Name: "refs/tags/v1.4.99", Object: "a tag of a file"}
	c.Refs = mirror.NewRefs(append(c.Refs, blob))
	for text, want := range map[string]string{
		"~1.4":                 "1.4.10",
		"^1":                   "1.4.10",
		"1.x":                  "1.4.10",
		"1.3.x || 2.x":         "2.1.0",
		">=2 <3":               "2.1.0",
		">= 1.4, < 1.4.10":     "v1.4.9",
		"1.4.0":                "v1.4.0",
		"v1.4.0":               "v1.4.0",
		"~1.5.0-0":             "v1.5.0-rc.1",
		">=3.0.0-0 <3.0.0":     "v3.0.0-beta.10",
		"~1.5":                 "",
		">=9":                  "",
		"*":                    "v4.0.0+b",
		"<0.1":                 "",
		"3.0.0-beta.2 - 3.0.0": "v3.0.0-beta.10",
	} {
		if err := mirror.CheckRange(text); err != nil {
			t.Errorf("%s: got %v, want a range", text, err)
		}
		got, err := c.Resolve(mirror.Selector{Kind: mirror.SelectSemver, Value: text})
		if got != want || (want == "") != errors.Is(err, mirror.ErrRefNotFound) {
			t.Errorf("%s: got %q (%v), want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "latest", "1.2.3.4", ">=a"} {
		if err := mirror.CheckRange(text); err == nil {
			t.Errorf("%q: got no error, want one: it is no range", text)
		}
	}
}

func TestErrorsNameWhatMayBeMeant(t *testing.T) {
	t.Parallel()
	c := tagged("v1.0.0", "v1.2.0", "v1.10.0", "docs")
	c.Refs = mirror.NewRefs(append(c.Refs,
		mirror.Ref{Name: "refs/heads/main", Commit: "m"}, mirror.Ref{Name: "refs/heads/Release", Commit: "r"},
		mirror.Ref{Name: "refs/heads/feature/login", Commit: "f"}))
	for selector, want := range map[mirror.Selector][]string{
		{Kind: mirror.SelectBranch, Value: "mian"}:           {"refs/heads/main"},
		{Kind: mirror.SelectBranch, Value: "docs"}:           {"refs/tags/docs"}, // a tag of that name
		{Kind: mirror.SelectTag, Value: "main"}:              {"refs/heads/main"},
		{Kind: mirror.SelectBranch, Value: "release"}:        {"refs/heads/Release"},
		{Kind: mirror.SelectBranch, Value: "feature/logn"}:   {"refs/heads/feature/login"},
		{Kind: mirror.SelectName, Value: "refs/heads/man"}:   {"refs/heads/main"},
		{Kind: mirror.SelectTag, Value: "1.0.0"}:             {"refs/tags/v1.0.0"},
		{Kind: mirror.SelectBranch, Value: "something/else"}: nil,
		{Kind: mirror.SelectSemver, Value: "~7"}:             {"refs/tags/v1.10.0", "refs/tags/v1.2.0", "refs/tags/v1.0.0"},
		{}:                                                   {"refs/heads/Release", "refs/heads/feature/login", "refs/heads/main"},
	} {
		_, err := c.Resolve(selector)
		found, ok := errors.AsType[*mirror.RefError](err)
		if !ok {
			t.Errorf("%s: got %v, want a *RefError", selector, err)
			continue
		}
		if diff := cmp.Diff(want, found.Close); diff != "" {
			t.Errorf("%s (-want +got):\n%s", selector, diff)
		}
	}
}

// TestABranchAndATagOfOneName are two things.
func TestABranchAndATagOfOneName(t *testing.T) {
	t.Parallel()
	c := mirror.Content{Refs: mirror.NewRefs([]mirror.Ref{
		{Name: "refs/heads/v1", Commit: "branch"}, {Name: "refs/tags/v1", Commit: "tag"},
	})}
	for kind, want := range map[mirror.SelectorKind]string{mirror.SelectBranch: "branch", mirror.SelectTag: "tag"} {
		if got, err := c.Resolve(mirror.Selector{Kind: kind, Value: "v1"}); got != want {
			t.Errorf("got %q (%v), want %q", got, err, want)
		}
	}
}
