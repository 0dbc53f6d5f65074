// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleetdoc finds objects in messages of type leat.fleet.v1.Document, and puts them there,
// whatever their kind. The message is the only list of kinds: a kind is the name of the type of one
// of its fields, such as "Service", and every object has metadata.
package fleetdoc

import (
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	optionsv1 "github.com/leatdev/leat/gen/go/leat/options/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// Kinds returns the field of each kind. Callers must not change the map.
func Kinds() map[string]protoreflect.FieldDescriptor { return kinds() }

var kinds = sync.OnceValue(func() map[string]protoreflect.FieldDescriptor {
	fields := oneof().Fields()
	kinds := make(map[string]protoreflect.FieldDescriptor, fields.Len())
	for i := range fields.Len() {
		kinds[string(fields.Get(i).Message().Name())] = fields.Get(i)
	}
	return kinds
})

// Describe returns what a kind, such as "Service", says of itself. It is empty for a kind that does not exist.
func Describe(kind string) *optionsv1.Kind {
	field := Kinds()[kind]
	if field == nil {
		return nil
	}
	described, _ := proto.GetExtension(field.Message().Options(), optionsv1.E_Kind).(*optionsv1.Kind)
	return described
}

// InProject reports whether objects of a kind belong to projects. Others belong to the hub. A kind that does not exist has
// no objects in projects.
func InProject(kind string) bool { return Kinds()[kind] != nil && !Describe(kind).GetInHub() }

// Names returns the kinds in an order in which an object follows those that it names.
func Names() []string {
	fields := oneof().Fields()
	names := make([]string, fields.Len())
	for i := range names {
		names[i] = string(fields.Get(i).Message().Name())
	}
	return names
}

// Of returns the document of an object. Any other message, and a nil one, give an empty document.
func Of(object proto.Message) *fleetv1.Document {
	document := &fleetv1.Document{}
	if object == nil || !object.ProtoReflect().IsValid() {
		return document
	}
	message := object.ProtoReflect()
	if field := Kinds()[string(message.Descriptor().Name())]; field != nil && field.Message() == message.Descriptor() {
		document.ProtoReflect().Set(field, protoreflect.ValueOfMessage(message))
	}
	return document
}

// Named returns the document of an object that has nothing but a kind and metadata, which may be nil. A kind that does
// not exist gives an empty document.
func Named(kind string, metadata *typev1.Metadata) *fleetv1.Document {
	document := &fleetv1.Document{}
	if field := Kinds()[kind]; field != nil {
		object := document.ProtoReflect().Mutable(field).Message()
		if metadata != nil {
			object.Set(field.Message().Fields().ByName("metadata"), protoreflect.ValueOfMessage(metadata.ProtoReflect()))
		}
	}
	return document
}

// Object returns the object in a document, or nil if the document is empty.
func Object(document *fleetv1.Document) protoreflect.Message {
	field := document.ProtoReflect().WhichOneof(oneof())
	if field == nil {
		return nil
	}
	return document.ProtoReflect().Get(field).Message()
}

func oneof() protoreflect.OneofDescriptor {
	return (&fleetv1.Document{}).ProtoReflect().Descriptor().Oneofs().ByName("object")
}

// Fields returns the names of the fields that a document has, one for each kind, in their order.
func Fields() []string {
	fields := oneof().Fields()
	names := make([]string, fields.Len())
	for i := range names {
		names[i] = string(fields.Get(i).Name())
	}
	return names
}
