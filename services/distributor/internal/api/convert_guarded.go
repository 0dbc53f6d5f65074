// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

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
