// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"path"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/health"
)

func vendors(t testing.TB) []health.Vendor {
	t.Helper()
	all, err := health.Vendors()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// rulesOf lists the library's rules in the order of their precedence.
func rulesOf(t testing.TB) []syncpolicy.HealthRule {
	t.Helper()
	var exact, wild []syncpolicy.HealthRule
	for _, v := range vendors(t) {
		for _, r := range v.Rules {
			if strings.ContainsAny(r.Group+r.Kind, "*?") {
				wild = append(wild, r)
			} else {
				exact = append(exact, r)
			}
		}
	}
	return append(exact, wild...)
}

func TestEveryRuleCompiles(t *testing.T) {
	t.Parallel()
	for _, v := range vendors(t) {
		if v.Name == "" || len(v.Rules) == 0 {
			t.Errorf("got %q with %d rules, want a name and rules", v.Name, len(v.Rules))
		}
		for _, r := range v.Rules {
			if r.Group == "" {
				t.Errorf("%s: rule for %s has no group, and would take any", v.Name, r.Kind)
			}
		}
		if _, errs := health.Compile(v.Rules); errs != nil {
			t.Errorf("%s: got %v, want rules that compile", v.Name, errs)
		}
	}
}

func TestNoRuleStandsTwice(t *testing.T) {
	t.Parallel()
	seen := map[[2]string]bool{}
	for _, r := range rulesOf(t) {
		if key := [2]string{r.Group, r.Kind}; seen[key] {
			t.Errorf("got a second rule for %v, want one", key)
		} else {
			seen[key] = true
		}
	}
}

func TestSamplesOfLibrary(t *testing.T) {
	t.Parallel()
	library := health.NewLibrary()
	for _, s := range samples(t, "library") {
		check(t, library, s)
	}
}

// TestEveryRuleHasSamples checks that every rule has a sample of each of its verdicts, and that the
// general rules hold for the samples.
func TestEveryRuleHasSamples(t *testing.T) {
	t.Parallel()
	type verdicts map[string]bool
	covered, library := map[[2]string]verdicts{}, health.NewLibrary()
	rules := rulesOf(t)
	for _, s := range samples(t, "library") {
		r := ruleFor(t, rules, &s.Object)
		key := [2]string{r.Group, r.Kind}
		if covered[key] == nil {
			covered[key] = verdicts{}
		}
		covered[key][s.Want] = true
		checkCommon(t, library, r, s)
	}
	for _, r := range rules {
		got := covered[[2]string{r.Group, r.Kind}]
		for state, can := range map[string]bool{
			"Healthy": r.Healthy != "", "Degraded": r.Degraded != "", "Progressing": r.Healthy != "true" || r.Progressing != "",
		} {
			if can && !got[state] {
				t.Errorf("rule for %s/%s: got no sample that is %s, want one", r.Group, r.Kind, state)
			}
		}
	}
}

// ruleFor returns the rule that judges an object.
func ruleFor(t *testing.T, rules []syncpolicy.HealthRule, o *unstructured.Unstructured) syncpolicy.HealthRule {
	t.Helper()
	for _, r := range rules {
		group, err := path.Match(r.Group, o.GroupVersionKind().Group)
		if err != nil {
			t.Fatal(err)
		}
		if kind, _ := path.Match(r.Kind, o.GetKind()); kind && group {
			return r
		}
	}
	t.Fatalf("got no rule for %s %s, want one", o.GetAPIVersion(), o.GetKind())
	return syncpolicy.HealthRule{}
}

// checkCommon checks what holds for the objects of every rule.
func checkCommon(t *testing.T, library *health.Library, r syncpolicy.HealthRule, s sample) {
	t.Helper()
	expect := func(what string, o *unstructured.Unstructured, want health.State) {
		t.Helper()
		if got := library.Judge(o); got.State != want || strings.Contains(got.Message, "cannot be evaluated") {
			t.Errorf("%s, %s: got %v %q, want %v", s.Case, what, got.State, got.Message, want)
		}
	}
	if s.Want == "Healthy" && s.Message != "" {
		return // suspension takes precedence
	}
	fresh := health.Progressing
	if r.Healthy == "true" {
		fresh = health.Healthy
	}
	if !s.Static {
		bare := s.Object.DeepCopy()
		delete(bare.Object, "status")
		expect("without a status", bare, fresh)
		bare.Object["status"] = map[string]any{}
		expect("with an empty status", bare, fresh)
	}
	gone := s.Object.DeepCopy()
	_ = unstructured.SetNestedField(gone.Object, "2026-01-01T00:00:00Z", "metadata", "deletionTimestamp")
	expect("while it is deleted", gone, health.Terminating)
	old := s.Object.DeepCopy()
	old.SetGeneration(7)
	_ = unstructured.SetNestedField(old.Object, int64(6), "status", "observedGeneration")
	expect("with an old generation", old, health.Progressing)
}
