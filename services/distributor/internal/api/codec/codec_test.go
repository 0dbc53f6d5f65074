// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/problems"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestEveryKindIsReadAndShown reads an empty document of each kind that documents can hold, and
// shows it again. A kind that the table lacks would end the process of the hub when a person
// applies it.
func TestEveryKindIsReadAndShown(t *testing.T) {
	t.Parallel()
	for _, kind := range catalog.Kinds() {
		field := fleetdoc.Kinds()[string(kind)]
		if field == nil {
			t.Errorf("no document holds a %s", kind)
			continue
		}
		own, ok := codecs[kind]
		if !ok {
			t.Errorf("%s is not in the table", kind)
			continue
		}
		message := fleetdoc.Object(fleetdoc.Named(string(kind), nil))
		metadata := message.Mutable(field.Message().Fields().ByName("metadata")).Message()
		metadata.Set(metadata.Descriptor().Fields().ByName("name"), protoreflect.ValueOfString("one"))
		object, err := own.read(message.Interface())
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if object.Key().Kind != kind {
			t.Errorf("a document of a %s is read as %s", kind, object.Key())
		}
		if got := own.show(&fleet.Record{Object: object}).ProtoReflect().Descriptor(); got != field.Message() {
			t.Errorf("%s is shown as %s", kind, got.FullName())
		}
	}
	if len(codecs) != len(catalog.Kinds()) || len(codecs) != len(fleetdoc.Kinds()) {
		t.Errorf("the table has %d kinds, and there are %d of objects and %d of documents", len(codecs), len(catalog.Kinds()), len(fleetdoc.Kinds()))
	}
}

// TestSkewIsShown shows a cluster whose agent does not go with the hub, and one whose agent does.
func TestSkewIsShown(t *testing.T) {
	t.Parallel()
	record := &fleet.Record{Object: &catalog.Cluster{}}
	if got := MessageOf[*fleetv1.Cluster](record).GetStatus().GetAgentSkew(); got != nil {
		t.Errorf("got the skew %v of an agent that goes with the hub", got)
	}
	for _, isNewer := range []bool{false, true} {
		record.Cluster.AgentSkew = &problems.Skew{IsNewer: isNewer, Message: "what to do"}
		if got := MessageOf[*fleetv1.Cluster](record).GetStatus().GetAgentSkew(); got.GetNewer() != isNewer || got.GetMessage() != "what to do" {
			t.Errorf("got the skew %v, want newer %t and its message", got, isNewer)
		}
	}
}
