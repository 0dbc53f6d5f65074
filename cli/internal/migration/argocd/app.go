// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package argocd

import (
	"path"

	"github.com/leatdev/leat/cli/internal/migration"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// app is an Application on its way to a service. Of an ApplicationSet over clusters, it is the template.
type app struct {
	fleet   *fleet
	project *project
	// name is Argo CD's name, which is also that of a Helm release.
	name string
	// fields are those of the Application's spec.
	fields *migration.Fields
	spec   *fleetv1.ServiceSpec
	// isNamed reports whether the service has Argo CD's name.
	isNamed bool
}

// policy returns the policy of the service.
func (a *app) policy() *typev1.SyncPolicy {
	if a.spec.GetPolicy() == nil {
		a.spec.Policy = &typev1.SyncPolicy{}
	}
	return a.spec.GetPolicy()
}

// options returns the options of applying.
func (a *app) options() *fleetv1.SyncOptions {
	if a.spec.GetSync() == nil {
		a.spec.Sync = &fleetv1.SyncOptions{}
	}
	return a.spec.GetSync()
}

// deletion returns how objects are deleted.
func (a *app) deletion() *typev1.Deletion {
	if a.policy().GetDeletion() == nil {
		a.policy().Deletion = &typev1.Deletion{}
	}
	return a.policy().GetDeletion()
}

// named returns the name of a repository's document, and notes a credential in the URL.
func (a *app) named(fields *migration.Fields, d *fleetv1.Document) string {
	if migration.HasCredential(fields.Text("repoURL")) {
		fields.Note("repoURL", migration.Check, "the URL holds a credential, which is not imported: set spec.credential of the repository")
	}
	return d.GetRepository().GetMetadata().GetName()
}

// chartMount is the folder of a chart from a registry in the tree of a service with one source.
const chartMount = "chart"

// content is a source that makes objects.
type content struct {
	fields *migration.Fields
	source *typev1.Source
	// folder is the place in the tree of what the source names: its chart, or its path.
	folder string
	// path is the path in the repository. Empty for a chart of a registry.
	path string
	// isChart reports that the source is a chart of a registry.
	isChart bool
}

// values is a source whose files are values of charts of other sources.
type values struct {
	source *typev1.Source
	isUsed bool
}

// widen bundles the whole repository of a source, so that its manifests can name files outside of its folder.
func (c *content) widen(include ...string) {
	c.source.Root, c.source.Include = ".", include
	c.folder = path.Join(c.source.GetMount(), c.path)
}
