// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package problems

import (
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Uses counts what uses each cluster. The zero Uses is ready for use, and a nil one is empty. It is
// for one goroutine.
type Uses struct {
	// HubVersion is the version of the hub that clusters are used by. Empty: agents of each version go with it.
	HubVersion string

	clusters map[string]use
}

// use holds the projects that use one cluster.
type use struct {
	services int
	project  string // of the first service
	isShared bool   // another service has another project
}

// Add counts a service.
func (u *Uses) Add(service *catalog.Service) {
	if u.clusters == nil {
		u.clusters = map[string]use{}
	}
	project, one := objectname.Project(service.Name), u.clusters[service.Spec.Cluster]
	if one.services == 0 {
		one.project = project
	}
	one.services++
	one.isShared = one.isShared || one.project != project
	u.clusters[service.Spec.Cluster] = one
}

// Services returns how many services a cluster has.
func (u *Uses) Services(cluster string) int {
	if u == nil {
		return 0
	}
	return u.clusters[cluster].services
}

// hubVersion returns the version of the hub; "" if it is not known.
func (u *Uses) hubVersion() string {
	if u == nil {
		return ""
	}
	return u.HubVersion
}

// isShared reports whether services of several projects use a cluster.
func (u *Uses) isShared(cluster string) bool { return u != nil && u.clusters[cluster].isShared }
