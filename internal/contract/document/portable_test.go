// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package document_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
)

// fill sets every field of a message: of each oneof the branch of that place, as far as there is one.
func fill(message protoreflect.Message, branch, depth int) {
	switch known := message.Interface().(type) {
	case *durationpb.Duration:
		known.Seconds = 90
		return
	case *timestamppb.Timestamp:
		known.Seconds = 1_790_000_000
		return
	case *structpb.Struct:
		known.Fields = map[string]*structpb.Value{"text": structpb.NewStringValue("8080")}
		return
	}
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if oneof := field.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() && oneof.Fields().Get(branch%oneof.Fields().Len()) != field {
			continue
		}
		switch {
		case field.IsMap():
			values := message.Mutable(field).Map()
			key := protoreflect.ValueOfString("KEY").MapKey()
			if field.MapValue().Message() != nil {
				fill(values.Mutable(key).Message(), branch, depth+1)
			} else {
				values.Set(key, scalar(field.MapValue()))
			}
		case field.IsList() && field.Message() != nil:
			if depth < 6 {
				fill(message.Mutable(field).List().AppendMutable().Message(), branch, depth+1)
			}
		case field.IsList():
			message.Mutable(field).List().Append(scalar(field))
		case field.Message() != nil:
			if depth < 6 {
				fill(message.Mutable(field).Message(), branch, depth+1)
			}
		default:
			message.Set(field, scalar(field))
		}
	}
}

func scalar(field protoreflect.FieldDescriptor) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(field.Enum().Values().Get(1).Number())
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(7)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(7)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(7)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(7)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(1.5)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(1.5)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte("bytes"))
	default:
		return protoreflect.ValueOfString("the-" + string(field.Name()))
	}
}

// TestPortableKeepsEveryField writes an object of each kind with every field set, reads it again,
// and finds everything except the fields that the hub sets, and secrets.
func TestPortableKeepsEveryField(t *testing.T) {
	t.Parallel()
	for _, kind := range slices.Sorted(maps.Keys(fleetdoc.Kinds())) {
		for branch := range 6 {
			object := &fleetv1.Document{}
			fill(object.ProtoReflect().Mutable(fleetdoc.Kinds()[kind]).Message(), branch, 0)
			metadata := document.Metadata(object)
			metadata.Annotations["leat.dev/managed-by"] = "fleetsource/fleet"
			before := proto.CloneOf(object)
			portable, secrets := document.Portable(object)
			if !proto.Equal(object, before) {
				t.Fatalf("%s: the object itself was changed", kind)
			}
			var text bytes.Buffer
			if err := document.WriteYAML(&text, portable); err != nil {
				t.Fatal(err)
			}
			for _, gone := range []string{"\nstatus:", "  uid:", "createTime", "updatedBy", "resourceVersion", "managed-by", "\n  manager:"} {
				if strings.Contains(text.String(), gone) {
					t.Errorf("%s: found %q in\n%s", kind, gone, text.String())
				}
			}
			again, err := document.Parse(kind, strings.NewReader(text.String()))
			if err != nil {
				t.Fatalf("%s: %v in\n%s", kind, err, text.String())
			}
			if diff := cmp.Diff(portable, again[0].Object, protocmp.Transform()); diff != "" {
				t.Errorf("%s (-written +read):\n%s", kind, diff)
			}
			if kind == "Service" && !slices.Contains(secrets, "spec.config.secrets.KEY") || kind == "Repository" && !slices.Contains(secrets, "spec.credential") {
				t.Errorf("%s: got the secrets %v", kind, secrets)
			}
			if missing := unsetFields(fleetdoc.Object(portable), fleetdoc.Object(before), "", secrets); len(missing) > 0 {
				t.Errorf("%s: fields of the object that are not written: %v", kind, missing)
			}
		}
	}
}

// unsetFields returns the fields below the spec that one message has and the other lacks, except
// fields that are named as secrets.
func unsetFields(message, full protoreflect.Message, path string, secrets []string) []string {
	var missing []string
	full.Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		at := strings.TrimPrefix(path+"."+field.JSONName(), ".")
		switch {
		case path == "" && field.Name() != "spec", slices.Contains(secrets, at):
		case !message.Has(field):
			missing = append(missing, at)
		case field.Message() != nil && !field.IsMap() && !field.IsList():
			missing = append(missing, unsetFields(message.Get(field).Message(), full.Get(field).Message(), at, secrets)...)
		}
		return true
	})
	return missing
}
