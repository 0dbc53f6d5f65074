// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package catalogwire converts those values of the catalog that stand in more than one protocol: in
// what people and agents send, and in what the distributor asks gitcache.
package catalogwire

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// Timestamp returns the message of a time, or nil for the zero time.
func Timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// TimeOf returns the time of a message with the precision of the store, or the zero time for nil.
func TimeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime().UTC().Truncate(time.Microsecond)
}

// ProblemMessage returns the message of a problem, or nil for nil.
func ProblemMessage(p *catalog.Problem) *typev1.Problem {
	if p == nil {
		return nil
	}
	return &typev1.Problem{Reason: errorsv1.Reason(p.Reason), Message: p.Message, Since: Timestamp(p.Since)}
}

// ProblemOf returns the problem of a message, or nil for nil.
func ProblemOf(m *typev1.Problem) *catalog.Problem {
	if m == nil {
		return nil
	}
	return &catalog.Problem{Reason: reason.FromNumber(int32(m.GetReason())), Message: m.GetMessage(), Since: TimeOf(m.GetSince())}
}

// SourceMessage returns the message of a source.
func SourceMessage(s catalog.Source) *typev1.Source {
	return &typev1.Source{
		Repository: s.Repository, Ref: refMessage(s.Ref), Path: s.Path, Root: s.Root,
		Folders: s.Folders.Items(), Files: s.Files.Items(), Include: s.Include.Items(), Exclude: s.Exclude.Items(),
	}
}

// SourceOf returns the source of a message.
func SourceOf(s *typev1.Source) catalog.Source {
	return catalog.Source{
		Repository: s.GetRepository(), Ref: RefOf(s.GetRef()), Path: s.GetPath(), Root: s.GetRoot(),
		Folders: catalog.NewList(s.GetFolders()), Files: catalog.NewList(s.GetFiles()),
		Include: catalog.NewList(s.GetInclude()), Exclude: catalog.NewList(s.GetExclude()),
	}
}

func refMessage(r catalog.Ref) *typev1.GitRef {
	switch r.Kind {
	case catalog.RefBranch:
		return &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: r.Value}}
	case catalog.RefTag:
		return &typev1.GitRef{Selector: &typev1.GitRef_Tag{Tag: r.Value}}
	case catalog.RefCommit:
		return &typev1.GitRef{Selector: &typev1.GitRef_Commit{Commit: r.Value}}
	case catalog.RefName:
		return &typev1.GitRef{Selector: &typev1.GitRef_Name{Name: r.Value}}
	case catalog.RefSemver:
		return &typev1.GitRef{Selector: &typev1.GitRef_Semver{Semver: r.Value}}
	case catalog.RefHead:
	}
	return nil
}

// RefOf returns the ref of a message.
func RefOf(r *typev1.GitRef) catalog.Ref {
	switch selector := r.GetSelector().(type) {
	case *typev1.GitRef_Branch:
		return catalog.Ref{Kind: catalog.RefBranch, Value: selector.Branch}
	case *typev1.GitRef_Tag:
		return catalog.Ref{Kind: catalog.RefTag, Value: selector.Tag}
	case *typev1.GitRef_Commit:
		return catalog.Ref{Kind: catalog.RefCommit, Value: selector.Commit}
	case *typev1.GitRef_Name:
		return catalog.Ref{Kind: catalog.RefName, Value: selector.Name}
	case *typev1.GitRef_Semver:
		return catalog.Ref{Kind: catalog.RefSemver, Value: selector.Semver}
	}
	return catalog.Ref{}
}
