// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notifysink_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/testkit/giteatest"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestSlowGitea sets the status of a commit at a real Gitea as a delivery progresses, and as
// accounts that may not, and at a commit that is not there.
func TestSlowGitea(t *testing.T) {
	t.Parallel()
	if os.Getenv("LEAT_SLOW") == "" {
		t.Skip("LEAT_SLOW is not set: Gitea is left to `make test-all`")
	}
	server := giteatest.Start(t)
	path := server.Repository(t, "shop")
	local := gittest.New(t).Repo(t, "local")
	commit := local.Commit(t, "main", map[string]string{"a": "1"})
	local.Git(t, "push", "--quiet", server.CloneURL(path, server.Owner), "main")

	send := func(as giteatest.Account, id string, tally notify.Tally) error {
		d := delivery(catalog.Sink{Type: catalog.SinkCommitStatus, Commit: &catalog.CommitSink{Provider: catalog.ForgeGitea, URL: server.URL}},
			catalog.NotifierSecrets{Token: secret.Text(as.Token)})
		d.Commit, d.Tally, d.URL = notify.Commit{Repository: "shop", ID: id}, tally, server.SSHURL(path)
		_, err := sinks().Send(t.Context(), d)
		return err
	}
	for _, tally := range []notify.Tally{{Pending: 3}, {Healthy: 2, Failed: 1}, {Healthy: 3}, {Healthy: 3}} {
		if err := send(server.Owner, commit, tally); err != nil {
			t.Fatal(err)
		}
	}
	want := []giteatest.Status{
		{Context: "leat", Status: "pending", Description: "0 healthy, 0 failed, 3 in progress"},
		{Context: "leat", Status: "failure", Description: "2 healthy, 1 failed, 0 in progress"},
		{Context: "leat", Status: "success", Description: "3 healthy, 0 failed, 0 in progress"},
		{Context: "leat", Status: "success", Description: "3 healthy, 0 failed, 0 in progress"},
	}
	if diff := cmp.Diff(want, server.Statuses(t, path, commit)); diff != "" {
		t.Errorf("statuses, oldest first (-want +got):\n%s", diff)
	}
	if err := send(server.Stranger, commit, notify.Tally{Healthy: 1}); !refused(t, err).Permanent {
		t.Errorf("a stranger's token: got %v", err)
	}
	// Gitea takes this for a failure of its own, so it is asked again.
	if err := send(server.Owner, "00000000000000000000"+commit[20:], notify.Tally{Healthy: 1}); refused(t, err).Permanent {
		t.Errorf("a commit that is not there: got %v", err)
	}
}
