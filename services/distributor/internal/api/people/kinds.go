// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"

	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/find"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// kind is how the calls of people treat objects of one kind. The comment of each function has the
// answer of nil.
type kind struct {
	// warn returns what a person should know of an object that was applied with others. Nil: nothing.
	warn func(c *fleet.Catalog, object catalog.Object, applied []catalog.Object) []string
	// isViewed is true for kinds of which there are so many objects that the views of queries are kept.
	isViewed bool
	// addTo adds to the row of an object what rows of the kind have alone. Nil: nothing.
	addTo func(*fleetv1.FleetRow, *find.Row)
}

// kinds has those of which the calls know something.
var kinds = map[catalog.Kind]kind{
	catalog.KindCluster:       {isViewed: true, addTo: addCluster},
	catalog.KindRepository:    {isViewed: true, addTo: addRepository},
	catalog.KindService:       {isViewed: true, addTo: addService},
	catalog.KindAccessBinding: {warn: warning(missingOf)},
	catalog.KindRolloutPolicy: {warn: warning(emptyWaves)},
}

// emptyWaves is [fleet.Policies.EmptyWaves].
func emptyWaves(c *fleet.Catalog, policy *catalog.RolloutPolicy, applied []catalog.Object) []string {
	return fleet.Policies{Catalog: c}.EmptyWaves(policy, applied)
}

// warning makes a function about one kind of objects a function about any. It is called with none of another kind.
func warning[O catalog.Object](warn func(*fleet.Catalog, O, []catalog.Object) []string) func(*fleet.Catalog, catalog.Object, []catalog.Object) []string {
	return func(c *fleet.Catalog, object catalog.Object, applied []catalog.Object) []string {
		o, _ := object.(O)
		return warn(c, o, applied)
	}
}

// statingOf returns the kinds whose states the view does not know.
func statingOf(s *Service) map[catalog.Kind]stating {
	return map[catalog.Kind]stating{
		catalog.KindRepository:       statingBy(s.repositoriesShown),
		catalog.KindIdentityProvider: statingBy(s.providersShown),
		catalog.KindConfigBackend:    statingBy(s.backendsShown),
		catalog.KindNotifier:         statingBy(s.notifiersShown),
		catalog.KindRolloutPolicy:    statingFor(s.policiesShown),
		catalog.KindFleetSource:      statingBy(s.fleetSourcesShown),
		catalog.KindImagePolicy:      statingBy(s.imagePoliciesShown),
	}
}

// statingBy makes a stating of a function that shows every caller the same.
func statingBy[M proto.Message](show func(context.Context, []fleet.Record) ([]M, error)) stating {
	return statingFor(func(ctx context.Context, _ *caller, records []fleet.Record) ([]M, error) { return show(ctx, records) })
}

// statingFor makes a stating of a function that shows a caller what they may see.
func statingFor[M proto.Message](show func(context.Context, *caller, []fleet.Record) ([]M, error)) stating {
	return func(ctx context.Context, c *caller, records []fleet.Record) ([]*fleetv1.Document, error) {
		messages, err := show(ctx, c, records)
		if err != nil {
			return nil, err
		}
		return wire.Each(messages, func(m M) *fleetv1.Document { return fleetdoc.Of(m) }), nil
	}
}

// New returns the service for people.
func New(d Deps) *Service {
	s := &Service{d: d, fetches: admission.NewPace(fetchEvery, fetchBurst)}
	s.stating = statingOf(s)
	return s
}
