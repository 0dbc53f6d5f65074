// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"

	"github.com/leatdev/leat/services/distributor/internal/api/codec"

	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/fleetdoc"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/find"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// kind is what the calls of people know of objects of one kind. A function that is nil answers as its comment says.
type kind struct {
	// sees reports whether somebody sees an object that no binding lets them see. Nil: nobody does.
	sees func(sight, catalog.Object) bool
	// trim leaves out of a record what somebody may not read of an object that they see. Nil: nothing.
	trim func(*caller, fleet.Record) fleet.Record
	// mayWrite returns an error unless the editor of the object, which was current before, holds what fields of the kind
	// need that say so. Nil: no field does.
	mayWrite func(e editing, current, next catalog.Object) error
	// warn returns what a person should know of an object that was applied with others. Nil: nothing.
	warn func(v *fleet.View, object catalog.Object, applied []catalog.Object) []string
	// isViewed is true for kinds of which there are so many objects that the views of queries are kept.
	isViewed bool
	// addTo adds to the row of an object what rows of the kind have alone. Nil: nothing.
	addTo func(*fleetv1.FleetRow, *find.Row)
}

// kinds has every kind.
var kinds = map[catalog.Kind]kind{
	catalog.KindProject: {sees: seeing(sight.project), trim: trimming(trimProject), mayWrite: writing(editing.mayWriteProject)},
	catalog.KindCluster: {trim: trimming(trimCluster), isViewed: true, addTo: addCluster},
	catalog.KindRepository: {
		sees: seeing(sight.repository), trim: trimming(trimRepository), mayWrite: writing(editing.mayWriteRepository), isViewed: true, addTo: addRepository,
	},
	catalog.KindConfigBackend: {},
	catalog.KindConfigSet:     {},
	catalog.KindService:       {mayWrite: writing(editing.mayWriteService), isViewed: true, addTo: addService},
	catalog.KindUser:          {sees: seeing(sight.user), mayWrite: writing(editing.mayWriteUser)},
	catalog.KindRole:          {mayWrite: writing(editing.mayWriteRole)},
	catalog.KindAccessBinding: {
		sees: seeing(sight.binding), trim: trimming(trimBinding), mayWrite: writing(editing.mayWriteBinding), warn: warning(missingOf),
	},
	catalog.KindIdentityProvider: {},
	catalog.KindTrustRule:        {mayWrite: writing(editing.mayWriteRule)},
	catalog.KindNotifier:         {},
	catalog.KindGlobalService:    {mayWrite: writing(editing.mayWriteGlobal)},
	catalog.KindRolloutPolicy:    {sees: seeing(sight.policy), warn: warning(fleet.EmptyWaves)},
	catalog.KindFleetSource:      {mayWrite: writing(editing.mayWriteSource)},
}

// These make functions about one kind of objects functions about any. They are called with none of another kind.

func seeing[O catalog.Object](sees func(sight, O) bool) func(sight, catalog.Object) bool {
	return func(s sight, object catalog.Object) bool {
		o, _ := object.(O)
		return sees(s, o)
	}
}

func trimming[O catalog.Object](trim func(*caller, O, fleet.Record) fleet.Record) func(*caller, fleet.Record) fleet.Record {
	return func(c *caller, record fleet.Record) fleet.Record {
		o, _ := record.Object.(O)
		return trim(c, o, record)
	}
}

func writing[O catalog.Object](mayWrite func(e editing, current, next O) error) func(editing, catalog.Object, catalog.Object) error {
	return func(e editing, current, next catalog.Object) error {
		last, _ := current.(O)
		o, _ := next.(O)
		return mayWrite(e, last, o)
	}
}

func warning[O catalog.Object](warn func(*fleet.View, O, []catalog.Object) []string) func(*fleet.View, catalog.Object, []catalog.Object) []string {
	return func(v *fleet.View, object catalog.Object, applied []catalog.Object) []string {
		o, _ := object.(O)
		return warn(v, o, applied)
	}
}

// stating returns the documents of records of one kind, with states that others than the view know.
type stating func(context.Context, []fleet.Record) ([]*fleetv1.Document, error)

// statingOf returns the kinds whose states the view does not know.
func statingOf(s *Service) map[catalog.Kind]stating {
	return map[catalog.Kind]stating{
		catalog.KindRepository:       statingBy(s.repositoriesShown),
		catalog.KindIdentityProvider: statingBy(s.providersShown),
		catalog.KindConfigBackend:    statingBy(s.backendsShown),
		catalog.KindNotifier:         statingBy(s.notifiersShown),
		catalog.KindRolloutPolicy:    statingBy(s.policiesShown),
		catalog.KindFleetSource:      statingBy(s.fleetSourcesShown),
	}
}

func statingBy[M proto.Message](show func(context.Context, []fleet.Record) ([]M, error)) stating {
	return func(ctx context.Context, records []fleet.Record) ([]*fleetv1.Document, error) {
		messages, err := show(ctx, records)
		if err != nil {
			return nil, err
		}
		return wire.Each(messages, func(m M) *fleetv1.Document { return fleetdoc.Of(m) }), nil
	}
}

// documents returns the documents of records of one kind, with their states.
func (s *Service) documents(ctx context.Context, records []fleet.Record) ([]*fleetv1.Document, error) {
	if len(records) == 0 {
		return nil, nil
	}
	if shown := s.stating[records[0].Object.Key().Kind]; shown != nil {
		return shown(ctx, records)
	}
	return wire.Each(records, func(record fleet.Record) *fleetv1.Document { return fleetdoc.Of(codec.Show(record)) }), nil
}
