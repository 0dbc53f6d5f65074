// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/upstream/upstreamwire"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const maxMessage = 64 << 10 // of a commit

// DefinitionMessage returns the message of the definition's public form.
func DefinitionMessage(d mirror.Definition) *gitcachev1.RepositoryDefinition {
	m := upstreamwire.DefinitionMessage(d.Public())
	m.Name, m.Uid, m.Version, m.Parent = d.Name, d.UID, d.Version, d.Parent
	return m
}

// StateMessage returns the message of a repository's state.
func StateMessage(s mirror.State) *gitcachev1.RepositoryState {
	p := &gitcachev1.RepositoryState{
		Phase: phases[s.Phase], Problem: fromProblem(s.Problem), FreshAt: Time(s.FreshAt),
		ChangedAt: Time(s.ChangedAt), NextPollAt: Time(s.NextPollAt), DefaultBranch: s.DefaultBranch,
		RefCount: int32(s.RefCount), DiskBytes: s.DiskBytes, Epoch: s.Epoch, Owner: mirror.ReplicaURL(s.Owner),
		Failures: int32(s.Failures), Fetches: s.Fetches,
	}
	for _, name := range s.HeldRefs {
		p.HeldRefs = append(p.HeldRefs, Text(name))
	}
	for _, notice := range s.Notices {
		p.Notices = append(p.Notices, Text(notice))
	}
	return p
}

var phases = map[mirror.Phase]gitcachev1.RepositoryPhase{
	mirror.PhaseCloning:   gitcachev1.RepositoryPhase_REPOSITORY_PHASE_CLONING,
	mirror.PhaseReady:     gitcachev1.RepositoryPhase_REPOSITORY_PHASE_READY,
	mirror.PhaseStale:     gitcachev1.RepositoryPhase_REPOSITORY_PHASE_STALE,
	mirror.PhaseFailed:    gitcachev1.RepositoryPhase_REPOSITORY_PHASE_FAILED,
	mirror.PhaseSuspended: gitcachev1.RepositoryPhase_REPOSITORY_PHASE_SUSPENDED,
}

func fromProblem(p *mirror.Problem) *typev1.Problem {
	if p == nil {
		return nil
	}
	return &typev1.Problem{Reason: errorsv1.Reason(p.Reason), Message: p.Message, Since: Time(p.Since)}
}

// Time returns the message of a time; nil for the zero time.
func Time(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// EventMessage returns the message of an event.
func EventMessage(e mirror.Event) *gitcachev1.RepositoryEvent {
	p := &gitcachev1.RepositoryEvent{
		Repository: e.Repository, Epoch: e.Epoch, Sequence: e.Sequence, ChangedRefs: e.Changed, AllRefs: e.All,
		State: StateMessage(e.State), Deleted: e.Deleted, Traceparent: e.Traceparent, Time: Time(e.Time),
	}
	if e.FetchDuration > 0 {
		p.FetchDuration = durationpb.New(e.FetchDuration)
	}
	return p
}

// CommitMessage returns the message of a commit.
func CommitMessage(c content.Commit) *gitcachev1.Commit {
	return &gitcachev1.Commit{
		Id: c.ID, Parents: c.Parents, AuthorName: Text(c.AuthorName), AuthorEmail: Text(c.AuthorEmail),
		AuthorTime: Time(c.AuthorTime), CommitTime: Time(c.CommitTime),
		Message: Text(c.Message[:min(len(c.Message), maxMessage)]),
	}
}

// RefMessage returns the message of a ref. what is the word for the targets of its repository's
// refs.
func RefMessage(r mirror.Ref, what string) *gitcachev1.Ref {
	p := &gitcachev1.Ref{Name: Text(r.Name), Commit: r.Delivered()}
	if r.Held != "" {
		p.HeldBack = Text(fmt.Sprintf("%s %s, which %s", what, r.Commit, r.Held))
	}
	return p
}

// ChangeKinds are the kinds of changes between two commits.
var ChangeKinds = map[content.ChangeKind]gitcachev1.ChangeKind{
	content.Added:    gitcachev1.ChangeKind_CHANGE_KIND_ADDED,
	content.Modified: gitcachev1.ChangeKind_CHANGE_KIND_MODIFIED,
	content.Deleted:  gitcachev1.ChangeKind_CHANGE_KIND_DELETED,
}
