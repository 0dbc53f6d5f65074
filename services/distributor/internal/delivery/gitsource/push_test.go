// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/delivery/push"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
)

// ListRefs has three pages of two tags each. The digest of a tag is known once it was looked up.
func (g *gitcache) ListRefs(_ context.Context, req *gitcachev1.ListRefsRequest) (*gitcachev1.ListRefsResponse, error) {
	g.asked = append(g.asked, req)
	if g.refusal != nil {
		return nil, g.refusal
	}
	page := 0
	_, _ = fmt.Sscan(req.GetPage().GetToken(), &page) // zero for the first
	res := &gitcachev1.ListRefsResponse{Refs: []*gitcachev1.Ref{{Name: fmt.Sprintf("refs/tags/%d.0.0", page)}, {Name: fmt.Sprintf("refs/tags/%d.1.0", page)}}}
	if len(req.GetResolve()) > 0 {
		res.Refs[0].Commit = "abcd"
		return res, nil
	}
	if page < 2 {
		res.NextPageToken = fmt.Sprint(page + 1)
	}
	return res, nil
}

// PushCommit answers with a commit and a pull request.
func (g *gitcache) PushCommit(_ context.Context, req *gitcachev1.PushCommitRequest) (*gitcachev1.PushCommitResponse, error) {
	g.asked = append(g.asked, req)
	return &gitcachev1.PushCommitResponse{Commit: "next", PullRequestUrl: "https://git.example/1"}, g.refusal
}

func TestTags(t *testing.T) {
	t.Parallel()
	source := newSource(t, &gitcache{}, catalogue{})
	for limit, want := range map[int]int{7: 6, 6: 6, 5: 5, 1: 1} {
		tags, more, err := source.Tags(t.Context(), "images", limit)
		if err != nil || len(tags) != want || more != (limit < 6) || tags[0] != "0.0.0" {
			t.Errorf("at most %d: got %v, %v, %v, want %d tags", limit, tags, more, err, want)
		}
	}
	for tag, want := range map[string]string{"0.0.0": "sha256:abcd", "0.1.0": "", "9.9.9": ""} {
		if got, err := source.Digest(t.Context(), "images", tag); err != nil || got != want {
			t.Errorf("digest of %s: got %q, %v, want %q", tag, got, err, want)
		}
	}
}

func TestPushCommit(t *testing.T) {
	t.Parallel()
	g := &gitcache{}
	source := newSource(t, g, catalogue{})
	id, url, err := source.PushCommit(t.Context(), push.Commit{
		Repository: "config", Branch: "main", Base: "base", Files: map[string][]byte{"b.yaml": []byte("b"), "a.yaml": []byte("a")}, Message: "Update",
		PullRequest: &push.PullRequest{Branch: "leat/image/default/web", Title: "title", Body: "body"},
	})
	if err != nil || id != "next" || url != "https://git.example/1" {
		t.Errorf("got %q, %q, %v", id, url, err)
	}
	want := &gitcachev1.PushCommitRequest{
		Repository: "config", Branch: "main", BaseCommit: "base", Message: "Update",
		Files:       []*gitcachev1.ChangedFile{{Path: "a.yaml", Content: []byte("a")}, {Path: "b.yaml", Content: []byte("b")}},
		PullRequest: &gitcachev1.PullRequest{Branch: "leat/image/default/web", Title: "title", Body: "body"},
	}
	if diff := cmp.Diff(want, g.asked[0], protocmp.Transform()); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestPushFailures(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		refusal error
		want    reason.Reason
	}{
		"outdated":  {rpcerr.New(connect.CodeAborted, errorsv1.Reason_REASON_PUSH_OUTDATED, "moved"), reason.PushOutdated},
		"not known": {rpcerr.NotFound("repository", "config"), reason.RepositoryNotReady},
		"too old":   {connect.NewError(connect.CodeUnimplemented, errors.New("no such call")), reason.DependencyUnavailable},
	} {
		source := newSource(t, &gitcache{refusal: test.refusal}, catalogue{})
		_, _, err := source.PushCommit(t.Context(), push.Commit{Repository: "config"})
		_, _, err2 := source.Tags(t.Context(), "images", 1)
		for _, err := range []error{err, err2} {
			if failure, ok := errors.AsType[*resolve.Failure](err); !ok || failure.Reason != test.want {
				t.Errorf("%s: got %v, want %s", name, err, test.want)
			}
		}
	}
}
