// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package objectname

import (
	"strings"

	"github.com/leatdev/leat/internal/kit/fielderr"
)

// ServicePath returns the path of a service in the hub: its local path, by which its cluster's agent
// knows it, and the path of the cluster. An empty cluster returns the local path.
func ServicePath(local, cluster string) string {
	if cluster == "" {
		return local
	}
	return local + at + cluster
}

// SplitService returns the local path of a service and the path of its cluster, which is empty if the
// path names none. Neither is copied.
func SplitService(path string) (local, cluster string) {
	local, cluster, _ = strings.Cut(path, at)
	return local, cluster
}

// LocalPath returns the path by which the cluster's agent knows a service.
func LocalPath(path string) string {
	local, _ := SplitService(path)
	return local
}

// ValidateService checks that path is the path of a service in the hub, with its cluster. The error is
// a *fielderr.Error that names field.
func ValidateService(field, path string) error {
	local, cluster, hasCluster := strings.Cut(path, at)
	if !hasCluster || !IsPath(local) || !IsPath(cluster) {
		return fielderr.New(field, "%q is not the name of a service: write NAME@CLUSTER, or PROJECT/NAME@CLUSTER for one of another project", shortened(path))
	}
	return nil
}

// ParseService returns the path that a reference of people to a service leads to. NAME@CLUSTER is the
// service of a cluster, which is read as in the service's own project; NAME alone has no cluster. The
// error is a *fielderr.Error that names field.
func ParseService(field, reference, project string) (path string, err error) {
	service, cluster, hasCluster := strings.Cut(reference, at)
	local, err := Parse(field, service, project)
	if err != nil || !hasCluster {
		return local, err
	}
	path, err = Parse(field, cluster, Project(local))
	if err != nil || local == "" || path == "" {
		return "", fielderr.New(field, "%q is not a reference to a service: write NAME, or NAME@CLUSTER for the one in a cluster", shortened(reference))
	}
	return ServicePath(local, path), nil
}
