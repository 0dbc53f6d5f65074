// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package permission_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	_ "github.com/leatdev/leat/gen/go/leat/agent/v1"
	_ "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	_ "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	_ "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	optionsv1 "github.com/leatdev/leat/gen/go/leat/options/v1"
	_ "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/internal/contract/permission"
)

// TestEveryCallSaysWhoMayMakeIt reads the options of all services.
func TestEveryCallSaysWhoMayMakeIt(t *testing.T) {
	t.Parallel()
	all, err := permission.Procedures()
	if err != nil {
		t.Error(err)
	}
	services := map[string]bool{}
	for procedure, access := range all {
		services[strings.Split(procedure, "/")[1]] = true
		isPerson := access.Admits(optionsv1.Caller_CALLER_PERSON)
		switch {
		case access.Admits(optionsv1.Caller_CALLER_UNSPECIFIED):
			t.Errorf("%s names a caller of no kind", procedure)
		case access.Admits(optionsv1.Caller_CALLER_ANYONE) && len(access.Callers()) > 1:
			t.Errorf("%s is for anyone, and for others", procedure)
		case (access.Verb == "") != (access.Resource == ""):
			t.Errorf("%s has half a permission", procedure)
		case access.Verb != "" && !isPerson:
			t.Errorf("%s has a permission, which is for people, but is not for people", procedure)
		case access.IsOwn && access.Verb == "":
			t.Errorf("%s is for oneself without a permission for others", procedure)
		}
	}
	if len(services) != 19 {
		t.Errorf("found the services %v: link all of them here", services)
	}
}

// TestCallsWithoutTheOption reads a service that forgot it.
func TestCallsWithoutTheOption(t *testing.T) {
	t.Parallel()
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("forgetful.proto"), Package: proto.String("forgetful"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M")}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("S"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: proto.String("Do"), InputType: proto.String(".forgetful.M"), OutputType: proto.String(".forgetful.M")},
		}}},
	}, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	method := file.Services().Get(0).Methods().Get(0)
	if access, ok := permission.Of(method); ok || access.Admits(optionsv1.Caller_CALLER_ANYONE) {
		t.Errorf("got %+v, %v, want nobody admitted", access, ok)
	}
	if got := permission.OfCall(t.Context()); len(got.Callers()) != 0 {
		t.Errorf("outside of a call: got %+v, want nobody admitted", got)
	}
}
