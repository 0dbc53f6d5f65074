// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
)

// managedBy is the annotation by which hubs of earlier versions name the fleet source that manages an
// object. It is not part of what people write.
const managedBy = "leat.dev/managed-by"

// Portable returns a copy of an object without what the hub sets, as people would have written it, and
// the fields that may hold secrets, which a hub never returns: the reader has to give these again on
// another hub. Keys of secrets stay, with an empty value that stands for the stored one.
func Portable(object *fleetv1.Document) (portable *fleetv1.Document, secrets []string) {
	portable = proto.CloneOf(object)
	message := fleetdoc.Object(portable)
	if message == nil {
		return portable, nil
	}
	if field := message.Descriptor().Fields().ByName("status"); field != nil {
		message.Clear(field)
	}
	if metadata := metadataOf(message); metadata != nil {
		metadata.Uid, metadata.ResourceVersion, metadata.Generation = "", 0, 0
		metadata.CreateTime, metadata.UpdateTime, metadata.CreatedBy, metadata.UpdatedBy, metadata.Reason = nil, nil, "", "", ""
		metadata.Manager = nil
		delete(metadata.GetAnnotations(), managedBy)
	}
	if field := message.Descriptor().Fields().ByName("spec"); field != nil && message.Has(field) {
		secrets = secretFields(message.Get(field).Message(), "spec")
	}
	slices.Sort(secrets)
	return portable, secrets
}

// secretFields returns the fields of a message that hold secrets, or could, and clears the set
// ones.
func secretFields(message protoreflect.Message, path string) []string {
	var found []string
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		at := join(path, field.JSONName())
		switch {
		case isSecret(field) && field.IsMap():
			values := message.Get(field).Map()
			for _, key := range keysOf(values) {
				values.Set(key, field.MapValue().Default())
				found = append(found, at+"."+key.String())
			}
		case isSecret(field):
			message.Clear(field)
			found = append(found, at)
		case field.IsMap() || field.Message() == nil:
		case field.IsList():
			list := message.Get(field).List()
			for j := range list.Len() {
				found = append(found, secretFields(list.Get(j).Message(), at)...)
			}
		case message.Has(field):
			found = append(found, secretFields(message.Get(field).Message(), at)...)
		case isUnsetSecret(field):
			found = append(found, at)
		}
	}
	return found
}

// isSecret reports whether a field holds secrets. Secrets of repositories are shared with
// definitions, so they are known by their names.
func isSecret(field protoreflect.FieldDescriptor) bool {
	return sensitive(field) || field.Name() == "credential" || field.Name() == "webhook_secret"
}

func keysOf(values protoreflect.Map) []protoreflect.MapKey {
	var keys []protoreflect.MapKey
	values.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, key)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return strings.Compare(a.String(), b.String()) })
	return keys
}

// isUnsetSecret reports whether a message that is not set could hold a secret, as a credential, which
// hubs leave out.
func isUnsetSecret(field protoreflect.FieldDescriptor) bool {
	if oneof := field.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() {
		return false
	}
	return holdsSecrets(field.Message(), map[protoreflect.FullName]bool{})
}

func holdsSecrets(message protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if seen[message.FullName()] {
		return false
	}
	seen[message.FullName()] = true
	fields := message.Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if isSecret(field) && !field.IsMap() || !field.IsMap() && field.Message() != nil && holdsSecrets(field.Message(), seen) {
			return true
		}
	}
	return false
}
