// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package sourcewire converts sources from and to messages.
package sourcewire

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/source"
)

// Message returns the message of a source.
func Message(s source.Source) *typev1.Source {
	m := &typev1.Source{
		Repository: s.Repository, Ref: refMessage(s.Ref), Path: s.Path, Root: s.Root,
		Folders: s.Folders.Items(), Files: s.Files.Items(), Include: s.Include.Items(), Exclude: s.Exclude.Items(),
		Chart: s.Chart, Mount: s.Mount,
	}
	if s.Layer != (source.ArtifactLayer{}) {
		m.Layer = &typev1.ArtifactLayer{MediaType: s.Layer.MediaType, Copy: s.Layer.Copy, Files: s.Layer.Files}
	}
	return m
}

// Of returns the source of a message.
func Of(s *typev1.Source) source.Source {
	return source.Source{
		Repository: s.GetRepository(), Ref: RefOf(s.GetRef()), Path: s.GetPath(), Root: s.GetRoot(),
		Folders: source.NewList(s.GetFolders()), Files: source.NewList(s.GetFiles()),
		Include: source.NewList(s.GetInclude()), Exclude: source.NewList(s.GetExclude()),
		Chart: s.GetChart(), Mount: s.GetMount(),
		Layer: source.ArtifactLayer{MediaType: s.GetLayer().GetMediaType(), Copy: s.GetLayer().GetCopy(), Files: s.GetLayer().GetFiles()},
	}
}

// refMessage returns nil for HEAD. The kinds of other refs are the names of the selector's fields.
func refMessage(r source.Ref) *typev1.GitRef {
	m := &typev1.GitRef{}
	field := m.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(r.Kind))
	if field == nil {
		return nil
	}
	m.ProtoReflect().Set(field, protoreflect.ValueOfString(r.Value))
	return m
}

// RefOf returns the ref of a message.
func RefOf(r *typev1.GitRef) source.Ref {
	m := r.ProtoReflect()
	field := m.WhichOneof(m.Descriptor().Oneofs().ByName("selector"))
	if field == nil {
		return source.Ref{}
	}
	return source.Ref{Kind: source.RefKind(field.Name()), Value: m.Get(field).String()}
}
