// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
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

// MetadataMessage names the project only where it is not the default one.
func MetadataMessage(m *catalog.Metadata) *typev1.Metadata {
	message := commonMessage(m)
	project, name := objectname.Split(m.Name)
	if message.Name = name; project != objectname.Default {
		message.Project = project
	}
	return message
}

// hubMetadataOf returns the metadata of an object that belongs to the hub and not to a project.
func hubMetadataOf(m *typev1.Metadata) (catalog.Metadata, error) {
	if m.GetProject() != "" {
		return catalog.Metadata{}, fielderr.New("metadata.project", "has no meaning here: the object belongs to the hub; leave it out")
	}
	return commonOf(m), nil
}

// metadataOf returns the metadata of an object of a project, which is named by its path. The parts
// are checked before they are joined: the path of a name with a dot would be in another project.
func metadataOf(m *typev1.Metadata) (catalog.Metadata, error) {
	metadata := commonOf(m)
	if m.GetProject() != "" {
		if err := objectname.ValidateLabel("metadata.project", m.GetProject()); err != nil {
			return metadata, err
		}
	}
	if err := objectname.ValidateLabel("metadata.name", m.GetName()); err != nil {
		return metadata, err
	}
	metadata.Name = objectname.Join(m.GetProject(), m.GetName())
	return metadata, nil
}

// durationOf returns a duration; unset is zero. An explicit zero is refused, because it would mean
// the default.
func durationOf(field string, d *durationpb.Duration) (time.Duration, error) {
	if d != nil && (d.CheckValid() != nil || d.AsDuration() <= 0) {
		return 0, fielderr.New(field, "is not a positive duration")
	}
	return d.AsDuration(), nil
}
