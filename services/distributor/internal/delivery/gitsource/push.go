// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"context"
	"maps"
	"slices"
	"strings"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/delivery/push"
)

// tagRefs begins the full names of tags.
const tagRefs = "refs/tags/"

// Tags returns the tags of an OCI repository as they were last polled, by name, without the ones that are held back. more is true
// if there are more than limit. Errors are *resolve.Failure, or the context's.
func (s *Source) Tags(ctx context.Context, repository string, limit int) (tags []string, more bool, err error) {
	token := ""
	for {
		res, err := s.listRefs(ctx, &gitcachev1.ListRefsRequest{Repository: repository, Prefix: tagRefs, Page: &typev1.Page{Size: pageSize, Token: token}})
		if err != nil {
			return nil, false, err
		}
		for _, ref := range res.GetRefs() {
			if ref.GetHeldBack() != "" {
				continue // it is not signed as the repository demands
			}
			if len(tags) == limit {
				return tags, true, nil
			}
			tags = append(tags, strings.TrimPrefix(ref.GetName(), tagRefs))
		}
		if token = res.GetNextPageToken(); token == "" {
			return tags, false, nil
		}
	}
}

// Digest looks up the digest that a tag of an OCI repository leads to now, as sha256:…. It is empty if the repository has no such tag,
// or if gitcache is too old to look it up. Errors are *resolve.Failure, or the context's.
func (s *Source) Digest(ctx context.Context, repository, tag string) (string, error) {
	name := tagRefs + tag
	res, err := s.listRefs(ctx, &gitcachev1.ListRefsRequest{Repository: repository, Prefix: name, Resolve: []string{name}, Page: &typev1.Page{Size: pageSize}})
	if err != nil {
		return "", err
	}
	for _, ref := range res.GetRefs() {
		if ref.GetName() == name && ref.GetCommit() != "" {
			return "sha256:" + strings.TrimPrefix(ref.GetCommit(), "sha256:"), nil
		}
	}
	return "", nil
}

func (s *Source) listRefs(ctx context.Context, req *gitcachev1.ListRefsRequest) (*gitcachev1.ListRefsResponse, error) {
	res, err := s.p.Client.ListRefs(ctx, req)
	if rpcerr.ReasonOf(err) == errorsv1.Reason_REASON_NOT_FOUND {
		return nil, s.unknown()
	}
	if err != nil {
		return nil, failure(ctx, err)
	}
	return res, nil
}

// PushCommit pushes a commit: see the call PushCommit of gitcache. Errors are *resolve.Failure, or the context's.
func (s *Source) PushCommit(ctx context.Context, commit push.Commit) (id, pullRequestURL string, err error) {
	req := &gitcachev1.PushCommitRequest{
		Repository: commit.Repository, Branch: commit.Branch, BaseCommit: commit.Base, Message: commit.Message,
	}
	for _, name := range slices.Sorted(maps.Keys(commit.Files)) {
		req.Files = append(req.Files, &gitcachev1.ChangedFile{Path: name, Content: commit.Files[name]})
	}
	if pull := commit.PullRequest; pull != nil {
		req.PullRequest = &gitcachev1.PullRequest{Branch: pull.Branch, Title: pull.Title, Body: pull.Body}
	}
	res, err := s.p.Client.PushCommit(ctx, req)
	if rpcerr.ReasonOf(err) == errorsv1.Reason_REASON_NOT_FOUND {
		return "", "", s.unknown()
	}
	if err != nil {
		return "", "", failure(ctx, err)
	}
	return res.GetCommit(), res.GetPullRequestUrl(), nil
}
