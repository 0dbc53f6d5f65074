// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
)

func TestWhoChangedAServiceIsToldFromItsHistoryAlone(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	then := timestamppb.New(time.Unix(1, 0))
	h.git.mu.Lock()
	h.git.commits = map[string][]*gitcachev1.Commit{
		"c1": {{
			Id: "c1", AuthorName: strings.Repeat("Ada ", 60), AuthorEmail: "ada@example.com", AuthorTime: then, CommitTime: then,
			Message: "\nScale the shop\n\nIt is Friday.",
		}},
		"secret": {{Id: "secret", Message: "never shown"}},
	}
	h.git.mu.Unlock()
	fleet := h.fleet(t, adminToken)
	ask := func(commit string) (*fleetv1.ListServiceCommitsResponse, error) {
		return fleet.ListServiceCommits(t.Context(), &fleetv1.ListServiceCommitsRequest{Service: "app", Commit: commit})
	}
	want := []*fleetv1.ServiceCommit{{
		Repository: "demo", Id: "c1", AuthorName: strings.Repeat("Ada ", 50), AuthorTime: then, CommitTime: then, Subject: "Scale the shop",
	}}
	await.True(t, "the source was resolved", func() bool {
		_, err := ask("c1")
		return err == nil
	})
	for _, commit := range []string{"", "c1"} {
		res, err := ask(commit)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, res.GetCommits(), protocmp.Transform()); diff != "" || res.GetMore() {
			t.Errorf("commits for %q (-want +got):\n%s", commit, diff)
		}
	}
	h.git.mu.Lock()
	asked := h.git.histories[0]
	h.git.mu.Unlock()
	if asked.GetSource().GetRepository() != "demo" || asked.GetSource().GetRef().GetCommit() != "c1" || asked.GetPage().GetSize() != 1 {
		t.Errorf("asked for %v, want one commit of demo", asked)
	}

	_, err := ask("secret")
	wantReason(t, err, "FIELD_INVALID")
	_, err = fleet.ListServiceCommits(t.Context(), &fleetv1.ListServiceCommitsRequest{Service: "none"})
	wantReason(t, err, "NOT_FOUND")

	h.git.mu.Lock()
	h.git.refused["c1"] = rpcerr.New(connect.CodeNotFound, errorsv1.Reason_REASON_REF_NOT_FOUND, "gone")
	h.git.mu.Unlock()
	if res, err := ask(""); err != nil || len(res.GetCommits()) != 0 {
		t.Errorf("of a history that was rewritten: got %v, %v, want nothing", res, err)
	}
	h.git.stop()
	_, err = ask("")
	wantReason(t, err, "DEPENDENCY_UNAVAILABLE")
}
