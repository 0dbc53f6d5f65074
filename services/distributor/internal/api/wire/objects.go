// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// maxDriftFields bounds the fields of one object that others have changed; what is beyond is cut.
const maxDriftFields = 20

func driftMessages(drift []catalog.ObjectDrift) []*distributorv1.ObjectDrift {
	var all []*distributorv1.ObjectDrift
	for _, o := range drift {
		m := &distributorv1.ObjectDrift{
			Ref: &typev1.ObjectRef{Group: o.Group, Version: o.Version, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name},
		}
		for _, f := range o.Fields {
			m.Fields = append(m.Fields, &distributorv1.FieldDrift{Path: f.Path, Old: f.Old, New: f.New, Manager: f.Manager})
		}
		all = append(all, m)
	}
	return all
}

func driftOf(messages []*distributorv1.ObjectDrift) []catalog.ObjectDrift {
	var all []catalog.ObjectDrift
	for _, m := range messages[:min(len(messages), maxReportObjects)] {
		ref, fields := m.GetRef(), m.GetFields()
		o := catalog.ObjectDrift{
			Group: ref.GetGroup(), Version: ref.GetVersion(), Kind: ref.GetKind(), Namespace: ref.GetNamespace(), Name: ref.GetName(),
		}
		for _, f := range fields[:min(len(fields), maxDriftFields)] {
			o.Fields = append(o.Fields, catalog.FieldDrift{Path: f.GetPath(), Old: f.GetOld(), New: f.GetNew(), Manager: f.GetManager()})
		}
		all = append(all, o)
	}
	return all
}

func refMessages(refs []catalog.ObjectRef) []*typev1.ObjectRef {
	var all []*typev1.ObjectRef
	for _, r := range refs {
		all = append(all, &typev1.ObjectRef{Group: r.Group, Version: r.Version, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name})
	}
	return all
}

func refsOf(messages []*typev1.ObjectRef) []catalog.ObjectRef {
	var all []catalog.ObjectRef
	for _, m := range messages[:min(len(messages), maxReportObjects)] {
		all = append(all, catalog.ObjectRef{
			Group: m.GetGroup(), Version: m.GetVersion(), Kind: m.GetKind(), Namespace: m.GetNamespace(), Name: m.GetName(),
		})
	}
	return all
}
