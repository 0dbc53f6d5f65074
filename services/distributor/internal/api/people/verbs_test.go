// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	optionsv1 "github.com/leatdev/leat/gen/go/leat/options/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/permission"
	"github.com/leatdev/leat/services/distributor/internal/api/codec"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestSecVerbsOfUpdatesFollowTheOptions edits each field of a service alone, and compares the verbs
// that the edit needs with the option beside the field: the protocol and catalog.VerbsOf agree.
func TestSecVerbsOfUpdatesFollowTheOptions(t *testing.T) {
	t.Parallel()
	want := map[optionsv1.Edit]string{
		optionsv1.Edit_EDIT_PAUSE:   catalog.VerbPause,
		optionsv1.Edit_EDIT_CONFIRM: catalog.VerbConfirm,
	}
	base := &fleetv1.Service{
		Metadata: &typev1.Metadata{Name: "web"},
		Spec: &fleetv1.ServiceSpec{Cluster: "one", Sources: []*typev1.Source{{
			Repository: "demo", Path: "app", Ref: &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: "main"}},
		}}},
	}
	before, err := codec.ServiceOf(base)
	if err != nil {
		t.Fatal(err)
	}
	seen, tried := map[optionsv1.Edit]int{}, 0
	for _, edit := range permission.Declared(base.ProtoReflect().Descriptor()) {
		if edit.Needs == optionsv1.Edit_EDIT_SERVER {
			continue
		}
		for at, path := range leaves(base.ProtoReflect().Descriptor(), edit.Path) {
			changed := proto.CloneOf(base)
			set(changed.ProtoReflect(), strings.Split(path, "."))
			after, err := codec.ServiceOf(changed)
			verb, isNarrow := want[edit.Needs]
			if err != nil {
				if isNarrow {
					t.Errorf("%s: %v", path, err)
				}
				continue // not a valid value of the field, so no edit either
			}
			tried++
			seen[edit.Needs] += at + 1
			if !isNarrow {
				verb = catalog.VerbUpdate
			}
			if got := catalog.VerbsOf(before, after); !slices.Equal(got, []string{verb}) {
				t.Errorf("%s: got %q, and its option %s says %q", path, got, edit.Needs, verb)
			}
		}
	}
	for needs, verb := range want {
		if seen[needs] == 0 {
			t.Errorf("no field has the option %s, and VerbsOf returns %q", needs, verb)
		}
	}
	if tried < 20 {
		t.Errorf("tried %d fields, want those of a whole service", tried)
	}
}

// leaves returns the path of a field, or of the fields below it.
func leaves(message protoreflect.MessageDescriptor, path string) []string {
	at := message
	var field protoreflect.FieldDescriptor
	for name := range strings.SplitSeq(path, ".") {
		if field = at.Fields().ByName(protoreflect.Name(name)); field == nil {
			return nil
		}
		at = field.Message()
	}
	if at == nil || field.IsMap() || strings.HasPrefix(string(at.FullName()), "google.protobuf.") || strings.Count(path, ".") > 8 {
		return []string{path}
	}
	var all []string
	for i := range at.Fields().Len() {
		all = append(all, leaves(message, path+"."+string(at.Fields().Get(i).Name()))...)
	}
	return all
}

// set gives a field another value than the one it has.
func set(m protoreflect.Message, path []string) {
	field := m.Descriptor().Fields().ByName(protoreflect.Name(path[0]))
	switch {
	case field.IsMap():
		m.Mutable(field).Map().Set(protoreflect.ValueOfString("KEY").MapKey(), other(field.MapValue(), m.Mutable(field).Map().NewValue(), protoreflect.Value{}))
	case field.IsList() && len(path) > 1:
		list := m.Mutable(field).List()
		if list.Len() == 0 {
			list.Append(list.NewElement())
		}
		set(list.Get(0).Message(), path[1:])
	case field.IsList():
		list := m.Mutable(field).List()
		list.Append(other(field, list.NewElement(), protoreflect.Value{}))
	case len(path) > 1:
		set(m.Mutable(field).Message(), path[1:])
	default:
		m.Set(field, other(field, m.NewField(field), m.Get(field)))
	}
}

// other returns a value that differs from the current one.
func other(field protoreflect.FieldDescriptor, empty, stands protoreflect.Value) protoreflect.Value {
	switch field.Kind() { //nolint:exhaustive // the others are numbers
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("other")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte("other"))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(!stands.IsValid() || !stands.Bool())
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(field.Enum().Values().Get(field.Enum().Values().Len() - 1).Number())
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(7)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(7)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(7)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(7)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(7)
	case protoreflect.MessageKind:
		if seconds := field.Message().Fields().ByName("seconds"); seconds != nil {
			empty.Message().Set(seconds, protoreflect.ValueOfInt64(7))
		}
	}
	return empty
}
