// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/contract/objectname"
)

// Project returns the project that the command works in: the one of --project, or else of the
// environment or of the context. A session whose settings cannot be read works in no other project
// than the default one; its first call returns the error.
func (s *Session) Project() string {
	endpoint, err := s.Endpoint()
	if err != nil {
		return objectname.Default
	}
	return endpoint.Project
}

const kindService = "Service"

// Reference returns the name that requests have for an object of a kind: a name of the command line
// without a project means the command's project.
func (s *Session) Reference(kind, name string) string {
	if !fleetdoc.InProject(kind) {
		return name
	}
	parse := objectname.Parse
	if kind == kindService {
		parse = objectname.ParseService
	}
	path, err := parse("name", name, s.Project())
	if err != nil {
		return name // which the hub refuses, and explains why
	}
	return objectname.Display(path)
}

// Here returns the name by which the command line takes an object of a kind, given its name in the project of
// another object, the owner, whose reference requests have.
func (s *Session) Here(kind, name, owner string) string {
	of, err := objectname.Parse("name", owner, objectname.Default)
	if err != nil {
		return name
	}
	parse := objectname.Parse
	if kind == kindService {
		parse = objectname.ParseService
	}
	path, err := parse("name", name, objectname.Project(of))
	if err != nil {
		return name
	}
	return objectname.Format(path, s.Project())
}

// ClusterPath returns how URLs, the tunnel and agents name a cluster of the command line.
func (s *Session) ClusterPath(name string) (string, error) {
	return objectname.Parse("cluster", name, s.Project())
}

// Place sets the command's project in a document that names none.
func (s *Session) Place(object *fleetv1.Document) {
	kind, _ := document.Identify(object)
	metadata := document.Metadata(object)
	if metadata == nil || metadata.GetProject() != "" || !fleetdoc.InProject(kind) {
		return
	}
	if project := s.Project(); project != objectname.Default {
		metadata.Project = project
	}
}

// ClusterOf returns the path of the cluster that a service runs in.
func ClusterOf(service *fleetv1.Service) (string, error) {
	return objectname.Parse("spec.cluster", service.GetSpec().GetCluster(), service.GetMetadata().GetProject())
}
