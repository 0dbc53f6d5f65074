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
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// codec turns objects of one kind into messages, and back.
type codec struct {
	// read returns the object that a message of the kind describes. The error is a *fielderr.Error.
	read func(proto.Message) (catalog.Object, error)
	// show returns the message of a record of the kind. It has no secret.
	show func(fleet.Record) proto.Message
}

// codecs has every kind.
var codecs = map[catalog.Kind]codec{
	catalog.KindCluster: codecOf(clusterOf, func(o *catalog.Cluster, r fleet.Record) *fleetv1.Cluster {
		return clusterMessage(o, r.Cluster)
	}),
	catalog.KindRepository: codecOf(repositoryOf, func(o *catalog.Repository, r fleet.Record) *fleetv1.Repository {
		return repositoryMessage(o, r.Mirror)
	}),
	catalog.KindService: codecOf(serviceOf, func(o *catalog.Service, r fleet.Record) *fleetv1.Service {
		return serviceMessage(o, r.Service)
	}),
	catalog.KindAccessBinding: codecOf(bindingOf, func(o *catalog.AccessBinding, r fleet.Record) *fleetv1.AccessBinding {
		return bindingMessage(o, r.Binding)
	}),
	catalog.KindProject: codecOf(projectOf, func(o *catalog.Project, r fleet.Record) *fleetv1.Project {
		return projectMessage(o, r.Project, r.Bundles)
	}),
	catalog.KindIdentityProvider: codecOf(providerOf, func(o *catalog.IdentityProvider, r fleet.Record) *fleetv1.IdentityProvider {
		return providerMessage(o, r.Provider)
	}),
	catalog.KindGlobalService: codecOf(globalOf, func(o *catalog.GlobalService, r fleet.Record) *fleetv1.GlobalService {
		return globalMessage(o, r.Global)
	}),
	catalog.KindUser:          plainCodec(userOf, userMessage),
	catalog.KindRole:          plainCodec(roleObjectOf, roleObjectMessage),
	catalog.KindTrustRule:     plainCodec(trustRuleOf, trustRuleMessage),
	catalog.KindConfigBackend: plainCodec(backendOf, backendMessage),
	catalog.KindConfigSet:     plainCodec(configSetOf, configSetMessage),
	catalog.KindNotifier:      plainCodec(notifierOf, notifierMessage),
	catalog.KindRolloutPolicy: plainCodec(rolloutPolicyOf, rolloutPolicyMessage),
	catalog.KindFleetSource:   plainCodec(fleetSourceOf, fleetSourceMessage),
}

func codecOf[M proto.Message, O catalog.Object](read func(M) (O, error), show func(O, fleet.Record) M) codec {
	return codec{
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
func plainCodec[M proto.Message, O catalog.Object](read func(M) (O, error), show func(O) M) codec {
	return codecOf(read, func(o O, _ fleet.Record) M { return show(o) })
}

// kindOf returns the kind that a request names.
func kindOf(name string) (catalog.Kind, error) {
	if kind := catalog.Kind(name); slices.Contains(catalog.Kinds(), kind) {
		return kind, nil
	}
	return "", fielderr.New("kind", "%.80q is not a kind; write one such as Service, Cluster or Repository", name)
}

// documentOf returns the object of a document.
func documentOf(m *fleetv1.Document) (catalog.Object, error) {
	object := fleetdoc.Object(m)
	if object == nil {
		return nil, fielderr.New("object", "is required: one of %s", strings.Join(fleetdoc.Fields(), ", "))
	}
	return codecs[catalog.Kind(object.Descriptor().Name())].read(object.Interface())
}

// objectMessage returns the message of a record's object, or nil for a record of nothing.
func objectMessage(r fleet.Record) proto.Message {
	if r.Object == nil {
		return nil
	}
	return codecs[r.Object.Key().Kind].show(r)
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
