// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/contract/objectname"
)

// WriteYAML writes objects as YAML documents, which can be applied again.
func WriteYAML(w io.Writer, objects ...*fleetv1.Document) error {
	nodes := make([]*yaml.Node, len(objects))
	for i, object := range objects {
		nodes[i] = objectNode(object)
	}
	return writeYAML(w, nodes...)
}

func writeYAML(w io.Writer, nodes ...*yaml.Node) error {
	if len(nodes) == 0 {
		return nil
	}
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	for _, node := range nodes {
		if err := encoder.Encode(node); err != nil {
			return fmt.Errorf("write yaml: %w", err)
		}
	}
	return encoder.Close()
}

// WriteJSON writes one object as indented JSON.
func WriteJSON(w io.Writer, object *fleetv1.Document) error {
	return writeJSON(w, objectNode(object), "  ")
}

// WriteJSONLine writes one object as JSON on one line.
func WriteJSONLine(w io.Writer, object *fleetv1.Document) error {
	return writeJSON(w, objectNode(object), "")
}

// WriteJSONList writes objects as a List with items, even for one object or none.
func WriteJSONList(w io.Writer, objects []*fleetv1.Document) error {
	return writeJSON(w, listNode(objects, objectNode), "  ")
}

func listNode[T any](items []T, nodeOf func(T) *yaml.Node) *yaml.Node {
	nodes := &yaml.Node{Kind: yaml.SequenceNode}
	for _, item := range items {
		nodes.Content = append(nodes.Content, nodeOf(item))
	}
	return &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
		text("apiVersion"), text(APIVersion), text("kind"), text("List"), text("items"), nodes,
	}}
}

// WriteJSONItems writes messages that are not documents, such as revisions, like WriteJSONList.
func WriteJSONItems[M proto.Message](w io.Writer, items []M) error {
	return writeJSON(w, itemsNode(items), "  ")
}

// WriteYAMLItems writes such messages as one YAML document.
func WriteYAMLItems[M proto.Message](w io.Writer, items []M) error {
	return writeYAML(w, itemsNode(items))
}

// WriteJSONItem writes one such message on one line.
func WriteJSONItem(w io.Writer, item proto.Message) error {
	return writeJSON(w, messageNode(item.ProtoReflect(), true), "")
}

// WriteYAMLItem writes one such message as a YAML document, which begins with its marker so that
// several form a stream.
func WriteYAMLItem(w io.Writer, item proto.Message) error {
	content, err := yaml.Marshal(messageNode(item.ProtoReflect(), true))
	if err != nil {
		return fmt.Errorf("write yaml: %w", err)
	}
	_, err = fmt.Fprintf(w, "---\n%s", content)
	return err
}

func itemsNode[M proto.Message](items []M) *yaml.Node {
	return listNode(items, func(item M) *yaml.Node { return messageNode(item.ProtoReflect(), true) })
}

// Identify returns the kind of an object, and the reference by which people and requests name it: NAME
// in the project default, PROJECT/NAME elsewhere, and with its cluster for a service. Both are empty if it
// is unset or of an unknown kind.
func Identify(document *fleetv1.Document) (kind, name string) {
	object := fleetdoc.Object(document)
	if object == nil {
		return "", ""
	}
	if service := document.GetService(); service != nil {
		return string(object.Descriptor().Name()), ServiceReference(service)
	}
	return string(object.Descriptor().Name()), Reference(metadataOf(object))
}

// ServiceReference returns the reference of a service to people: NAME@CLUSTER in the project default. A
// document without a valid cluster has the reference of its metadata.
func ServiceReference(service *fleetv1.Service) string {
	metadata := service.GetMetadata()
	cluster, err := objectname.Parse("spec.cluster", service.GetSpec().GetCluster(), metadata.GetProject())
	if err != nil {
		return Reference(metadata)
	}
	return objectname.Display(objectname.ServicePath(objectname.Join(metadata.GetProject(), metadata.GetName()), cluster))
}

// Reference returns the reference of an object other than a service to people: see Identify.
func Reference(metadata *typev1.Metadata) string {
	return objectname.Display(objectname.Join(metadata.GetProject(), metadata.GetName()))
}

// Metadata returns the metadata of an object, or nil if the object is unset.
func Metadata(document *fleetv1.Document) *typev1.Metadata {
	object := fleetdoc.Object(document)
	if object == nil {
		return nil
	}
	return metadataOf(object)
}

func objectNode(document *fleetv1.Document) *yaml.Node {
	node := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{text("apiVersion"), text(APIVersion)}}
	if object := fleetdoc.Object(document); object != nil {
		node.Content = append(node.Content, text("kind"), text(string(object.Descriptor().Name())))
		node.Content = append(node.Content, messageNode(object, false).Content...)
	}
	return node
}

// messageNode returns a node with the fields that are set. In a status it includes zero numbers and
// booleans, because there "synced: false" is information.
func messageNode(message protoreflect.Message, status bool) *yaml.Node {
	switch known := message.Interface().(type) {
	case *durationpb.Duration:
		return text(shortDuration(known.AsDuration()))
	case *timestamppb.Timestamp:
		return text(known.AsTime().UTC().Format(time.RFC3339Nano))
	case *structpb.Struct:
		return treeNode(known)
	}
	node := &yaml.Node{Kind: yaml.MappingNode}
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if message.Has(field) || status && isAnswer(field) {
			value := valueNode(field, message.Get(field), status || field.Name() == "status")
			node.Content = append(node.Content, text(field.JSONName()), value)
		}
	}
	return node
}

func isAnswer(field protoreflect.FieldDescriptor) bool {
	if field.HasPresence() || field.Cardinality() == protoreflect.Repeated {
		return false
	}
	switch field.Kind() {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.EnumKind:
		return false
	default:
		return true
	}
}

func valueNode(field protoreflect.FieldDescriptor, value protoreflect.Value, status bool) *yaml.Node {
	switch {
	case field.IsMap():
		return mapNode(field, value.Map(), status)
	case field.IsList():
		node := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range value.List().Len() {
			node.Content = append(node.Content, itemNode(field, value.List().Get(i), status))
		}
		return node
	default:
		return itemNode(field, value, status)
	}
}

func mapNode(field protoreflect.FieldDescriptor, values protoreflect.Map, status bool) *yaml.Node {
	var keys []protoreflect.MapKey
	values.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, key)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return strings.Compare(a.String(), b.String()) })
	node := &yaml.Node{Kind: yaml.MappingNode}
	for _, key := range keys {
		node.Content = append(node.Content, text(key.String()), itemNode(field.MapValue(), values.Get(key), status))
	}
	return node
}

func itemNode(field protoreflect.FieldDescriptor, value protoreflect.Value, status bool) *yaml.Node {
	switch field.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return messageNode(value.Message(), status)
	case protoreflect.StringKind:
		return text(value.String())
	case protoreflect.EnumKind:
		return text(enumName(field.Enum(), value.Enum()))
	case protoreflect.BytesKind:
		return text(base64.StdEncoding.EncodeToString(value.Bytes()))
	case protoreflect.BoolKind:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: boolTag, Value: strconv.FormatBool(value.Bool())}
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: floatTag, Value: value.String()}
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: intTag, Value: value.String()}
	}
}

// shortDuration omits zero minutes and seconds: "2m", not "2m0s".
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// writeJSON writes a node with its keys in their order. An empty indent means one line.
func writeJSON(w io.Writer, node *yaml.Node, indent string) error {
	var out bytes.Buffer
	appendJSON(&out, node)
	if indent != "" {
		compact := bytes.Clone(out.Bytes())
		out.Reset()
		if err := json.Indent(&out, compact, "", indent); err != nil {
			return fmt.Errorf("write json: %w", err)
		}
	}
	out.WriteByte('\n')
	_, err := out.WriteTo(w)
	return err
}

// appendJSON appends a mapping, whose content are keys and values by turns, a list or a scalar.
func appendJSON(b *bytes.Buffer, node *yaml.Node) {
	brackets, ok := map[yaml.Kind]string{yaml.MappingNode: "{}", yaml.SequenceNode: "[]"}[node.Kind]
	if !ok {
		appendJSONScalar(b, node)
		return
	}
	b.WriteByte(brackets[0])
	for i, part := range node.Content {
		switch {
		case node.Kind == yaml.MappingNode && i%2 == 1:
			b.WriteByte(':')
		case i > 0:
			b.WriteByte(',')
		}
		appendJSON(b, part)
	}
	b.WriteByte(brackets[1])
}

func appendJSONScalar(b *bytes.Buffer, node *yaml.Node) {
	if node.Tag == boolTag || node.Tag == intTag || node.Tag == floatTag || node.Tag == nullTag {
		b.WriteString(node.Value)
		return
	}
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(node.Value) // a text always has a form in JSON
	b.Truncate(b.Len() - 1)        // Encode ends with a line feed
}
