// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package permission reads from the protocol files who may make a call, and what edits of documents
// need. The option leat.options.v1.access is written beside each RPC, and is the only source of it:
// servers refuse other callers by it, handlers check the permission that it names, and
// docs/reference/rights.md is made of it. In the same way leat.options.v1.edit is written beside
// each field of a document.
package permission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	optionsv1 "github.com/leatdev/leat/gen/go/leat/options/v1"
)

// Group is the API group of the resources that permissions name, in the rules of bindings.
const Group = "leat.dev"

// Each is the resource of a call whose objects each need the permission for their own resource.
const Each = "*"

// Access is who may make one call.
type Access struct {
	callers []optionsv1.Caller
	// Verb and Resource are the permission that a person needs. Both are empty if every signed-in
	// person may make the call.
	Verb, Resource string
	// IsOwn is true if people need no permission for their own objects.
	IsOwn bool
}

// Of returns who may make a call. ok is false for a method without the option.
func Of(method protoreflect.MethodDescriptor) (access Access, ok bool) {
	option, _ := proto.GetExtension(method.Options(), optionsv1.E_Access).(*optionsv1.Access)
	if len(option.GetCallers()) == 0 {
		return Access{}, false
	}
	return Access{
		callers: option.GetCallers(), Verb: option.GetPermission().GetVerb(), Resource: option.GetPermission().GetResource(),
		IsOwn: option.GetOwn(),
	}, true
}

// OfCall returns who may make the call that ctx belongs to. It is the zero Access, which admits no
// caller, outside of a call.
func OfCall(ctx context.Context) Access {
	info, ok := connect.CallInfoForHandlerContext(ctx)
	if !ok {
		return Access{}
	}
	method, ok := info.Spec().Schema.(protoreflect.MethodDescriptor)
	if !ok {
		return Access{}
	}
	access, _ := Of(method)
	return access
}

// Admits reports whether callers of a kind may make the call.
func (a Access) Admits(kind optionsv1.Caller) bool { return slices.Contains(a.callers, kind) }

// Callers returns the kinds of callers that may make the call.
func (a Access) Callers() []optionsv1.Caller { return slices.Clone(a.callers) }

// Procedures returns who may make the calls of the services that are linked into this program, by
// procedure. The error names an RPC of Leat's without the option.
func Procedures() (map[string]Access, error) {
	all := map[string]Access{}
	var err error
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if !strings.HasPrefix(string(file.Package()), "leat.") {
			return true
		}
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				access, ok := Of(methods.Get(j))
				if !ok {
					err = fmt.Errorf("%s does not say who may call it: give it the option leat.options.v1.access", methods.Get(j).FullName())
				}
				all[Procedure(methods.Get(j))] = access
			}
		}
		return err == nil
	})
	return all, err
}

// Procedure returns the path of a method's calls, such as "/leat.fleet.v1.FleetService/Apply".
func Procedure(method protoreflect.MethodDescriptor) string {
	return "/" + string(method.Parent().FullName()) + "/" + string(method.Name())
}
