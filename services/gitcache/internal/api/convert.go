// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/upstream/upstreamwire"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const maxMessage = 64 << 10 // of a commit

// fromDefinition returns the message of the definition's public form.
func fromDefinition(d mirror.Definition) *gitcachev1.RepositoryDefinition {
	m := upstreamwire.DefinitionMessage(d.Public())
	m.Name, m.Uid, m.Version, m.Parent = d.Name, d.UID, d.Version, d.Parent
	return m
}

func fromState(s mirror.State) *gitcachev1.RepositoryState {
	p := &gitcachev1.RepositoryState{
		Phase: phases[s.Phase], Problem: fromProblem(s.Problem), FreshAt: fromTime(s.FreshAt),
		ChangedAt: fromTime(s.ChangedAt), NextPollAt: fromTime(s.NextPollAt), DefaultBranch: s.DefaultBranch,
		RefCount: int32(s.RefCount), DiskBytes: s.DiskBytes, Epoch: s.Epoch, Owner: mirror.ReplicaURL(s.Owner),
		Failures: int32(s.Failures), Fetches: s.Fetches,
	}
	for _, name := range s.HeldRefs {
		p.HeldRefs = append(p.HeldRefs, text(name))
	}
	for _, notice := range s.Notices {
		p.Notices = append(p.Notices, text(notice))
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
	return &typev1.Problem{Reason: errorsv1.Reason(p.Reason), Message: p.Message, Since: fromTime(p.Since)}
}

func fromTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func fromEvent(e mirror.Event) *gitcachev1.RepositoryEvent {
	p := &gitcachev1.RepositoryEvent{
		Repository: e.Repository, Epoch: e.Epoch, Sequence: e.Sequence, ChangedRefs: e.Changed, AllRefs: e.All,
		State: fromState(e.State), Deleted: e.Deleted, Traceparent: e.Traceparent, Time: fromTime(e.Time),
	}
	if e.FetchDuration > 0 {
		p.FetchDuration = durationpb.New(e.FetchDuration)
	}
	return p
}

func fromCommit(c content.Commit) *gitcachev1.Commit {
	return &gitcachev1.Commit{
		Id: c.ID, Parents: c.Parents, AuthorName: text(c.AuthorName), AuthorEmail: text(c.AuthorEmail),
		AuthorTime: fromTime(c.AuthorTime), CommitTime: fromTime(c.CommitTime),
		Message: text(c.Message[:min(len(c.Message), maxMessage)]),
	}
}

// text makes what stands in a commit fit for the wire, which takes UTF-8 only.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func fromRef(r mirror.Ref, what string) *gitcachev1.Ref {
	p := &gitcachev1.Ref{Name: text(r.Name), Commit: r.Delivered()}
	if r.Held != "" {
		p.HeldBack = text(fmt.Sprintf("%s %s, which %s", what, r.Commit, r.Held))
	}
	return p
}

var changeKinds = map[content.ChangeKind]gitcachev1.ChangeKind{
	content.Added:    gitcachev1.ChangeKind_CHANGE_KIND_ADDED,
	content.Modified: gitcachev1.ChangeKind_CHANGE_KIND_MODIFIED,
	content.Deleted:  gitcachev1.ChangeKind_CHANGE_KIND_DELETED,
}
