// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"net/http/httptest"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/giteatest"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// TestSlowGitea lets a real Gitea send what it sends: its own signature, headers and payload, of a
// push, a tag and a deletion.
func TestSlowGitea(t *testing.T) {
	t.Parallel()
	if os.Getenv("LEAT_SLOW") == "" {
		t.Skip("LEAT_SLOW is not set: Gitea is left to `make test-all`")
	}
	server := giteatest.Start(t)
	demo, gone := server.Repository(t, "demo"), server.Repository(t, "gone")
	h := (&hub{repositories: []mirror.Definition{
		repository("demo", server.SSHURL(demo), own), // not the URL that the payload has first
		repository("gone", server.CloneURL(gone, giteatest.Account{}), own),
	}}).start(t)
	receiver := httptest.NewServer(h.mux)
	t.Cleanup(receiver.Close)
	server.AddWebhook(t, demo, receiver.URL+"/webhooks/gitea", own, "push")
	server.AddWebhook(t, gone, receiver.URL+"/webhooks/gitea", own, "delete")

	local := gittest.New(t).Repo(t, "local")
	first := local.Commit(t, "main", map[string]string{"a": "1"})
	push := func(repository string, refspecs ...string) {
		local.Git(t, append([]string{"push", "--quiet", server.CloneURL(repository, server.Owner)}, refspecs...)...)
	}
	for _, refspec := range []string{"main", first + ":refs/heads/topic", first + ":refs/tags/v1"} {
		push(demo, refspec)
		if diff := cmp.Diff([]string{"demo"}, h.await(t, 1)); diff != "" {
			t.Errorf("refreshes after a push of %s (-want +got):\n%s", refspec, diff)
		}
	}
	push(gone, "main", first+":refs/heads/topic")
	push(gone, ":refs/heads/topic")
	if diff := cmp.Diff([]string{"gone"}, h.await(t, 1)); diff != "" {
		t.Errorf("refreshes after a deletion (-want +got):\n%s", diff)
	}
}
