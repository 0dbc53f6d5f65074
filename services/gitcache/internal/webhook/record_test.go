// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/gitcache/internal/hooklog"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// take returns the next record.
func (h *hub) take(t *testing.T) recorded {
	t.Helper()
	return await.Value(t, "a record", h.records)
}

func TestDeliveriesAreRecorded(t *testing.T) {
	t.Parallel()
	const url = "https://github.com/Acme/shop.git"
	push := func(secret string) delivery { return github(t, secret, "push", "github-push") }
	to := func(repository string, d delivery) delivery {
		d.provider += "/" + repository
		return d
	}
	bare := push(own)
	delete(bare.header, "X-Hub-Signature-256")
	large := push(own)
	large.body = []byte(strings.Repeat("x", 1<<20))
	for name, tc := range map[string]struct {
		delivery delivery
		uid      string
		want     hooklog.Outcome
		refs     []string
	}{
		"accepted, by its own address":   {to("shop", push(own)), "uid-shop", hooklog.Accepted, []string{"refs/heads/main"}},
		"accepted, by the hub's address": {push(own), "uid-shop", hooklog.Accepted, []string{"refs/heads/main"}},
		"proven by another secret":       {to("shop", push("guessed by somebody")), "uid-shop", hooklog.WrongKey, nil},
		"without a proof":                {to("shop", bare), "uid-shop", hooklog.NoProof, nil},
		"too large":                      {to("shop", large), "uid-shop", hooklog.TooLarge, nil},
		"a ping":                         {to("shop", github(t, own, "ping", "github-push")), "uid-shop", hooklog.Ping, nil},
		"about something else":           {to("shop", github(t, own, "issues", "github-push")), "uid-shop", hooklog.Ignored, nil},
		"about another repository":       {to("other", push(own)), "uid-other", hooklog.Unmatched, []string{"refs/heads/main"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := (&hub{repositories: []mirror.Definition{
				repository("shop", url, own), repository("other", "https://git.example.com/other.git", own),
			}}).start(t)
			h.send(t, tc.delivery)
			got := h.take(t)
			if got.record.Time.IsZero() {
				t.Error("got no time")
			}
			got.record.Time = time.Time{}
			want := recorded{tc.uid, hooklog.Record{Provider: "github", Outcome: tc.want, Refs: tc.refs}}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(recorded{})); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSecUnprovenDeliveriesAreBarelyRecorded sends what strangers could: about a repository that is not there, with
// no repository in its address, and more than are recorded. The next proven delivery is recorded anyway.
func TestSecUnprovenDeliveriesAreBarelyRecorded(t *testing.T) {
	t.Parallel()
	h := (&hub{repositories: []mirror.Definition{repository("shop", "https://github.com/Acme/shop.git", own)}}).start(t)
	for i, name := range []string{"github", "github/none"} {
		d := github(t, "guessed by somebody", "push", "github-push")
		d.provider, d.from = name, fmt.Sprintf("192.0.2.%d:1000", i)
		wantStatus(t, h.send(t, d), http.StatusUnauthorized)
	}
	for i := range 100 {
		d := github(t, "guessed by somebody", "push", "github-push")
		d.provider, d.from = "github/shop", fmt.Sprintf("198.51.100.%d:1000", i)
		wantStatus(t, h.send(t, d), http.StatusUnauthorized)
	}
	wantStatus(t, h.send(t, github(t, own, "push", "github-push")), http.StatusAccepted)
	for n := 0; ; n++ {
		got := h.take(t)
		if got.uid != "uid-shop" {
			t.Fatalf("got a record about %q", got.uid)
		}
		if got.record.Outcome == hooklog.Accepted {
			return
		}
		if got.record.Refs != nil || n > 50 {
			t.Fatalf("got %v as record %d of strangers", got.record, n)
		}
	}
}
