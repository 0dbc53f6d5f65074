// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// The YAML tags of plain scalars.
const (
	nullTag      = "!!null"
	stringTag    = "!!str"
	intTag       = "!!int"
	floatTag     = "!!float"
	boolTag      = "!!bool"
	timestampTag = "!!timestamp"
	mergeTag     = "!!merge"
)

// decoder turns the nodes of one file into documents. It continues after a problem, so that a user
// sees all of them at once.
type decoder struct {
	file      string
	budget    int // nodes that may still be visited
	documents []*Document
	problems  Problems

	fields map[string]Position // of the current document
}

func (d *decoder) problem(node *yaml.Node, field, message string) {
	d.problems = append(d.problems, Problem{Position: d.position(node), Field: field, Message: message})
}

func (d *decoder) position(node *yaml.Node) Position {
	return Position{File: d.file, Line: node.Line, Column: node.Column}
}

// document decodes node as the given kind.
func (d *decoder) document(node *yaml.Node, kind string, field protoreflect.FieldDescriptor) {
	d.fields = map[string]Position{"": d.position(node)}
	before := len(d.problems)
	object := &fleetv1.Document{}
	message := object.ProtoReflect().Mutable(field).Message()
	d.mapping(message, withoutServerFields(node), "")
	name := metadataOf(message).GetName()
	if name == "" && len(d.problems) == before {
		d.problem(nodeOr(child(node, "metadata"), node), "metadata.name", "is required")
	}
	d.documents = append(d.documents, &Document{
		Object: object, Kind: kind, Name: name, Start: d.position(node), fields: d.fields,
	})
}

func nodeOr(node, otherwise *yaml.Node) *yaml.Node {
	if node == nil {
		return otherwise
	}
	return node
}

// withoutServerFields drops the keys that are not fields of the message (apiVersion, kind), and
// status, which only the hub writes, so that the output of `leat get -o yaml` can be applied again.
// Duplicates stay, to be reported.
func withoutServerFields(node *yaml.Node) *yaml.Node {
	kept := *node
	kept.Content = nil
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		drop := key.Value == "apiVersion" || key.Value == "kind" || key.Value == "status"
		if drop && !seen[key.Value] {
			seen[key.Value] = true
			continue
		}
		kept.Content = append(kept.Content, key, node.Content[i+1])
	}
	return &kept
}

// metadataOf returns the metadata of a cluster, repository or another object with metadata.
func metadataOf(object protoreflect.Message) *typev1.Metadata {
	holder, _ := object.Interface().(interface{ GetMetadata() *typev1.Metadata })
	return holder.GetMetadata()
}

// mapping decodes the fields of a message.
func (d *decoder) mapping(message protoreflect.Message, node *yaml.Node, path string) {
	if node.Kind != yaml.MappingNode {
		want := "want {}"
		if names := fieldNames(message); len(names) > 0 {
			want = "want fields such as " + names[0]
		}
		d.problem(node, path, want+", got "+kindOf(node)) // a text may be a secret
		return
	}
	seen := make(map[string]*yaml.Node, len(node.Content)/2)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], resolve(node.Content[i+1])
		if d.spent(key, path) {
			return
		}
		at := join(path, key.Value)
		if first, again := seen[key.Value]; again {
			d.problem(key, at, fmt.Sprintf("given twice; first on line %d", first.Line))
			continue
		}
		seen[key.Value] = key
		if field := d.lookUp(message, key, at); field != nil {
			d.field(message, field, key, value, at)
		}
	}
}

// spent reports whether too many nodes were visited, and adds a problem when that happens first.
func (d *decoder) spent(node *yaml.Node, path string) bool {
	d.budget--
	if d.budget == -1 {
		d.problem(node, path, "too many fields; do the aliases in this file multiply?")
	}
	return d.budget < 0
}

func (d *decoder) lookUp(message protoreflect.Message, key *yaml.Node, path string) protoreflect.FieldDescriptor {
	if key.Kind != yaml.ScalarNode {
		d.problem(key, path, "want the name of a field, got "+describe(key))
		return nil
	}
	if key.Tag == mergeTag {
		d.problem(key, path, "merge keys (<<) are not supported; use an alias for the whole value")
		return nil
	}
	field := message.Descriptor().Fields().ByJSONName(key.Value)
	if field == nil {
		d.problem(key, path, "unknown field"+Suggest(key.Value, fieldNames(message)))
	}
	return field
}

func fieldNames(message protoreflect.Message) []string {
	fields := message.Descriptor().Fields()
	names := make([]string, fields.Len())
	for i := range names {
		names[i] = fields.Get(i).JSONName()
	}
	return names
}

// field decodes the value of one field. An empty value leaves it unset.
func (d *decoder) field(message protoreflect.Message, field protoreflect.FieldDescriptor, key, value *yaml.Node, path string) {
	d.fields[path] = d.position(value)
	if value.Kind != yaml.ScalarNode {
		d.fields[path] = d.position(key)
	}
	if value.Tag == nullTag || d.excluded(message, field, key, path) {
		return
	}
	switch {
	case field.IsMap():
		d.mapField(message.Mutable(field).Map(), field, value, path)
	case field.IsList():
		d.listField(message.Mutable(field).List(), field, value, path)
	case field.Message() != nil:
		d.message(message.Mutable(field).Message(), value, path)
	default:
		if decoded, ok := d.scalar(field, value, path); ok {
			message.Set(field, decoded)
		}
	}
}

// excluded adds a problem for a second field of a oneof.
func (d *decoder) excluded(message protoreflect.Message, field protoreflect.FieldDescriptor, key *yaml.Node, path string) bool {
	oneof := field.ContainingOneof()
	if oneof == nil || oneof.IsSynthetic() {
		return false
	}
	other := message.WhichOneof(oneof)
	if other == nil {
		return false
	}
	d.problem(key, path, fmt.Sprintf("%s and %s exclude each other; keep one", other.JSONName(), field.JSONName()))
	return true
}

func (d *decoder) mapField(target protoreflect.Map, field protoreflect.FieldDescriptor, node *yaml.Node, path string) {
	if node.Kind != yaml.MappingNode {
		got := describe(node)
		if sensitive(field) {
			got = kindOf(node)
		}
		d.problem(node, path, "want pairs such as key: value, got "+got)
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], resolve(node.Content[i+1])
		if d.spent(key, path) {
			return
		}
		at := path + "[" + key.Value + "]"
		d.fields[at] = d.position(value)
		name, ok := d.scalar(field.MapKey(), resolve(key), at)
		if !ok {
			continue
		}
		if target.Has(name.MapKey()) {
			d.problem(key, at, "given twice")
			continue
		}
		if sensitive(field) && !d.isText(value, at) {
			continue
		}
		if decoded, ok := d.scalar(field.MapValue(), value, at); ok {
			target.Set(name.MapKey(), decoded)
		}
	}
}

// isText reports whether a node is text, and otherwise adds a problem that does not show its value.
func (d *decoder) isText(node *yaml.Node, path string) bool {
	switch {
	case node.Kind != yaml.ScalarNode:
		d.problem(node, path, "want text, got "+kindOf(node))
		return false
	case slices.Contains([]string{stringTag, timestampTag, mergeTag}, node.Tag):
		return true
	}
	d.problem(node, path, "want text; put it into quotes")
	return false
}

// sensitive reports whether a field's value must not be repeated in messages.
func sensitive(field protoreflect.FieldDescriptor) bool {
	options, ok := field.Options().(*descriptorpb.FieldOptions)
	return ok && options.GetDebugRedact()
}

func (d *decoder) listField(target protoreflect.List, field protoreflect.FieldDescriptor, node *yaml.Node, path string) {
	if node.Kind != yaml.SequenceNode {
		d.problem(node, path, "want a list, got "+describe(node)+`; begin each item with "- "`)
		return
	}
	for i, item := range node.Content {
		item = resolve(item)
		if d.spent(item, path) {
			return
		}
		at := fmt.Sprintf("%s[%d]", path, i)
		d.fields[at] = d.position(item)
		if field.Message() != nil {
			d.message(target.AppendMutable().Message(), item, at)
			continue
		}
		if decoded, ok := d.scalar(field, item, at); ok {
			target.Append(decoded)
		}
	}
}

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// describe returns a node's kind in plain words, and the beginning of its value.
func describe(node *yaml.Node) string {
	switch {
	case node.Kind == yaml.MappingNode, node.Kind == yaml.SequenceNode, node.Tag == nullTag:
		return kindOf(node)
	case node.Tag == boolTag:
		return "the boolean " + node.Value
	case node.Tag == intTag, node.Tag == floatTag:
		return "the number " + node.Value
	}
	return fmt.Sprintf("the text %.40q", node.Value)
}

// kindOf returns a node's kind in plain words, without its value, which may be a secret.
func kindOf(node *yaml.Node) string {
	switch {
	case node.Kind == yaml.MappingNode:
		return "a mapping"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case node.Tag == nullTag:
		return "nothing"
	case node.Tag == boolTag:
		return "a boolean"
	case node.Tag == intTag, node.Tag == floatTag:
		return "a number"
	}
	return "text"
}
