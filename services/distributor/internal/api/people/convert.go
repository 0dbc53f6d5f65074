// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/catalogwire"
)

// commonMessage has everything but the name and the project.
func commonMessage(m *catalog.Metadata) *typev1.Metadata {
	return &typev1.Metadata{
		Uid:             m.UID,
		Labels:          m.Labels,
		Annotations:     m.Annotations,
		ResourceVersion: m.ResourceVersion,
		Generation:      m.Generation,
		CreateTime:      catalogwire.Timestamp(m.CreatedAt),
		UpdateTime:      catalogwire.Timestamp(m.UpdatedAt),
		CreatedBy:       m.CreatedBy,
		UpdatedBy:       m.UpdatedBy,
		Reason:          m.Reason,
		Manager:         managerMessage(m.Manager),
	}
}

func managerMessage(m catalog.SourceRef) *typev1.Manager {
	if m == (catalog.SourceRef{}) {
		return nil
	}
	return &typev1.Manager{Kind: string(catalog.KindOfManager), Name: objectname.Display(m.Path), Uid: m.UID}
}

// commonOf leaves out what the server sets. It has the name as it was given.
func commonOf(m *typev1.Metadata) catalog.Metadata {
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
		Version:     s.Version,
	}
}
