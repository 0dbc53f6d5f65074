// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"errors"
	"slices"
	"strings"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// maxServiceCommits bounds the commits of one source. Who looks for more looks at the Git host.
	maxServiceCommits = 20
	// maxCommitText bounds, in bytes, a text that the author of a commit chose.
	maxCommitText = 200
)

// ListServiceCommits implements FleetService. It shows only history that led to what the service has or had: a caller
// cannot name any other commit of the repository.
func (s *Service) ListServiceCommits(
	ctx context.Context, req *fleetv1.ListServiceCommitsRequest,
) (*fleetv1.ListServiceCommitsResponse, error) {
	record, err := s.permitted(ctx, catalog.KindService, "service", req.GetService())
	if err != nil {
		return nil, err
	}
	service, _ := record.Object.(*catalog.Service)
	revisions, err := s.d.History.Revisions(ctx, service.UID)
	if err != nil {
		return nil, wire.Error(err)
	}
	states := make([][]string, 0, 1+len(revisions))
	states = append(states, commitsOf(record.Service.Sources))
	for _, revision := range revisions {
		states = append(states, revision.Commits)
	}
	spans, ok := spansTo(req.GetCommit(), len(service.Spec.Sources), states)
	if !ok {
		return nil, rpcerr.Field("commit", "None of the service's sources has it, and none of its latest revisions had it.")
	}
	res := &fleetv1.ListServiceCommitsResponse{}
	for _, span := range spans {
		source := service.Spec.Sources[span.source]
		commits, more, err := s.d.Mirrors.Commits(ctx, historyOf(source, span.from), span.until, span.limit())
		if f, ok := errors.AsType[*resolve.Failure](err); ok && f.Reason == reason.RefNotFound {
			continue // the upstream rewrote its history, and the mirror has followed
		}
		if err != nil {
			return nil, unresolved(source, err)
		}
		res.More = res.More || more && span.until != ""
		for _, commit := range commits {
			res.Commits = append(res.Commits, serviceCommit(source.Repository, commit))
		}
	}
	return res, nil
}

// historyOf returns what to read the history of: the folder of a source, at a commit. A source of several folders or single
// files can change by any commit of its repository.
func historyOf(source catalog.Source, commit string) catalog.Source {
	of := catalog.Source{Repository: source.Repository, Ref: catalog.Ref{Kind: catalog.RefCommit, Value: commit}}
	if len(source.Folders.Items()) == 0 && len(source.Files.Items()) == 0 {
		of.Path = source.Path
		if source.Root != "" {
			of.Path = source.Root
		}
	}
	return of
}

// commitsOf returns the commits of sources; empty for one that was never resolved.
func commitsOf(sources []catalog.Resolution) []string {
	commits := make([]string, len(sources))
	for i, source := range sources {
		if source.Snapshot != nil {
			commits[i] = source.Snapshot.Commit
		}
	}
	return commits
}

// span is a piece of the history of one source: what came since until.
type span struct {
	source      int
	from, until string
}

// limit is one commit if nothing says where the piece ends.
func (s span) limit() int {
	if s.until == "" {
		return 1
	}
	return maxServiceCommits
}

// spansTo returns what led to a commit. The states are the commits of all sources, the newest state first; one with
// another number of sources says nothing about the ones of now. Without a commit it is what led to the newest state. A
// source that the step did not change has no span, nor has one without commits, whose content has a digest. It reports
// whether a state has the commit.
func spansTo(commit string, sources int, states [][]string) (spans []span, ok bool) {
	states = slices.DeleteFunc(states, func(commits []string) bool { return len(commits) != sources })
	last := slices.IndexFunc(states, func(commits []string) bool { return commit == "" || slices.Contains(commits, commit) })
	if last < 0 {
		return nil, commit == ""
	}
	for i, from := range states[last] {
		if from == "" || strings.Contains(from, ":") || commit != "" && from != commit {
			continue
		}
		until := ""
		for _, earlier := range states[last+1:] {
			if earlier[i] != from {
				until = earlier[i]
				break
			}
		}
		spans = append(spans, span{source: i, from: from, until: until})
	}
	return spans, true
}

// cutText returns the beginning of a text that somebody chose, without a broken character at its end.
func cutText(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxCommitText)], "")
}

func serviceCommit(repository string, commit *gitcachev1.Commit) *fleetv1.ServiceCommit {
	subject, _, _ := strings.Cut(strings.TrimSpace(commit.GetMessage()), "\n")
	return &fleetv1.ServiceCommit{
		Repository: repository, Id: commit.GetId(), AuthorName: cutText(commit.GetAuthorName()),
		AuthorTime: commit.GetAuthorTime(), CommitTime: commit.GetCommitTime(), Subject: cutText(subject),
	}
}
