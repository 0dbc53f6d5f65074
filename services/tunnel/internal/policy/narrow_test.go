// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/contract/accessrule"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
)

var (
	inShop    = accessrule.Request{Verb: "delete", Resource: "pods", Namespace: "shop"}
	elsewhere = accessrule.Request{Verb: "delete", Resource: "pods", Namespace: "other"}
	discovery = accessrule.Request{Verb: "get", Path: "/apis"}
)

func shopOperators() policy.Grant {
	return policy.Grant{Binding: "shop", Groups: []string{"leat:operators"}, Rules: []accessrule.Rule{{Namespaces: []string{"shop"}}}}
}

// TestGrantsCountForTheirRequests has a viewer of everything be an operator in one namespace.
func TestGrantsCountForTheirRequests(t *testing.T) {
	t.Parallel()
	d := policy.Decision{
		Allowed: true, User: "ada", UID: "u", Groups: []string{"leat:viewers"}, Grants: []policy.Grant{shopOperators()},
		Extra: map[string][]string{"leat.dev/bindings": {"look"}, "leat.dev/cluster": {"demo"}},
	}
	got, ok := d.For(inShop)
	if !ok || !slices.Equal(got.Groups, []string{"leat:operators", "leat:viewers"}) || !slices.Equal(got.Extra["leat.dev/bindings"], []string{"look", "shop"}) || got.UID != "u" {
		t.Errorf("got %+v, %v, want viewers and operators", got, ok)
	}
	got, ok = d.For(elsewhere)
	if !ok || !slices.Equal(got.Groups, []string{"leat:viewers"}) || !slices.Equal(got.Extra["leat.dev/bindings"], []string{"look"}) {
		t.Errorf("got %+v, %v, want viewers alone", got, ok)
	}
	if len(d.Groups) != 1 || len(d.Extra["leat.dev/bindings"]) != 1 || len(got.Grants) != 0 {
		t.Errorf("got %+v, want the decision to be as it was: it is shared", d)
	}
}

func TestWhatIsNarrowedIsRefusedElsewhere(t *testing.T) {
	t.Parallel()
	d := policy.Decision{Allowed: true, User: "ada", Narrowed: true, Grants: []policy.Grant{shopOperators()}}
	if _, ok := d.For(elsewhere); ok {
		t.Error("a request is let through that no rule chooses")
	}
	if got, ok := d.For(inShop); !ok || !slices.Equal(got.Groups, []string{"leat:operators"}) {
		t.Errorf("got %+v, %v, want an operator", got, ok)
	}
	if got, ok := d.For(discovery); !ok || len(got.Groups) != 0 {
		t.Errorf("got %+v, %v, want discovery without a group", got, ok)
	}
	if _, ok := (policy.Decision{Grants: d.Grants}).For(inShop); ok {
		t.Error("a refusal lets a request through")
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	was := policy.Decision{
		Allowed: true, User: "ada", UID: "u", ClusterUID: "c", Groups: []string{"a", "b"}, Extra: map[string][]string{"k": {"1", "2"}},
	}
	for name, test := range map[string]struct {
		change func(*policy.Decision)
		want   bool
	}{
		"the same":        {func(*policy.Decision) {}, true},
		"another group":   {func(d *policy.Decision) { d.Groups = []string{"c", "b", "a"} }, true},
		"a further key":   {func(d *policy.Decision) { d.Extra = map[string][]string{"k": {"2", "1", "3"}, "l": {"x"}} }, true},
		"one group less":  {func(d *policy.Decision) { d.Groups = []string{"a"} }, false},
		"one value less":  {func(d *policy.Decision) { d.Extra = map[string][]string{"k": {"1"}} }, false},
		"no extra":        {func(d *policy.Decision) { d.Extra = nil }, false},
		"another user":    {func(d *policy.Decision) { d.User = "bob" }, false},
		"another uid":     {func(d *policy.Decision) { d.UID = "v" }, false},
		"another cluster": {func(d *policy.Decision) { d.ClusterUID = "d" }, false},
		"no more":         {func(d *policy.Decision) { d.Allowed = false }, false},
	} {
		now := was
		test.change(&now)
		if got := now.Covers(was); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

// TestWhatIsWithdrawnEndsWithinThirtySeconds takes groups, rules and attributes away while the one
// who decides answers.
func TestWhatIsWithdrawnEndsWithinThirtySeconds(t *testing.T) {
	t.Parallel()
	for name, withdraw := range map[string]func(*policy.Decision){
		"a group":      func(d *policy.Decision) { d.Groups = nil },
		"a rule":       func(d *policy.Decision) { d.Grants = nil },
		"an attribute": func(d *policy.Decision) { d.Extra = nil },
		"everything":   func(d *policy.Decision) { *d = policy.Decision{} },
	} {
		synctest.Test(t, func(t *testing.T) {
			given := policy.Decision{
				Allowed: true, User: "ada", Groups: []string{"leat:viewers"}, Grants: []policy.Grant{shopOperators()}, Extra: map[string][]string{"k": {"v"}},
			}
			d := &decider{answer: given}
			cache := policy.NewCache(policy.DefaultCacheParams(d))
			before, err := cache.Check(t.Context(), question)
			if err != nil {
				t.Fatal(err)
			}
			was, _ := before.For(inShop)
			d.set(func(d *decider) { withdraw(&d.answer) })
			covers := func() bool {
				got, err := cache.Check(t.Context(), question)
				if err != nil {
					t.Fatal(err)
				}
				effective, ok := got.For(inShop)
				return ok && effective.Covers(was)
			}
			<-time.After(29 * time.Second)
			if !covers() {
				t.Errorf("%s: the answer was not remembered", name)
			}
			<-time.After(time.Second)
			if covers() {
				t.Errorf("%s counts for longer than 30 s after it was withdrawn", name)
			}
		})
	}
}
