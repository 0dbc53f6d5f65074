// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sourcewire_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/source"
	"github.com/leatdev/leat/internal/contract/source/sourcewire"
)

// fill sets every field, and of a oneof the last.
func fill(t *testing.T, m protoreflect.Message) {
	t.Helper()
	for i := range m.Descriptor().Fields().Len() {
		field := m.Descriptor().Fields().Get(i)
		switch {
		case field.IsList() && field.Kind() == protoreflect.StringKind:
			m.Mutable(field).List().Append(protoreflect.ValueOfString("item of " + string(field.Name())))
		case field.Message() != nil:
			fill(t, m.Mutable(field).Message())
		case field.Kind() == protoreflect.BoolKind:
			m.Set(field, protoreflect.ValueOfBool(true))
		case field.Kind() == protoreflect.StringKind:
			m.Set(field, protoreflect.ValueOfString(string(field.Name())))
		default:
			t.Fatalf("%s has a kind that this test does not set", field.FullName())
		}
	}
}

// TestEveryFieldOfASourceComesBack fails for a field of the protocol that one of the two directions
// forgets.
func TestEveryFieldOfASourceComesBack(t *testing.T) {
	t.Parallel()
	full := &typev1.Source{}
	fill(t, full.ProtoReflect())
	for _, sent := range []*typev1.Source{full, {Repository: "r"}, {}} {
		if diff := cmp.Diff(sent, sourcewire.Message(sourcewire.Of(sent)), protocmp.Transform()); diff != "" {
			t.Errorf("(-sent +got):\n%s", diff)
		}
	}
	if got := sourcewire.Of(&typev1.Source{Layer: &typev1.ArtifactLayer{}}); got != (source.Source{}) {
		t.Errorf("an empty layer: got %+v, want none", got)
	}
}
