// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"strings"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
)

// ClusterOf returns the reference to a cluster that the other tool calls by a name or a URL; the empty text is the cluster
// where the tool itself runs. isKnown is false if a person has to say which cluster that is.
func (s Settings) ClusterOf(theirs string) (reference string, isKnown bool) {
	if ours := s.Clusters[theirs]; ours != "" {
		return ours, true
	}
	if theirs == "" {
		return s.Cluster, s.Cluster != ""
	}
	return theirs, objectname.ValidateLabel("", theirs) == nil
}

// Services gives each service a name of its own in its cluster, and each global service one of its own.
type Services struct {
	settings Settings
	names    map[string]names
}

// NewServices returns the services of an import, without any.
func NewServices(s Settings) *Services { return &Services{settings: s, names: map[string]names{}} }

// New returns the document of a service in a cluster. Its name is the first candidate that no other service of the
// cluster has. The caller sets the rest of the spec.
func (s *Services) New(cluster, namespace string, candidates ...string) (*fleetv1.Document, *fleetv1.ServiceSpec) {
	spec := &fleetv1.ServiceSpec{Cluster: cluster, Namespace: namespace, DryRun: !s.settings.Live}
	return &fleetv1.Document{Object: &fleetv1.Document_Service{Service: &fleetv1.Service{
		Metadata: &typev1.Metadata{Name: s.name(cluster, candidates), Project: s.settings.Project}, Spec: spec,
	}}}, spec
}

// NewGlobal returns the document of a global service, whose name is the first candidate that no other one has.
func (s *Services) NewGlobal(candidates ...string) (*fleetv1.Document, *fleetv1.GlobalServiceSpec) {
	spec := &fleetv1.GlobalServiceSpec{Template: &fleetv1.ServiceSpec{DryRun: !s.settings.Live}}
	return &fleetv1.Document{Object: &fleetv1.Document_GlobalService{GlobalService: &fleetv1.GlobalService{
		Metadata: &typev1.Metadata{Name: s.name("", candidates), Project: s.settings.Project}, Spec: spec,
	}}}, spec
}

// name returns a name that is free in a cluster, or among the global services, and takes it.
func (s *Services) name(cluster string, candidates []string) string {
	taken := s.names[cluster]
	if taken == nil {
		taken = names{}
		s.names[cluster] = taken
	}
	labels := make([]string, len(candidates))
	for i, candidate := range candidates {
		labels[i] = Label(candidate)
	}
	return taken.unique(labels...)
}

// AsIs is the render step of a folder whose kind is found by its files, and whose objects are left as they are: ${NAME} in
// them is text for the other tool, too.
func AsIs() []*typev1.RenderStep { return []*typev1.RenderStep{{Substitute: new(false)}} }

// Folder returns a path inside a repository in the form of a source: relative, and empty for the root.
func Folder(path string) string {
	path = strings.Trim(strings.TrimPrefix(strings.TrimSpace(path), "./"), "/")
	if path == "." {
		return ""
	}
	return path
}
