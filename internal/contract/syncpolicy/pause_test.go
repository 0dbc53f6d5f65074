// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package syncpolicy_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
)

// noon is a moment that ends are before, at or after.
var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// moments draws times around noon.
func moments(t *rapid.T, name string) time.Time {
	return noon.Add(time.Duration(rapid.IntRange(-3, 3).Draw(t, name)) * time.Nanosecond)
}

func pauses(t *rapid.T, name string) syncpolicy.Pause {
	p := syncpolicy.Pause{IsSet: rapid.Bool().Draw(t, name)}
	if p.IsSet && rapid.Bool().Draw(t, name+" ends") {
		p.Until = moments(t, name+" until")
	}
	return p
}

// TestPausesOfSeveralPeople joins pauses in every order: a service is paused while one of them counts.
func TestPausesOfSeveralPeople(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c, at := pauses(t, "a"), pauses(t, "b"), pauses(t, "c"), moments(t, "at")
		if a.Or(b).At(at) != (a.At(at) || b.At(at)) {
			t.Fatalf("%+v or %+v is %+v, which does not count when one of them does", a, b, a.Or(b))
		}
		if !a.Or(b).Equal(b.Or(a)) || !a.Or(b).Or(c).Equal(a.Or(b.Or(c))) || !a.Or(a).Equal(a) {
			t.Fatalf("the order of %+v, %+v and %+v decides", a, b, c)
		}
	})
}

// TestOptionsAsOf wants options that change at their next end and at no time before it.
func TestOptionsAsOf(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		options := syncpolicy.Options{Namespace: "shop"}.WithPause(pauses(t, "pause"))
		for i := range rapid.IntRange(0, 3).Draw(t, "rules") {
			rule := syncpolicy.IgnoreRule{Pointers: []string{fmt.Sprintf("/%d", i)}}
			if rapid.Bool().Draw(t, "the rule ends") {
				rule.Until = moments(t, "rule until")
			}
			options.Policy.Ignore = append(options.Policy.Ignore, rule)
		}
		at, later := moments(t, "at"), moments(t, "later")
		if later.Before(at) {
			at, later = later, at
		}
		counting := options.AsOf(at)
		if counting.Namespace != "shop" || counting.HasEnd() || counting.Paused != options.Pause().At(at) {
			t.Fatalf("got %+v of %+v at %s", counting, options, at)
		}
		if !options.HasEnd() && !counting.Equal(options) {
			t.Fatalf("got %+v of %+v, which has no end", counting, options)
		}
		if last := options.LastEnd(at); last.After(at) || !options.AsOf(last).Equal(counting) {
			t.Fatalf("got %s as the last end of %+v at %s, since which something else has ended", last, options, at)
		}
		next := options.NextEnd(at)
		if !next.IsZero() && (!next.After(at) || options.AsOf(next).Equal(counting)) {
			t.Fatalf("nothing ends at %s in %+v", next, options)
		}
		if isSame := options.AsOf(later).Equal(counting); isSame != (next.IsZero() || later.Before(next)) {
			t.Fatalf("got the same options at %s and %s: %v, and the next end of %+v is %s", at, later, isSame, options, next)
		}
	})
}

func TestPausesWithAnEndAlone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pause   syncpolicy.Pause
		isValid bool
	}{
		"none":          {syncpolicy.Pause{}, true},
		"without end":   {syncpolicy.Pause{IsSet: true}, true},
		"with an end":   {syncpolicy.Pause{IsSet: true, Until: noon}, true},
		"an end alone":  {syncpolicy.Pause{Until: noon}, false},
		"an early year": {syncpolicy.Pause{IsSet: true, Until: time.Unix(1, 0)}, true},
	} {
		err := syncpolicy.Options{Paused: test.pause.IsSet, PausedUntil: test.pause.Until}.Validate("app")
		if (err == nil) != test.isValid {
			t.Errorf("%s: got %v, want valid: %v", name, err, test.isValid)
		}
		const want = "paused_until: is set without paused; set both, or none"
		if err != nil && err.Error() != want {
			t.Errorf("%s: got %q, want %q", name, err, want)
		}
	}
}
