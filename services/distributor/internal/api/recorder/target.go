// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// targetOf returns the target of a call: the verb and the kind in the name of its procedure, such
// as SyncService, and the name that its message holds. The calls about any kind, such as Delete,
// hold the kind, too. An Apply names neither; its verb is what it may do.
func targetOf(procedure string, message proto.Message) catalog.Target {
	name := procedure[strings.LastIndexByte(procedure, '/')+1:]
	verb := strings.ToLower(name)
	kind := ""
	if i := strings.IndexFunc(name[min(1, len(name)):], func(r rune) bool { return 'A' <= r && r <= 'Z' }); i >= 0 {
		verb, kind = strings.ToLower(name[:i+1]), name[i+1:]
	}
	if kind == "" {
		kind = kindIn(message)
	}
	if apply, ok := message.(*fleetv1.ApplyRequest); ok {
		switch apply.GetMode() {
		case fleetv1.ApplyMode_APPLY_MODE_CREATE:
			verb = catalog.VerbCreate
		case fleetv1.ApplyMode_APPLY_MODE_UPDATE:
			verb = catalog.VerbUpdate
		case fleetv1.ApplyMode_APPLY_MODE_UNSPECIFIED:
		}
	}
	return aimed(catalog.Target{Verb: verb, Kind: kind, Name: nameIn(message)})
}

// kindIn returns the kind that a message names, or "" for a text that is not a kind: callers can write any text.
func kindIn(message proto.Message) string {
	if message == nil || !message.ProtoReflect().IsValid() {
		return ""
	}
	m := message.ProtoReflect()
	field := m.Descriptor().Fields().ByName("kind")
	if field == nil || field.Kind() != protoreflect.StringKind || !slices.Contains(catalog.Kinds(), catalog.Kind(m.Get(field).String())) {
		return ""
	}
	return m.Get(field).String()
}

// aimed returns a target whose name is without the cluster of a service.
func aimed(t catalog.Target) catalog.Target {
	if !strings.HasPrefix(t.Kind, string(catalog.KindService)) {
		return t
	}
	path, err := objectname.ParseService("", t.Name, objectname.Default)
	if local, cluster := objectname.SplitService(path); err == nil && cluster != "" {
		t.Name, t.Cluster = objectname.Display(local), objectname.Display(cluster)
	}
	return t
}

// nameIn returns the name of the object in a message: its field name, or the name in the metadata of
// an object in it, or its field cluster, id or user. Empty: it has none of them.
func nameIn(message proto.Message) string {
	if message == nil || !message.ProtoReflect().IsValid() {
		return ""
	}
	m := message.ProtoReflect()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if field := fields.Get(i); field.Kind() == protoreflect.MessageKind && !field.IsList() && !field.IsMap() {
			if name := metadataName(m.Get(field).Message()); name != "" {
				return name
			}
		}
	}
	for _, known := range []protoreflect.Name{"name", "cluster", "id", "user"} {
		if field := fields.ByName(known); field != nil && field.Kind() == protoreflect.StringKind && !field.IsList() {
			return m.Get(field).String()
		}
	}
	return ""
}

// metadataName returns the name in the metadata of an object, with the cluster of a service, or "" if
// the message has no metadata.
func metadataName(object protoreflect.Message) string {
	field := object.Descriptor().Fields().ByName("metadata")
	if field == nil || field.Kind() != protoreflect.MessageKind {
		return ""
	}
	metadata := object.Get(field).Message()
	name := metadata.Descriptor().Fields().ByName("name")
	if name == nil || name.Kind() != protoreflect.StringKind {
		return ""
	}
	project := ""
	if field := metadata.Descriptor().Fields().ByName("project"); field != nil && field.Kind() == protoreflect.StringKind {
		project = metadata.Get(field).String()
	}
	text := metadata.Get(name).String()
	if text == "" {
		return ""
	}
	if project != "" && project != objectname.Default {
		text = project + "/" + text
	}
	if service, ok := object.Interface().(*fleetv1.Service); ok && service.GetSpec().GetCluster() != "" {
		text += "@" + service.GetSpec().GetCluster()
	}
	return text
}

// refusedTarget returns what a refused call asked for. A refused Apply is about the document that its
// error names, or about its only one.
func refusedTarget(asked catalog.Target, message proto.Message, err error) catalog.Target {
	apply, ok := message.(*fleetv1.ApplyRequest)
	if !ok {
		return asked
	}
	documents := apply.GetDocuments()
	at := documentOf(rpcerr.Metadata(err)[rpcerr.MetadataField])
	if len(documents) == 1 {
		at = 0
	}
	if at < 0 || at >= len(documents) {
		return asked
	}
	object := fleetdoc.Object(documents[at])
	if object == nil {
		return asked
	}
	asked.Kind, asked.Name = string(object.Descriptor().Name()), metadataName(object)
	return aimed(asked)
}

// documentOf returns the index in a path such as documents[3].spec.url, or -1.
func documentOf(path string) int {
	rest, ok := strings.CutPrefix(path, "documents[")
	if !ok {
		return -1
	}
	index, _, _ := strings.Cut(rest, "]")
	at, err := strconv.Atoi(index)
	if err != nil {
		return -1
	}
	return at
}
