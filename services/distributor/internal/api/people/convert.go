// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

func metadataMessage(m *catalog.Metadata) *typev1.Metadata {
	return &typev1.Metadata{
		Name:            m.Name,
		Uid:             m.UID,
		Labels:          m.Labels,
		Annotations:     m.Annotations,
		ResourceVersion: m.ResourceVersion,
		Generation:      m.Generation,
		CreateTime:      wire.Timestamp(m.CreatedAt),
		UpdateTime:      wire.Timestamp(m.UpdatedAt),
	}
}

// metadataOf leaves out what the server sets.
func metadataOf(m *typev1.Metadata) catalog.Metadata {
	return catalog.Metadata{
		Name:            m.GetName(),
		Labels:          m.GetLabels(),
		Annotations:     m.GetAnnotations(),
		ResourceVersion: m.GetResourceVersion(),
	}
}

func snapshotMessage(s *catalog.Snapshot) *typev1.Snapshot {
	if s == nil {
		return nil
	}
	return &typev1.Snapshot{
		Commit:      s.Commit,
		Digest:      s.Digest.String(),
		ContentSize: s.ContentSize,
		StoredSize:  s.StoredSize,
		FileCount:   int32(s.Files),
	}
}

func sourceMessage(s catalog.Source) *typev1.Source {
	return &typev1.Source{
		Repository: s.Repository, Ref: refMessage(s.Ref), Path: s.Path, Root: s.Root,
		Folders: s.Folders.Items(), Files: s.Files.Items(), Include: s.Include.Items(), Exclude: s.Exclude.Items(),
	}
}

func sourceOf(s *typev1.Source) catalog.Source {
	return catalog.Source{
		Repository: s.GetRepository(), Ref: refOf(s.GetRef()), Path: s.GetPath(), Root: s.GetRoot(),
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

func refOf(r *typev1.GitRef) catalog.Ref {
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
