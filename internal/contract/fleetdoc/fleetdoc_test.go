// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleetdoc_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
)

func TestDocuments(t *testing.T) {
	t.Parallel()
	object := &fleetv1.Service{Metadata: &typev1.Metadata{Name: "shop"}}
	want := &fleetv1.Document{Object: &fleetv1.Document_Service{Service: object}}
	for name, got := range map[string]*fleetv1.Document{"Of": fleetdoc.Of(object), "Named": fleetdoc.Named("Service", &typev1.Metadata{Name: "shop"})} {
		if !proto.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	if got := fleetdoc.Object(want); got == nil || !proto.Equal(got.Interface(), object) {
		t.Errorf("got %v, want %v", got, object)
	}
	for name, got := range map[string]*fleetv1.Document{
		"nothing": fleetdoc.Of(nil), "no message": fleetdoc.Of((*fleetv1.Service)(nil)), "no object": fleetdoc.Of(&fleetv1.Token{}), "no kind": fleetdoc.Named("Token", &typev1.Metadata{Name: "a"}),
	} {
		if fleetdoc.Object(got) != nil {
			t.Errorf("%s: got %v, want an empty document", name, got)
		}
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]bool{"Service": true, "Notifier": true, "Project": false, "Role": false, "Token": false, "": false} {
		if got := fleetdoc.InProject(kind); got != want {
			t.Errorf("%q: in projects: got %t, want %t", kind, got, want)
		}
	}
}

// TestKindsAreDescribed enforces the option beside each kind.
func TestKindsAreDescribed(t *testing.T) {
	t.Parallel()
	for _, kind := range fleetdoc.Names() {
		if fleetdoc.Describe(kind).GetResource() == "" {
			t.Errorf("%s: its message has no option leat.options.v1.kind with a resource", kind)
		}
	}
	if len(fleetdoc.Names()) != len(fleetdoc.Kinds()) || fleetdoc.Describe("Token") != nil {
		t.Error("got another number of names than of kinds, or what is no kind described")
	}
}
