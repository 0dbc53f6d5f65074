// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"testing"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/redistest"
)

// notify sends what Gitea sends after a push.
func (r *replica) notify(t *testing.T, secret, url, after string) int {
	t.Helper()
	body := []byte(`{"ref": "refs/heads/main", "after": "` + after + `", "repository": {"clone_url": "` + url + `"}}`)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/webhooks/gitea", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Gitea-Event", "push")
	req.Header.Set("X-Gitea-Signature", hex.EncodeToString(mac.Sum(nil)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// TestWebhookAtAnyReplica: the replica that takes a webhook passes it on to the owner, whichever
// that is.
func TestWebhookAtAnyReplica(t *testing.T) {
	t.Parallel()
	const webhookSecret = "the secret of one repository"
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"app/a": "1"})
	a := start(t, redis.URL(), t.TempDir())
	def := definition("demo", repo.URL()) // polled once an hour
	def.WebhookSecret = webhookSecret
	a.put(t, def)
	a.state(t, "demo", ready)
	b := start(t, redis.URL(), t.TempDir())
	b.state(t, "demo", ready)

	for _, r := range []*replica{a, b} {
		pushed := repo.Commit(t, "main", map[string]string{"app/a": r.url})
		if code := r.notify(t, "a secret nobody has here", repo.URL(), pushed); code != http.StatusUnauthorized {
			t.Errorf("a wrong secret: got %d, want 401", code)
		}
		if code := r.notify(t, webhookSecret, repo.URL(), pushed); code != http.StatusAccepted {
			t.Errorf("a webhook: got %d, want 202", code)
		}
		a.state(t, "demo", func(*gitcachev1.RepositoryState) bool {
			return a.resolve(t, source("demo", "main", "app")).GetCommit() == pushed
		})
	}
	// Every replica lists what arrived at any.
	list := &gitcachev1.ListWebhookDeliveriesRequest{Name: "demo"}
	for _, r := range []*replica{a, b} {
		await.True(t, "two deliveries in the list", func() bool {
			res, err := r.ListWebhookDeliveries(t.Context(), list)
			if err != nil {
				t.Fatal(err)
			}
			return len(res.GetDeliveries()) == 2 && res.GetDeliveries()[1].GetOutcome() == gitcachev1.WebhookOutcome_WEBHOOK_OUTCOME_ACCEPTED &&
				res.GetDeliveries()[1].GetProvider() == "gitea" && slices.Equal(res.GetDeliveries()[1].GetRefs(), []string{"refs/heads/main"})
		})
	}
	// A delivery that one replica took is not news at another.
	fetches := a.refresh(t, "demo").GetFetches()
	for _, r := range []*replica{a, b} {
		if code := r.notify(t, webhookSecret, repo.URL(), repo.Resolve(t, "main")); code != http.StatusAccepted {
			t.Errorf("a replay: got %d, want 202", code)
		}
	}
	marker := server.Repo(t, "marker")
	marker.Commit(t, "main", map[string]string{"a": "1"})
	other := definition("marker", marker.URL())
	other.WebhookSecret = webhookSecret
	b.put(t, other)
	b.state(t, "marker", ready)
	pushed := marker.Commit(t, "main", map[string]string{"a": "2"})
	b.notify(t, webhookSecret, marker.URL(), pushed)
	b.state(t, "marker", func(*gitcachev1.RepositoryState) bool {
		return b.resolve(t, source("marker", "main", "")).GetCommit() == pushed
	})
	if got := a.state(t, "demo", ready).GetFetches(); got != fetches {
		t.Errorf("got %d fetches after replays, want %d as before", got, fetches)
	}
	got, err := a.GetRepository(t.Context(), &gitcachev1.GetRepositoryRequest{Name: "demo"})
	if err != nil || strings.Contains(got.String(), webhookSecret) {
		t.Errorf("got %v (%v), want the definition without its secret", got, err)
	}
}
