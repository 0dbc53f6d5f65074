// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
)

// TestRefreshFindsTheOwner refreshes by name at the owner, at another replica, and without an
// owner.
func TestRefreshFindsTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, runA := w.member(t, "a", nil, definition("demo"))
		b, runB := w.member(t, "b", nil, definition("demo"))
		stopA, stopB := runA(), runB()
		time.Sleep(time.Minute)
		owner, other, stopOwner, stopOther := a, b, stopA, stopB
		if get(t, a, "demo").Epoch() == 0 {
			owner, other, stopOwner, stopOther = b, a, stopB, stopA
		}
		defer stopOther()
		before := w.upstream.count()
		for _, set := range []*mirroring.Set{owner, other} {
			if problem, err := set.Refresh(t.Context(), "demo", true); problem != nil || err != nil {
				t.Errorf("got %v, %v, want a fetch", problem, err)
			}
		}
		if got := w.upstream.count() - before; got != 2 || len(w.fleet.asked) != 1 {
			t.Errorf("got %d fetches and calls %q, want one fetch for each call and one call", got, w.fleet.asked)
		}
		w.upstream.set(nil, &mirror.UpstreamError{Reason: reason.UpstreamAuthRejected, Message: "no"})
		if problem, err := other.Refresh(t.Context(), "demo", true); err != nil || problem == nil || problem.Reason != reason.UpstreamAuthRejected {
			t.Errorf("got %v, %v, want the upstream's refusal", problem, err)
		}
		if _, err := other.Refresh(t.Context(), "nothing", true); !errors.Is(err, mirror.ErrUnknownRepository) {
			t.Errorf("got %v for an unknown name, want ErrUnknownRepository", err)
		}
		stopOwner()
	})
}

// TestRoute plays every reply that another replica can give, and compares who was asked, in which
// order.
func TestRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, runA := w.member(t, "a", nil, definition("demo"))
		b, runB := w.member(t, "b", nil, definition("demo"))
		defer runA()()
		defer runB()()
		time.Sleep(time.Minute)
		owner, other := get(t, a, "demo"), get(t, b, "demo")
		if owner.Epoch() == 0 {
			owner, other = other, owner
		}
		noAnswer, cold, absent := errors.New("no answer"), errors.New("cold"), errors.New("absent")
		final := errors.New("final")
		classify := func(err error) mirroring.Reply {
			switch {
			case errors.Is(err, noAnswer):
				return mirroring.NoAnswer
			case errors.Is(err, cold):
				return mirroring.Cold
			case errors.Is(err, absent):
				return mirroring.Absent
			default:
				return mirroring.Answered
			}
		}
		for name, test := range map[string]struct {
			repository *mirroring.Repository
			via        mirror.Via
			there      error // of the owner; a holder answers
			here       error
			want       []string
			wantErr    error
		}{
			"at the owner":                     {owner, mirror.ViaCaller, nil, nil, []string{"here"}, nil},
			"at the owner, forwarded":          {owner, mirror.ViaOwner, nil, nil, []string{"here"}, nil},
			"elsewhere":                        {other, mirror.ViaCaller, nil, nil, []string{"1"}, nil},
			"the owner's error is an answer":   {other, mirror.ViaCaller, final, nil, []string{"1"}, final},
			"and so is that it has it not":     {other, mirror.ViaCaller, absent, nil, []string{"1"}, absent},
			"taken for the owner":              {other, mirror.ViaOwner, nil, nil, nil, mirror.ErrOwnershipLost},
			"taken for a holder":               {other, mirror.ViaHolder, nil, nil, []string{"here"}, nil},
			"the owner is cold":                {other, mirror.ViaCaller, cold, nil, []string{"1", "holder"}, nil},
			"the owner does not answer":        {other, mirror.ViaCaller, noAnswer, nil, []string{"1", "1", "1", "holder"}, nil},
			"taken for a holder, which it is ": {owner, mirror.ViaHolder, nil, final, []string{"here"}, final},
		} {
			var asked []string
			_, err := mirroring.Route(t.Context(), test.repository, mirroring.Call[int]{
				Via: test.via, Classify: classify,
				Here: func(context.Context) (int, error) {
					asked = append(asked, "here")
					return 0, test.here
				},
				There: func(_ context.Context, _ string, via mirror.Via, answering func()) (int, error) {
					asked = append(asked, string(via))
					answering()
					if via == mirror.ViaHolder {
						return 0, nil
					}
					return 0, test.there
				},
			})
			if !errors.Is(err, test.wantErr) || !slices.Equal(asked, test.want) {
				t.Errorf("%s: got %v after asking %q, want %v after %q", name, err, asked, test.wantErr, test.want)
			}
		}
	})
}
