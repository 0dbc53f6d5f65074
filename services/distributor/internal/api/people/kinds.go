// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/internal/fleetdoc"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/find"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// kind is what the calls of people know of objects of one kind. A function that is nil answers as its comment says.
type kind struct {
	// read returns the object that a message of the kind describes. The error is a *fielderr.Error.
	read func(proto.Message) (catalog.Object, error)
	// show returns the message of a record of the kind. It has no secret.
	show func(fleet.Record) proto.Message
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
	catalog.KindProject: codecOf(projectOf, func(o *catalog.Project, r fleet.Record) *fleetv1.Project {
		return projectMessage(o, r.Project, r.Bundles)
	}).with(kind{sees: seeing(sight.project), trim: trimming(trimProject), mayWrite: writing(editing.mayWriteProject)}),

	catalog.KindCluster: codecOf(clusterOf, func(o *catalog.Cluster, r fleet.Record) *fleetv1.Cluster {
		return clusterMessage(o, r.Cluster)
	}).with(kind{trim: trimming(trimCluster), isViewed: true, addTo: addCluster}),

	catalog.KindRepository: codecOf(repositoryOf, func(o *catalog.Repository, r fleet.Record) *fleetv1.Repository {
		return repositoryMessage(o, r.Mirror)
	}).with(kind{sees: seeing(sight.repository), trim: trimming(trimRepository), mayWrite: writing(editing.mayWriteRepository), isViewed: true, addTo: addRepository}),

	catalog.KindConfigBackend: plainCodec(backendOf, backendMessage),
	catalog.KindConfigSet:     plainCodec(configSetOf, configSetMessage),

	catalog.KindService: codecOf(serviceOf, func(o *catalog.Service, r fleet.Record) *fleetv1.Service {
		return serviceMessage(o, r.Service)
	}).with(kind{mayWrite: writing(editing.mayWriteService), isViewed: true, addTo: addService}),

	catalog.KindUser: plainCodec(userOf, userMessage).with(kind{sees: seeing(sight.user), mayWrite: writing(editing.mayWriteUser)}),
	catalog.KindRole: plainCodec(roleObjectOf, roleObjectMessage).with(kind{mayWrite: writing(editing.mayWriteRole)}),

	catalog.KindAccessBinding: codecOf(bindingOf, func(o *catalog.AccessBinding, r fleet.Record) *fleetv1.AccessBinding {
		return bindingMessage(o, r.Binding)
	}).with(kind{
		sees: seeing(sight.binding), trim: trimming(trimBinding), mayWrite: writing(editing.mayWriteBinding), warn: warning(missingOf),
	}),

	catalog.KindIdentityProvider: codecOf(providerOf, func(o *catalog.IdentityProvider, r fleet.Record) *fleetv1.IdentityProvider {
		return providerMessage(o, r.Provider)
	}),
	catalog.KindTrustRule: plainCodec(trustRuleOf, trustRuleMessage).with(kind{mayWrite: writing(editing.mayWriteRule)}),
	catalog.KindNotifier:  plainCodec(notifierOf, notifierMessage),

	catalog.KindGlobalService: codecOf(globalOf, func(o *catalog.GlobalService, r fleet.Record) *fleetv1.GlobalService {
		return globalMessage(o, r.Global)
	}).with(kind{mayWrite: writing(editing.mayWriteGlobal)}),

	catalog.KindRolloutPolicy: plainCodec(rolloutPolicyOf, rolloutPolicyMessage).with(kind{sees: seeing(sight.policy), warn: warning(fleet.EmptyWaves)}),
	catalog.KindFleetSource:   plainCodec(fleetSourceOf, fleetSourceMessage).with(kind{mayWrite: writing(editing.mayWriteSource)}),
}

func codecOf[M proto.Message, O catalog.Object](read func(M) (O, error), show func(O, fleet.Record) M) kind {
	return kind{
		read: func(message proto.Message) (catalog.Object, error) {
			m, _ := message.(M)
			return read(m)
		},
		show: func(record fleet.Record) proto.Message {
			o, _ := record.Object.(O)
			return show(o, record)
		},
	}
}

// plainCodec is codecOf for a kind of which the view knows no state.
func plainCodec[M proto.Message, O catalog.Object](read func(M) (O, error), show func(O) M) kind {
	return codecOf(read, func(o O, _ fleet.Record) M { return show(o) })
}

// with returns the other answers of a kind beside its codec.
func (k kind) with(others kind) kind {
	others.read, others.show = k.read, k.show
	return others
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

// kindOf returns the kind that a request names.
func kindOf(name string) (catalog.Kind, error) {
	if named := catalog.Kind(name); slices.Contains(catalog.Kinds(), named) {
		return named, nil
	}
	return "", fielderr.New("kind", "%.80q is not a kind; write one such as Service, Cluster or Repository", name)
}

// documentOf returns the object of a document.
func documentOf(m *fleetv1.Document) (catalog.Object, error) {
	object := fleetdoc.Object(m)
	if object == nil {
		return nil, fielderr.New("object", "is required: one of %s", strings.Join(fleetdoc.Fields(), ", "))
	}
	return kinds[catalog.Kind(object.Descriptor().Name())].read(object.Interface())
}

// objectMessage returns the message of a record's object, or nil for a record of nothing.
func objectMessage(r fleet.Record) proto.Message {
	if r.Object == nil {
		return nil
	}
	return kinds[r.Object.Key().Kind].show(r)
}

// messageOf returns the message of a record's object, or nil if the record is of another kind.
func messageOf[M proto.Message](r fleet.Record) M {
	message, _ := objectMessage(r).(M)
	return message
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
	return wire.Each(records, func(record fleet.Record) *fleetv1.Document { return fleetdoc.Of(objectMessage(record)) }), nil
}
