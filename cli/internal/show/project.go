// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// projectKind shows projects.
var projectKind = kind{
	columns: []string{"NAME", "CLUSTERS", "REPOSITORIES", "SERVICES", "BUNDLES", "DESCRIPTION"},
	cells:   projectCells,
}

// projectCells shows what a project holds, and its quotas.
func projectCells(object *fleetv1.Document, _ time.Time) []cell {
	p := object.GetProject()
	status, quotas := p.GetStatus(), p.GetSpec().GetQuotas()
	return []cell{
		plain(p.GetMetadata().GetName()), plain(fmt.Sprint(status.GetClusters())), within(status.GetRepositories(), quotas.GetRepositories(), quotas != nil && quotas.Repositories != nil),
		within(status.GetServices(), quotas.GetServices(), quotas != nil && quotas.Services != nil), bundleBytes(status, quotas), plain(p.GetSpec().GetDescription()),
	}
}

// within shows a number, and the quota that it counts against.
func within(number, quota int32, hasQuota bool) cell {
	if !hasQuota {
		return plain(fmt.Sprint(number))
	}
	return plain(fmt.Sprintf("%d of %d", number, quota))
}

// bundleBytes shows what the bundles of a project take, and red what exceeds a quota that was lowered.
func bundleBytes(status *fleetv1.ProjectStatus, quotas *fleetv1.ProjectQuotas) cell {
	used := memory(status.GetBundleBytes())
	switch {
	case quotas == nil || quotas.BundleBytes == nil:
		return plain(used)
	case status.GetBundleBytes() > quotas.GetBundleBytes():
		return cell{used + " of " + memory(quotas.GetBundleBytes()), red}
	}
	return plain(used + " of " + memory(quotas.GetBundleBytes()))
}
