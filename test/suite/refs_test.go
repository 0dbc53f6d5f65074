// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/testkit/gittest"
)

const webhookSecret = "the secret of the shop's webhooks"

// notify notifies gitcache of a push, like a Git host that supports only the generic form.
func (h *hub) notify(t *testing.T, url, what string) {
	t.Helper()
	body := fmt.Appendf(nil, `{"url": %q, "what": %q}`, url, what)
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(webhookSecret))
	fmt.Fprintf(mac, "%s.%s", stamp, body)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.gitcache.url()+"/webhooks/generic", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Leat-Timestamp", stamp)
	request.Header.Set("X-Leat-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusAccepted {
		t.Fatalf("notify of %s: got %s, want 202", what, response.Status)
	}
}

// TestRefsThatMoveAndVanish reports upstream changes only by webhooks. Whatever changes upstream,
// the service follows or keeps its content, and nothing is pruned.
func TestRefsThatMoveAndVanish(t *testing.T) {
	h := startHub(t)
	repo := h.upstream.Repo(t, "shop")
	push := func(value string) string {
		return repo.Commit(t, "main", map[string]string{"app/settings.yaml": configMap("settings", value)})
	}
	first := push("one")
	repo.Tag(t, "v1.4.0", first)
	repo.Commit(t, "release", map[string]string{"app/settings.yaml": configMap("settings", "release")})
	shop := repository("shop", repo.URL())
	shop.GetRepository().Spec.WebhookSecret = proto.String(webhookSecret)
	ranged, pinned := service("ranged", "shop", "app"), service("pinned", "shop", "app")
	ranged.GetService().GetSpec().GetSources()[0].Ref = &typev1.GitRef{Selector: &typev1.GitRef_Semver{Semver: "~1.4"}}
	pinned.GetService().GetSpec().GetSources()[0].Ref = &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: "release"}}
	h.apply(t, shop, service("moving", "shop", "app"), ranged, pinned)
	released := repo.Resolve(t, "release")
	h.waitService(t, "moving", "healthy at first", healthyAt(first))
	h.waitService(t, "ranged", "healthy at first", healthyAt(first))
	h.waitService(t, "pinned", "healthy at first", healthyAt(released))

	holds := func(t *testing.T, service, value string) {
		t.Helper()
		code, body := h.kubeGet(t, "/api/v1/namespaces/"+service+"/configmaps/settings")
		if code != http.StatusOK || !strings.Contains(body, strconv.Quote(value)) {
			t.Errorf("the settings of %s: got %d %s, want %q", service, code, body, value)
		}
	}

	t.Run("a new tag in the range", func(t *testing.T) {
		second := push("two")
		repo.AnnotatedTag(t, "v1.4.1", second)
		repo.Tag(t, "v1.5.0", push("beyond the range"))
		h.notify(t, repo.URL(), "tags")
		h.waitService(t, "ranged", "healthy at the new tag", healthyAt(second))
		holds(t, "ranged", "two")
	})

	t.Run("a force-push", func(t *testing.T) {
		forced := repo.ForcePush(t, "main", map[string]gittest.File{"app/settings.yaml": gittest.Text(configMap("settings", "forced"))})
		h.notify(t, repo.URL(), "force")
		h.waitService(t, "moving", "healthy at the new history", healthyAt(forced))
		holds(t, "moving", "forced")
	})

	t.Run("a deleted branch", func(t *testing.T) {
		repo.DeleteBranch(t, "release")
		h.notify(t, repo.URL(), "delete")
		status := h.waitService(t, "pinned", "failed", failedWith(errorsv1.Reason_REASON_REF_NOT_FOUND, "branch release"))
		if got := status.GetSources()[0].GetSnapshot().GetCommit(); got != released {
			t.Errorf("the last good snapshot: got commit %q, want %s", got, released)
		}
		holds(t, "pinned", "release")
	})

	t.Run("an emptied repository", func(t *testing.T) {
		repo.DeleteBranch(t, "main")
		for _, tag := range []string{"v1.4.0", "v1.4.1", "v1.5.0"} {
			repo.Git(t, "tag", "-d", tag)
		}
		h.notify(t, repo.URL(), "empty")
		for service, value := range map[string]string{"moving": "forced", "ranged": "two", "pinned": "release"} {
			h.waitService(t, service, "failed", failedWith(errorsv1.Reason_REASON_REF_NOT_FOUND))
			holds(t, service, value)
		}
	})

	t.Run("a repository that is filled again", func(t *testing.T) {
		again := push("again")
		repo.Tag(t, "v1.4.2", again)
		h.notify(t, repo.URL(), "again")
		for _, service := range []string{"moving", "ranged"} {
			h.waitService(t, service, "healthy again", healthyAt(again))
			holds(t, service, "again")
		}
		h.waitService(t, "pinned", "still failed", failedWith(errorsv1.Reason_REASON_REF_NOT_FOUND))
		holds(t, "pinned", "release")
	})
}
