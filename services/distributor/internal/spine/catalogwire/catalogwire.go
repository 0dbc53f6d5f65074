// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package catalogwire converts the values of the catalog that are part of more than one protocol:
// in messages of people and agents, and in calls of the distributor to gitcache.
package catalogwire

import (
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
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
	m := &typev1.Source{
		Repository: s.Repository, Ref: refMessage(s.Ref), Path: s.Path, Root: s.Root,
		Folders: s.Folders.Items(), Files: s.Files.Items(), Include: s.Include.Items(), Exclude: s.Exclude.Items(),
		Chart: s.Chart, Mount: s.Mount,
	}
	if s.Layer != (catalog.ArtifactLayer{}) {
		m.Layer = &typev1.ArtifactLayer{MediaType: s.Layer.MediaType, Copy: s.Layer.Copy, Files: s.Layer.Files}
	}
	return m
}

// SourceOf returns the source of a message.
func SourceOf(s *typev1.Source) catalog.Source {
	return catalog.Source{
		Repository: s.GetRepository(), Ref: RefOf(s.GetRef()), Path: s.GetPath(), Root: s.GetRoot(),
		Folders: catalog.NewList(s.GetFolders()), Files: catalog.NewList(s.GetFiles()),
		Include: catalog.NewList(s.GetInclude()), Exclude: catalog.NewList(s.GetExclude()),
		Chart: s.GetChart(), Mount: s.GetMount(),
		Layer: catalog.ArtifactLayer{MediaType: s.GetLayer().GetMediaType(), Copy: s.GetLayer().GetCopy(), Files: s.GetLayer().GetFiles()},
	}
}

// refMessage returns nil for HEAD. The kinds of other refs are the names of the selector's fields.
func refMessage(r catalog.Ref) *typev1.GitRef {
	m := &typev1.GitRef{}
	field := m.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(r.Kind))
	if field == nil {
		return nil
	}
	m.ProtoReflect().Set(field, protoreflect.ValueOfString(r.Value))
	return m
}

// RefOf returns the ref of a message.
func RefOf(r *typev1.GitRef) catalog.Ref {
	m := r.ProtoReflect()
	field := m.WhichOneof(m.Descriptor().Oneofs().ByName("selector"))
	if field == nil {
		return catalog.Ref{}
	}
	return catalog.Ref{Kind: catalog.RefKind(field.Name()), Value: m.Get(field).String()}
}
