// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package renderstepwire_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/renderstep/renderstepwire"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// renderers are the fields of the oneof.
func renderers() protoreflect.FieldDescriptors {
	return (&typev1.RenderStep{}).ProtoReflect().Descriptor().Oneofs().ByName("renderer").Fields()
}

// fill sets fields of a message at random; all of them if every is true, but only the given one of
// the oneof. Enums get no value that means the default, which does not come back as it went.
func fill(t *rapid.T, m protoreflect.Message, renderer protoreflect.FieldDescriptor, every bool) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if oneof := field.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() {
			continue
		}
		if every || rapid.Bool().Draw(t, string(field.FullName())) {
			set(t, m, field, every)
		}
	}
	if renderer != nil {
		fill(t, m.Mutable(renderer).Message(), nil, every)
	}
}

func set(t *rapid.T, m protoreflect.Message, field protoreflect.FieldDescriptor, every bool) {
	name := string(field.FullName())
	text := func(label string) string { return rapid.StringN(1, 8, -1).Draw(t, label) }
	switch {
	case field.IsMap():
		for range rapid.IntRange(1, 3).Draw(t, name) {
			m.Mutable(field).Map().Set(protoreflect.ValueOfString(text("key")).MapKey(), protoreflect.ValueOfString(text("value")))
		}
	case field.IsList() && field.Message() != nil:
		for range rapid.IntRange(1, 3).Draw(t, name) {
			fill(t, m.Mutable(field).List().AppendMutable().Message(), nil, every)
		}
	case field.IsList():
		m.Mutable(field).List().Append(protoreflect.ValueOfString(text(name)))
	case field.Message() != nil && field.Message().FullName() == "google.protobuf.Struct":
		m.Set(field, protoreflect.ValueOfMessage(drawStruct(t).ProtoReflect()))
	case field.Kind() == protoreflect.EnumKind:
		m.Set(field, protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.IntRange(2, field.Enum().Values().Len()-1).Draw(t, name))))
	case field.Kind() == protoreflect.BoolKind:
		m.Set(field, protoreflect.ValueOfBool(!field.HasPresence() || every || rapid.Bool().Draw(t, name)))
	case field.Kind() == protoreflect.StringKind:
		m.Set(field, protoreflect.ValueOfString(text(name)))
	default:
		t.Fatalf("%s has a kind that this test does not set", name)
	}
}

// drawStruct returns a free tree with a value of every kind.
func drawStruct(t *rapid.T) *structpb.Struct {
	tree, err := structpb.NewStruct(map[string]any{
		"text": rapid.String().Draw(t, "text"), "number": rapid.Float64().Draw(t, "number"), "flag": rapid.Bool().Draw(t, "flag"), "null": nil,
		"list": []any{1.0, "two", []any{}, map[string]any{}}, "map": map[string]any{"a.b": map[string]any{"c": []any{nil}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestEveryFieldComesBack fails for a field of the protocol, or of the value, that a conversion or
// the JSON forgets.
func TestEveryFieldComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		every := rapid.Bool().Draw(t, "every")
		var sent []*typev1.RenderStep
		for i := range renderers().Len() {
			m := &typev1.RenderStep{}
			fill(t, m.ProtoReflect(), renderers().Get(i), every)
			sent = append(sent, m)
		}
		automatic := &typev1.RenderStep{}
		fill(t, automatic.ProtoReflect(), nil, every)
		sent = append(sent, automatic)
		steps, err := renderstepwire.Steps("render", sent)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sent, renderstepwire.Messages(steps), protocmp.Transform()); diff != "" {
			t.Fatalf("messages (-sent +got):\n%s", diff)
		}
		text, err := json.Marshal(steps)
		if err != nil {
			t.Fatal(err)
		}
		var stored []renderstep.Step
		if err := json.Unmarshal(text, &stored); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(steps, stored); diff != "" {
			t.Fatalf("JSON (-steps +stored):\n%s", diff)
		}
		if every {
			checkUsed(t, steps)
		}
	})
}

// checkUsed wants every field of the values to be set by one of the steps.
func checkUsed(t *rapid.T, steps []renderstep.Step) {
	used := map[string]bool{}
	var visit func(v reflect.Value)
	visit = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			visit(v.Elem())
		case reflect.Slice:
			for i := range v.Len() {
				visit(v.Index(i))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				name := v.Type().String() + "." + v.Type().Field(i).Name
				used[name] = used[name] || !v.Field(i).IsZero()
				visit(v.Field(i))
			}
		default:
		}
	}
	visit(reflect.ValueOf(steps))
	for name, isUsed := range used {
		if !isUsed {
			t.Errorf("nothing in the protocol sets %s", name)
		}
	}
}

// TestDefaultsAreTheirWords compares written-out defaults with omitted ones.
func TestDefaultsAreTheirWords(t *testing.T) {
	t.Parallel()
	written := []*typev1.RenderStep{{Renderer: &typev1.RenderStep_Helm{Helm: &typev1.HelmStep{
		Crds: typev1.CrdPolicy_CRD_POLICY_APPLY, Values: &structpb.Struct{},
	}}}, {Renderer: &typev1.RenderStep_Wasm{}}}
	left := []*typev1.RenderStep{{Renderer: &typev1.RenderStep_Helm{}}, {Renderer: &typev1.RenderStep_Wasm{Wasm: &typev1.WasmStep{Config: &structpb.Struct{}}}}}
	a, err := renderstepwire.Steps("render", written)
	if err != nil {
		t.Fatal(err)
	}
	b, err := renderstepwire.Steps("render", left)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("(-written +left out):\n%s", diff)
	}
	if got := renderstepwire.Messages(nil); got != nil {
		t.Errorf("got %v, want no messages", got)
	}
	bare := []renderstep.Step{
		{Renderer: renderstep.Helm}, {Renderer: renderstep.Liquid}, {Renderer: renderstep.Jsonnet}, {Renderer: renderstep.CUE}, {Renderer: renderstep.WASM},
	}
	for i, m := range renderstepwire.Messages(bare) {
		if m.GetRenderer() == nil {
			t.Errorf("%s without options: got no renderer", bare[i].Renderer)
		}
	}
}

// newer is a message with a field that this version does not know.
func newer[M proto.Message](m M) M {
	m.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 999, protowire.BytesType), []byte("x")))
	return m
}

// TestWhatIsNotKnownIsAnError keeps a version from carrying out half of what a newer one wrote.
func TestWhatIsNotKnownIsAnError(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]*typev1.RenderStep{
		"renderer":         newer(&typev1.RenderStep{}),
		"field":            {Renderer: &typev1.RenderStep_Plain{Plain: newer(&typev1.PlainStep{})}},
		"field of options": {Renderer: &typev1.RenderStep_Helm{Helm: newer(&typev1.HelmStep{})}},
		"enum":             {Renderer: &typev1.RenderStep_Helm{Helm: &typev1.HelmStep{Crds: 9}}},
		"field of a rule":  {Renderer: &typev1.RenderStep_Helm{Helm: &typev1.HelmStep{Lookup: []*typev1.LookupRule{{}, newer(&typev1.LookupRule{})}}}},
		"field of a tree":  {Renderer: &typev1.RenderStep_Wasm{Wasm: &typev1.WasmStep{Config: newer(&structpb.Struct{})}}},
	} {
		steps, err := renderstepwire.Steps("render", []*typev1.RenderStep{{}, m})
		if field, ok := errors.AsType[*fielderr.Error](err); !ok || field.Path != "render[1]" || steps != nil {
			t.Errorf("%s: got %+v, %v, want an error at render[1]", name, steps, err)
		}
	}
}
