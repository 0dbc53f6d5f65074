// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// message decodes into target, which is empty.
func (d *decoder) message(target protoreflect.Message, node *yaml.Node, path string) {
	switch known := target.Interface().(type) {
	case *durationpb.Duration:
		d.duration(known, node, path)
	case *timestamppb.Timestamp:
		d.timestamp(known, node, path)
	case *structpb.Struct:
		d.tree(known, node, path)
	default:
		d.mapping(target, node, path)
	}
}

func (d *decoder) duration(target *durationpb.Duration, node *yaml.Node, path string) {
	parsed, err := time.ParseDuration(node.Value)
	if node.Kind != yaml.ScalarNode || err != nil {
		d.problem(node, path, `want a time span with its unit, such as "30s", "2m" or "1h30m", got `+describe(node))
		return
	}
	proto.Merge(target, durationpb.New(parsed))
}

func (d *decoder) timestamp(target *timestamppb.Timestamp, node *yaml.Node, path string) {
	parsed, err := time.Parse(time.RFC3339Nano, node.Value)
	if node.Kind != yaml.ScalarNode || err != nil {
		d.problem(node, path, `want a time such as "2026-01-31T12:00:00Z", got `+describe(node))
		return
	}
	proto.Merge(target, timestamppb.New(parsed))
}

// scalar decodes a value that is neither a message nor repeated.
func (d *decoder) scalar(field protoreflect.FieldDescriptor, node *yaml.Node, path string) (protoreflect.Value, bool) {
	if sensitive(field) && !d.isText(node, path) {
		return protoreflect.Value{}, false
	}
	if node.Kind != yaml.ScalarNode {
		d.problem(node, path, "want "+wanted(field)+", got "+describe(node))
		return protoreflect.Value{}, false
	}
	value, problem := parseScalar(field, node)
	if problem != "" {
		d.problem(node, path, problem)
		return protoreflect.Value{}, false
	}
	return value, true
}

// parseScalar returns the value, or a message about the error.
func parseScalar(field protoreflect.FieldDescriptor, node *yaml.Node) (value protoreflect.Value, problem string) {
	switch field.Kind() {
	case protoreflect.StringKind:
		return parseString(node)
	case protoreflect.EnumKind:
		return parseEnum(field.Enum(), node)
	case protoreflect.BytesKind:
		decoded, err := base64.StdEncoding.DecodeString(node.Value)
		if err != nil {
			return value, "want bytes in base64"
		}
		return protoreflect.ValueOfBytes(decoded), ""
	case protoreflect.BoolKind:
		if node.Tag == boolTag {
			return protoreflect.ValueOfBool(strings.EqualFold(node.Value, "true")), ""
		}
	default:
		if value, ok := parseNumber(field.Kind(), node.Value); ok {
			return value, ""
		}
	}
	return value, "want " + wanted(field) + ", got " + describe(node)
}

// parseString accepts only text in YAML's sense: "version: 1.10" is a number, which has already
// lost its zero.
func parseString(node *yaml.Node) (value protoreflect.Value, problem string) {
	switch node.Tag {
	case stringTag, timestampTag, mergeTag: // the latter two are kept as written
		return protoreflect.ValueOfString(node.Value), ""
	default:
		return value, fmt.Sprintf("want text, got %s; put it into quotes: %q", describe(node), node.Value)
	}
}

func parseNumber(kind protoreflect.Kind, text string) (protoreflect.Value, bool) {
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		n, err := strconv.ParseInt(text, 10, 32)
		return protoreflect.ValueOfInt32(int32(n)), err == nil
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		n, err := strconv.ParseInt(text, 10, 64)
		return protoreflect.ValueOfInt64(n), err == nil
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		n, err := strconv.ParseUint(text, 10, 32)
		return protoreflect.ValueOfUint32(uint32(n)), err == nil
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		n, err := strconv.ParseUint(text, 10, 64)
		return protoreflect.ValueOfUint64(n), err == nil
	case protoreflect.FloatKind:
		n, err := strconv.ParseFloat(text, 32)
		return protoreflect.ValueOfFloat32(float32(n)), err == nil
	case protoreflect.DoubleKind:
		n, err := strconv.ParseFloat(text, 64)
		return protoreflect.ValueOfFloat64(n), err == nil
	default:
		return protoreflect.Value{}, false
	}
}

// wanted returns in plain words what a field holds.
func wanted(field protoreflect.FieldDescriptor) string {
	switch field.Kind() {
	case protoreflect.StringKind:
		return "text"
	case protoreflect.EnumKind:
		return "one of " + strings.Join(enumNames(field.Enum()), ", ")
	case protoreflect.BytesKind:
		return "bytes in base64"
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return "a number"
	default:
		return "a whole number"
	}
}
