// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package syncpolicy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
)

// TestSecAllowLists: a star does not stand for a slash, so that a pattern for a host does not match the
// path of another host.
func TestSecAllowLists(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern, text string
		want          bool
	}{
		{"shop", "shop", true},
		{"shop", "shop2", false},
		{"shop", "", false},
		{"shop-*", "shop-", true},
		{"shop-*", "shop-prod", true},
		{"shop-*", "blog-shop-prod", false},
		{"*", "", true},
		{"*", "a/b", false},
		{"**", "a/b", true},
		{"*/deployer", "shop/deployer", true},
		{"*/deployer", "a/b/deployer", false},
		{"https://git.example.com/shop/**", "https://git.example.com/shop/a/b.git", true},
		{"https://git.example.com/shop/*", "https://git.example.com/shop/a/b.git", false},
		{"https://*.example.com/**", "https://git.example.com/shop", true},
		{"https://*.example.com/**", "https://evil.test/x.example.com/shop", false},
		{"https://*.example.com/**", "https://git.example.com.evil.test/shop", false},
		{"*.example.com", "Widget.example.com", true},
		{"a*b*c", "aXbYbZc", true},
		{"a*b*c", "aXbYbZ", false},
		{"?", "a", false},
		{"[a]", "a", false},
	} {
		if got := (syncpolicy.AllowList{test.pattern}).Allows(test.text); got != test.want {
			t.Errorf("%q and %q: got %t", test.pattern, test.text, got)
		}
	}
	if !syncpolicy.AllowList(nil).Allows("a") || (syncpolicy.AllowList{}).Allows("a") || !(syncpolicy.AllowList{"b", "a"}).Allows("a") {
		t.Error("want nil to allow everything, an empty list nothing, and any pattern to suffice")
	}
	// A pattern that costs a naive matcher exponential time.
	if (syncpolicy.AllowList{strings.Repeat("*a", 200)}).Allows(strings.Repeat("a", 4096) + "b") {
		t.Error("got a match")
	}
}

func TestAllowListsAreValid(t *testing.T) {
	t.Parallel()
	for _, list := range []syncpolicy.AllowList{nil, {}, {"a", "**", "a/*"}} {
		if err := list.Validate("x"); err != nil {
			t.Errorf("%q: %v", list, err)
		}
	}
	for _, list := range []syncpolicy.AllowList{{""}, {"a b"}, {"a\n"}, {"***"}, {strings.Repeat("a", 513)}, make([]string, 257)} {
		if err := list.Validate("x"); err == nil || !strings.HasPrefix(err.Error(), "x.allow") {
			t.Errorf("%.40q: got %v, want an error of the field", list, err)
		}
	}
}

// TestLimitsKeepWhatIsEmpty: a list that allows nothing is not one that allows everything, after it was
// stored, either.
func TestLimitsKeepWhatIsEmpty(t *testing.T) {
	t.Parallel()
	want := syncpolicy.Limits{Namespaces: syncpolicy.AllowList{"a"}, ClusterScopedKinds: syncpolicy.AllowList{}}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got syncpolicy.Limits
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || got.IsZero() || !(syncpolicy.Limits{}).IsZero() {
		t.Errorf("%s: differs (-want +got):\n%s", text, diff)
	}
}
