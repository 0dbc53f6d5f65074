// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package codec turns messages of leat.fleet.v1 into objects of the catalog, and objects into messages, for every kind.
//
// Messages name other objects as people write them in the document's project, objects by their
// paths. A message never has a secret. Package catalog checks the content of a message: an error
// here means that it cannot be read, and is a *fielderr.Error. The package keeps nothing, and is
// safe for concurrent use.
package codec

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// codec reads and shows the messages of one kind.
type codec struct {
	// read returns the object that a message of the kind describes. The error is a *fielderr.Error.
	read func(proto.Message) (catalog.Object, error)
	// show returns the message of a record of the kind. It has no secret.
	show func(*fleet.Record) proto.Message
}

// codecs has every kind.
var codecs = map[catalog.Kind]codec{
	catalog.KindProject: codecOf(projectOf, func(o *catalog.Project, r *fleet.Record) *fleetv1.Project {
		return projectMessage(o, r.Project, r.Bundles)
	}),
	catalog.KindCluster: codecOf(clusterOf, func(o *catalog.Cluster, r *fleet.Record) *fleetv1.Cluster {
		return clusterMessage(o, r.Cluster)
	}),
	catalog.KindRepository: codecOf(repositoryOf, func(o *catalog.Repository, r *fleet.Record) *fleetv1.Repository {
		return repositoryMessage(o, r.Mirror)
	}),
	catalog.KindConfigBackend: plainCodec(backendOf, backendMessage),
	catalog.KindConfigSet:     plainCodec(configSetOf, configSetMessage),
	catalog.KindService: codecOf(ServiceOf, func(o *catalog.Service, r *fleet.Record) *fleetv1.Service {
		return serviceMessage(o, r.Service)
	}),
	catalog.KindUser: plainCodec(UserOf, userMessage),
	catalog.KindRole: plainCodec(RoleObjectOf, roleObjectMessage),
	catalog.KindAccessBinding: codecOf(BindingOf, func(o *catalog.AccessBinding, r *fleet.Record) *fleetv1.AccessBinding {
		return bindingMessage(o, r.Binding)
	}),
	catalog.KindIdentityProvider: codecOf(providerOf, func(o *catalog.IdentityProvider, r *fleet.Record) *fleetv1.IdentityProvider {
		return providerMessage(o, r.Provider)
	}),
	catalog.KindTrustRule: plainCodec(trustRuleOf, trustRuleMessage),
	catalog.KindNotifier:  plainCodec(notifierOf, notifierMessage),
	catalog.KindGlobalService: codecOf(globalOf, func(o *catalog.GlobalService, r *fleet.Record) *fleetv1.GlobalService {
		return globalMessage(o, r.Global)
	}),
	catalog.KindRolloutPolicy: plainCodec(rolloutPolicyOf, rolloutPolicyMessage),
	catalog.KindFleetSource:   plainCodec(fleetSourceOf, fleetSourceMessage),
	catalog.KindImagePolicy:   plainCodec(imagePolicyOf, imagePolicyMessage),
	catalog.KindAccessRequest: plainCodec(AccessRequestOf, accessRequestMessage),
}

func codecOf[M proto.Message, O catalog.Object](read func(M) (O, error), show func(O, *fleet.Record) M) codec {
	return codec{
		read: func(message proto.Message) (catalog.Object, error) {
			m, _ := message.(M)
			return read(m)
		},
		show: func(record *fleet.Record) proto.Message {
			o, _ := record.Object.(O)
			return show(o, record)
		},
	}
}

// plainCodec is codecOf for a kind of which the view knows no state.
func plainCodec[M proto.Message, O catalog.Object](read func(M) (O, error), show func(O) M) codec {
	return codecOf(read, func(o O, _ *fleet.Record) M { return show(o) })
}

// KindOf returns the kind that a request names.
func KindOf(name string) (catalog.Kind, error) {
	if named := catalog.Kind(name); slices.Contains(catalog.Kinds(), named) {
		return named, nil
	}
	return "", fielderr.New("kind", "%.80q is not a kind; write one such as Service, Cluster or Repository", name)
}

// MayWrite refuses a kind whose objects no document writes, in a document or in a call about any kind.
func MayWrite(field string, kind catalog.Kind) error {
	if kind.IsByCalls() {
		return fielderr.New(field, "is of the kind %s, which only calls of its own write; docs/guides/access.md names the commands", kind)
	}
	return nil
}

// Read returns the object of a document.
func Read(m *fleetv1.Document) (catalog.Object, error) {
	object := fleetdoc.Object(m)
	if object == nil {
		return nil, fielderr.New("object", "is required: one of %s", strings.Join(fleetdoc.Fields(), ", "))
	}
	kind := catalog.Kind(object.Descriptor().Name())
	if err := MayWrite("object", kind); err != nil {
		return nil, err
	}
	return codecs[kind].read(object.Interface())
}

// Show returns the message of a record's object, or nil for a record of nothing.
func Show(r *fleet.Record) proto.Message {
	if r.Object == nil {
		return nil
	}
	return codecs[r.Object.Key().Kind].show(r)
}

// MessageOf returns the message of a record's object, or nil if the record is of another kind.
func MessageOf[M proto.Message](r *fleet.Record) M {
	message, _ := Show(r).(M)
	return message
}

// Messages returns the message of each record's object.
func Messages[M proto.Message](records []fleet.Record) []M {
	all := make([]M, len(records))
	for i := range records {
		all[i] = MessageOf[M](&records[i])
	}
	return all
}
