// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/contract/objectname"
)

// Kind names a kind of catalogued object. The messages of package leat.fleet.v1 describe the kinds: see
// leat.options.v1.kind.
type Kind string

// Kinds that code names.
const (
	KindCluster    Kind = "Cluster"
	KindRepository Kind = "Repository"
	KindService    Kind = "Service"
	// Users and bindings are about people.
	KindUser          Kind = "User"
	KindAccessBinding Kind = "AccessBinding"
	KindRole          Kind = "Role"
	// KindProject is the kind of what clusters, repositories and services belong to.
	KindProject Kind = "Project"
	// KindIdentityProvider is the kind of providers that people sign in with.
	KindIdentityProvider Kind = "IdentityProvider"
	// KindTrustRule is the kind of rules by which workloads obtain access tokens.
	KindTrustRule Kind = "TrustRule"
	// KindConfigBackend is the kind of places where values of configurations are kept.
	KindConfigBackend Kind = "ConfigBackend"
	// KindConfigSet is the kind of named sets of values, secrets and references.
	KindConfigSet Kind = "ConfigSet"
	// KindFleetSource is the kind of folders of repositories that say what the catalog holds.
	KindFleetSource Kind = "FleetSource"
	// KindNotifier is the kind of senders of messages about the fleet.
	KindNotifier Kind = "Notifier"
	// KindGlobalService is the kind of templates that services are derived from.
	KindGlobalService Kind = "GlobalService"
	// KindRolloutPolicy is the kind of policies by which new content reaches services in waves.
	KindRolloutPolicy Kind = "RolloutPolicy"
	// KindImagePolicy is the kind of policies that select tags of images, and write them into Git.
	KindImagePolicy Kind = "ImagePolicy"
	// KindAccessRequest is the kind of people's requests for access. See [Kind.IsByCalls].
	KindAccessRequest Kind = "AccessRequest"
)

// The kinds of tombstones of API tokens and of sessions, which are not objects.
const (
	KindToken   Kind = "Token"
	KindSession Kind = "Session"
)

// Kinds returns the kinds of objects, in an order in which an object follows those that it names.
func Kinds() []Kind { return slices.Clone(allKinds) }

var allKinds = func() (all []Kind) {
	for _, name := range fleetdoc.Names() {
		all = append(all, Kind(name))
	}
	return all
}()

// InProject reports whether objects of the kind belong to projects. Others belong to the hub.
func (k Kind) InProject() bool { return inProject[k] }

// HasProblems reports whether something may be wrong with objects of the kind that were accepted.
func (k Kind) HasProblems() bool { return fleetdoc.Describe(string(k)).GetHasProblems() }

// IsByCalls reports whether only calls of their own write objects of the kind. No document does.
func (k Kind) IsByCalls() bool { return fleetdoc.Describe(string(k)).GetByCalls() }

// inProject are the kinds whose objects belong to projects. It is asked for each object of a listing.
var inProject = func() map[Kind]bool {
	is := map[Kind]bool{}
	for _, kind := range allKinds {
		is[kind] = fleetdoc.InProject(string(kind))
	}
	return is
}()

// resources are what permissions call objects of the kinds, and what has permissions like theirs.
var resources = func() map[Kind]string {
	names := map[Kind]string{KindToken: ResourceTokens, KindSession: ResourceLoginSessions}
	for _, kind := range allKinds {
		names[kind] = fleetdoc.Describe(string(kind)).GetResource()
	}
	return names
}()

// ResourceOf returns the resource of the objects of a kind.
func ResourceOf(kind Kind) string { return resources[kind] }

// validateName checks what objects of the kind are named by. The error is a *fielderr.Error that names
// field.
func (k Kind) validateName(field, name string) error {
	switch {
	case k == KindService:
		return objectname.ValidateService(field, name)
	case k.InProject():
		return objectname.Validate(field, name)
	}
	return objectname.ValidateLabel(field, name)
}

// Key names one object. It is comparable.
type Key struct {
	Kind Kind
	// Name is unique within the kind: see Metadata.
	Name string
}

// String returns the kind and the name as people write them in messages.
func (k Key) String() string {
	return fmt.Sprintf("%s %q", strings.ToLower(string(k.Kind)), objectname.Display(k.Name))
}
