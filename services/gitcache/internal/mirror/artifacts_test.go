// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// digestOf is a digest that begins with text.
func digestOf(text string) string { return text + strings.Repeat("0", 64-len(text)) }

// versions has a digest for each name; a name that ends with "?" is known by name alone.
func versions(names ...string) mirror.Content {
	var list []mirror.Ref
	for i, name := range names {
		name, isUnpinned := strings.CutSuffix(name, "?")
		ref := mirror.Ref{Name: mirror.TagPrefix + name}
		if !isUnpinned {
			ref.Object = digestOf("abcdef" + string(rune('0'+i)))
			ref.Commit = ref.Object
		}
		list = append(list, ref)
	}
	return mirror.Content{Refs: mirror.NewRefs(list)}
}

func TestCharts(t *testing.T) {
	t.Parallel()
	c := versions("web/1.0.0", "web/1.2.0+build.7", "web/2.0.0-rc.1", "webs/9.0.0", "db/3.0.0-beta.1", "web/v1.1.0")
	digest := func(name string) string {
		ref, _ := c.Refs.Get(mirror.TagPrefix + name)
		return ref.Commit
	}
	web, db := mirror.ChartPrefix("web"), mirror.ChartPrefix("db")
	for selector, want := range map[mirror.Selector]string{
		{Within: web}:                       digest("web/1.2.0+build.7"),
		{Within: db}:                        "",
		{Within: mirror.ChartPrefix("wep")}: "",
		{Kind: mirror.SelectName, Value: "HEAD", Within: web}:                       digest("web/1.2.0+build.7"),
		{Kind: mirror.SelectTag, Value: "1.0.0", Within: web}:                       digest("web/1.0.0"),
		{Kind: mirror.SelectTag, Value: "1.2.0+build.7", Within: web}:               digest("web/1.2.0+build.7"),
		{Kind: mirror.SelectTag, Value: "9.0.0", Within: web}:                       "",
		{Kind: mirror.SelectTag, Value: "web/1.0.0", Within: web}:                   "",
		{Kind: mirror.SelectName, Value: "refs/tags/web/1.0.0", Within: web}:        digest("web/1.0.0"),
		{Kind: mirror.SelectName, Value: "refs/tags/webs/9.0.0", Within: web}:       "",
		{Kind: mirror.SelectSemver, Value: "1.x", Within: web}:                      digest("web/1.2.0+build.7"),
		{Kind: mirror.SelectSemver, Value: ">=2.0.0-0", Within: web}:                digest("web/2.0.0-rc.1"),
		{Kind: mirror.SelectSemver, Value: ">=3", Within: web}:                      "",
		{Kind: mirror.SelectSemver, Value: "~3.0.0-0", Within: db}:                  digest("db/3.0.0-beta.1"),
		{Kind: mirror.SelectBranch, Value: "main", Within: web}:                     "",
		{Kind: mirror.SelectCommit, Value: digest("web/1.0.0"), Within: web}:        digest("web/1.0.0"),
		{Kind: mirror.SelectCommit, Value: digest("web/1.0.0")[:7], Within: web}:    digest("web/1.0.0"),
		{Kind: mirror.SelectCommit, Value: digest("web/1.0.0")[:5], Within: web}:    "", // several
		{Kind: mirror.SelectCommit, Value: digest("webs/9.0.0"), Within: web}:       "",
		{Kind: mirror.SelectCommit, Value: digestOf("f"), Within: mirror.TagPrefix}: digestOf("f"), // the registry knows
	} {
		got, err := c.Resolve(selector)
		if got != want || (want == "") != errors.Is(err, mirror.ErrRefNotFound) {
			t.Errorf("%s: got %q (%v), want %q", selector, got, err, want)
		}
	}
	for selector, want := range map[mirror.Selector]string{
		{Kind: mirror.SelectTag, Value: "1.0.9", Within: web}:                       "refs/tags/web/1.0.0",
		{Within: mirror.ChartPrefix("wep")}:                                         "refs/tags/web/2.0.0-rc.1",
		{Kind: mirror.SelectSemver, Value: ">=3", Within: web}:                      "refs/tags/web/2.0.0-rc.1",
		{Kind: mirror.SelectTag, Value: "1.0.0", Within: mirror.ChartPrefix("wbs")}: "refs/tags/webs/9.0.0",
	} {
		_, err := c.Resolve(selector)
		if found, ok := errors.AsType[*mirror.RefError](err); !ok || !slices.Contains(found.Close, want) {
			t.Errorf("%s: got %+v, want %s among what is close", selector, found, want)
		}
	}
}

// TestVersions checks the version beside what a selector selects.
func TestVersions(t *testing.T) {
	t.Parallel()
	charts := versions("web/1.0.0", "web/1.2.0+build.7", "web/2.0.0-rc.1")
	registry := versions("1.4.0_b7", "latest")
	long := strings.Repeat("x", 257)
	git := mirror.Content{DefaultBranch: "refs/heads/main", Refs: mirror.NewRefs([]mirror.Ref{
		{Name: "refs/heads/main", Commit: "m"},
		{Name: "refs/heads/v1.0.0", Commit: "b"},
		{Name: "refs/tags/v1.0.0", Commit: "t"},
		{Name: "refs/tags/deploy/2", Commit: "d"},
		{Name: "refs/tags/v2.0.0", Commit: "new", Held: "is not signed", GoodObject: "old", GoodCommit: "old"},
		{Name: "refs/tags/" + long, Commit: "l"},
		{Name: "refs/tags/\xff", Commit: "u"},
	})}
	web := mirror.ChartPrefix("web")
	for _, test := range []struct {
		content  mirror.Content
		selector mirror.Selector
		want     string
	}{
		{charts, mirror.Selector{Within: web}, "1.2.0+build.7"},
		{charts, mirror.Selector{Kind: mirror.SelectSemver, Value: ">=2.0.0-0", Within: web}, "2.0.0-rc.1"},
		{charts, mirror.Selector{Kind: mirror.SelectTag, Value: "1.0.0", Within: web}, "1.0.0"},
		{charts, mirror.Selector{Kind: mirror.SelectName, Value: "refs/tags/web/1.0.0", Within: web}, "1.0.0"},
		{registry, mirror.Selector{Within: mirror.TagPrefix}, "1.4.0_b7"},
		{registry, mirror.Selector{Kind: mirror.SelectTag, Value: "1.4.0+b7", Within: mirror.TagPrefix}, "1.4.0_b7"},
		{registry, mirror.Selector{Kind: mirror.SelectTag, Value: "latest", Within: mirror.TagPrefix}, "latest"},
		{registry, mirror.Selector{Kind: mirror.SelectCommit, Value: strings.Repeat("a", 64), Within: mirror.TagPrefix}, ""},
		{git, mirror.Selector{}, ""},
		{git, mirror.Selector{Kind: mirror.SelectBranch, Value: "v1.0.0"}, ""},
		{git, mirror.Selector{Kind: mirror.SelectCommit, Value: "t"}, ""},
		{git, mirror.Selector{Kind: mirror.SelectTag, Value: "v1.0.0"}, "v1.0.0"},
		{git, mirror.Selector{Kind: mirror.SelectTag, Value: "deploy/2"}, "deploy/2"},
		{git, mirror.Selector{Kind: mirror.SelectName, Value: "refs/tags/v1.0.0"}, "v1.0.0"},
		{git, mirror.Selector{Kind: mirror.SelectName, Value: "refs/heads/v1.0.0"}, ""},
		{git, mirror.Selector{Kind: mirror.SelectSemver, Value: "1.x"}, "v1.0.0"},
		{git, mirror.Selector{Kind: mirror.SelectTag, Value: "v2.0.0"}, "v2.0.0"},
		{git, mirror.Selector{Kind: mirror.SelectTag, Value: long}, ""},
		{git, mirror.Selector{Kind: mirror.SelectTag, Value: "\xff"}, ""},
	} {
		got, err := test.content.Select(test.selector)
		if err != nil || got.Version != test.want || got.Commit == "" {
			t.Errorf("%s: got %+v (%v), want version %q", test.selector, got, err, test.want)
		}
	}
}

func TestRegistryTags(t *testing.T) {
	t.Parallel()
	tags := func(names ...string) mirror.Content { return versions(names...) }
	for _, test := range []struct {
		content  mirror.Content
		selector mirror.Selector
		want     string // name of the tag
		unpinned bool
	}{
		{tags("1.0.0", "latest"), mirror.Selector{}, "1.0.0", false},
		{tags("1.0.0-rc.1", "latest", "main"), mirror.Selector{}, "latest", false},
		{tags("main"), mirror.Selector{}, "", false},
		{tags("1.0.0?", "0.9.0"), mirror.Selector{}, "1.0.0", true},
		{tags("latest?"), mirror.Selector{}, "latest", true},
		{tags("v1.4.0_b7", "v1.4.0-rc.1"), mirror.Selector{Kind: mirror.SelectSemver, Value: "~1.4"}, "v1.4.0_b7", false},
		{tags("1.4.0", "1.5.0?", "2.0.0?"), mirror.Selector{Kind: mirror.SelectSemver, Value: "1.x"}, "1.5.0", true},
		{tags("1.4.0_b7"), mirror.Selector{Kind: mirror.SelectTag, Value: "1.4.0+b7"}, "1.4.0_b7", false},
		{tags("1.4.0_b7?"), mirror.Selector{Kind: mirror.SelectTag, Value: "1.4.0+b7"}, "1.4.0_b7", true},
		{tags("web?"), mirror.Selector{Kind: mirror.SelectName, Value: "refs/tags/web"}, "web", true},
		{tags("web"), mirror.Selector{Kind: mirror.SelectBranch, Value: "web"}, "", false},
	} {
		test.selector.Within = mirror.TagPrefix
		got, err := test.content.Resolve(test.selector)
		ref, _ := test.content.Refs.Get(mirror.TagPrefix + test.want)
		unpinned, isUnpinned := errors.AsType[*mirror.UnpinnedError](err)
		switch {
		case test.unpinned:
			if !isUnpinned || !slices.Equal(unpinned.Names, []string{mirror.TagPrefix + test.want}) {
				t.Errorf("%s: got %q (%v), want %s to be looked up", test.selector, got, err, test.want)
			}
		case got != ref.Commit || (test.want == "") != errors.Is(err, mirror.ErrRefNotFound):
			t.Errorf("%s: got %q (%v), want %s", test.selector, got, err, test.want)
		}
	}
}

// TestImmutableRefs deliver what they were first.
func TestImmutableRefs(t *testing.T) {
	t.Parallel()
	c := mirror.Content{Refs: mirror.Refs{{
		Name: "refs/tags/1.0.0", Object: digestOf("b"), Commit: digestOf("b"), Held: "was published again",
		GoodObject: digestOf("a"), GoodCommit: digestOf("a"),
	}}}
	for _, s := range []mirror.Selector{{}, {Kind: mirror.SelectTag, Value: "1.0.0"}, {Kind: mirror.SelectSemver, Value: "1.x"}} {
		s.Within = mirror.TagPrefix
		if got, err := c.Resolve(s); got != digestOf("a") {
			t.Errorf("%s: got %q (%v), want what it was first", s, got, err)
		}
	}
}

// TestUnverifiedArtifacts are not delivered before the upstream was asked about them. Ranges skip
// unsigned ones.
func TestUnverifiedArtifacts(t *testing.T) {
	t.Parallel()
	signed, unsigned, later := digestOf("a1"), digestOf("b2"), digestOf("c3")
	c := mirror.Content{Policy: "p", Refs: mirror.NewRefs([]mirror.Ref{
		{Name: "refs/tags/1.0.0", Object: signed, Commit: signed},
		{Name: "refs/tags/1.1.0", Object: unsigned, Commit: unsigned, Held: "has no signature"},
		{Name: "refs/tags/1.2.0", Object: later, Commit: later, Held: mirror.NotVerified},
		{Name: "refs/tags/stable", Object: later, Commit: later, Held: mirror.NotVerified, GoodObject: signed, GoodCommit: signed},
		{Name: "refs/tags/named"},
		{Name: mirror.DigestPrefix + digestOf("d4"), Object: digestOf("d4"), Commit: digestOf("d4")},
	})}
	const rejected = "rejected"
	for selector, want := range map[mirror.Selector]string{
		{Kind: mirror.SelectTag, Value: "1.0.0"}:   signed,
		{Kind: mirror.SelectTag, Value: "1.1.0"}:   rejected,
		{Kind: mirror.SelectTag, Value: "1.2.0"}:   "refs/tags/1.2.0",
		{Kind: mirror.SelectTag, Value: "named"}:   "refs/tags/named",
		{Kind: mirror.SelectTag, Value: "stable"}:  signed, // the last good one, while the upstream is not asked
		{Kind: mirror.SelectSemver, Value: "~1.1"}: rejected,
		{Kind: mirror.SelectSemver, Value: "<1.2"}: signed,
		{Kind: mirror.SelectSemver, Value: "1.x"}:  "refs/tags/1.2.0",
		{}: "refs/tags/1.2.0",
		{Kind: mirror.SelectCommit, Value: signed}:                 signed,
		{Kind: mirror.SelectCommit, Value: signed[:8]}:             signed,
		{Kind: mirror.SelectCommit, Value: unsigned}:               rejected,
		{Kind: mirror.SelectCommit, Value: later}:                  "refs/tags/1.2.0",
		{Kind: mirror.SelectCommit, Value: digestOf("d4")}:         digestOf("d4"),
		{Kind: mirror.SelectCommit, Value: digestOf("e5")}:         mirror.DigestPrefix + digestOf("e5"),
		{Kind: mirror.SelectCommit, Value: "e5"}:                   "",
		{Kind: mirror.SelectName, Value: "refs/digests/" + signed}: "",
	} {
		selector.Within = mirror.TagPrefix
		got, err := c.Resolve(selector)
		if unpinned, ok := errors.AsType[*mirror.UnpinnedError](err); ok {
			got = unpinned.Names[0]
			if !slices.Equal(c.Unpinned(unpinned.Names), unpinned.Names) {
				t.Errorf("%s: got %q, which are not asked about", selector, unpinned.Names)
			}
		} else if _, ok := errors.AsType[*mirror.RejectedError](err); ok {
			got = rejected
		}
		if got != want || (want == "") != errors.Is(err, mirror.ErrRefNotFound) {
			t.Errorf("%s: got %q (%v), want %q", selector, got, err, want)
		}
	}
	asked := []string{
		"refs/tags/1.0.0", "refs/tags/1.1.0", "refs/tags/none", mirror.DigestPrefix + digestOf("d4"), mirror.DigestPrefix + "../x",
		mirror.DigestPrefix + strings.ToUpper(digestOf("e5")),
	}
	if got := c.Unpinned(asked); len(got) != 0 {
		t.Errorf("got %q to ask about, want nothing", got)
	}
	c.Policy = ""
	if got := c.Unpinned([]string{mirror.DigestPrefix + digestOf("e5")}); len(got) != 0 {
		t.Errorf("got %q to ask about without a policy", got)
	}
}

// TestUnverifiedCharts are found by their digests.
func TestUnverifiedCharts(t *testing.T) {
	t.Parallel()
	c := mirror.Content{Policy: "p", Refs: mirror.NewRefs([]mirror.Ref{
		{Name: "refs/tags/web/1.0.0", Object: digestOf("a1"), Commit: digestOf("a1"), Held: mirror.NotVerified},
		{Name: "refs/tags/web/1.1.0", Object: digestOf("a1"), Commit: digestOf("a1"), Held: "has no provenance file"},
		{Name: "refs/tags/web/1.2.0", Object: digestOf("a2"), Commit: digestOf("a2"), Held: "has no provenance file"},
	})}
	for value, want := range map[string]string{
		digestOf("a1"): "asked", "a10": "asked", digestOf("a2"): "rejected", digestOf("a3"): "not found", "a": "not found",
	} {
		_, err := c.Resolve(mirror.Selector{Kind: mirror.SelectCommit, Value: value, Within: mirror.ChartPrefix("web")})
		_, isUnpinned := errors.AsType[*mirror.UnpinnedError](err)
		_, isRejected := errors.AsType[*mirror.RejectedError](err)
		if isUnpinned != (want == "asked") || isRejected != (want == "rejected") || errors.Is(err, mirror.ErrRefNotFound) != (want == "not found") {
			t.Errorf("%s: got %v, want it %s", value, err, want)
		}
	}
}
