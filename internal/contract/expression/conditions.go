// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"google.golang.org/protobuf/types/known/structpb"
)

// conditions is a CEL library of functions for the conditions of an object, or of anything else
// that has a list of conditions, such as one of the parents of an HTTPRoute.
//
// An absent condition reads as an empty one whose status is "Unknown", and so does one that was
// made for an older generation of the object. Rules therefore need no has().
type conditions struct{}

// CompileOptions implements cel.Library.
func (conditions) CompileOptions() []cel.EnvOption {
	word := func(name string, result *cel.Type, of func(condition map[string]any) ref.Val) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload("dyn_"+name+"_string", []*cel.Type{cel.DynType, cel.StringType}, result,
			cel.BinaryBinding(func(object, kind ref.Val) ref.Val { return of(find(object, kind)) })))
	}
	return []cel.EnvOption{
		word("condition", cel.MapType(cel.StringType, cel.DynType), func(c map[string]any) ref.Val {
			return types.DefaultTypeAdapter.NativeToValue(c)
		}),
		word("isTrue", cel.BoolType, func(c map[string]any) ref.Val { return types.Bool(c["status"] == "True") }),
		word("isFalse", cel.BoolType, func(c map[string]any) ref.Val { return types.Bool(c["status"] == "False") }),
		word("reason", cel.StringType, func(c map[string]any) ref.Val { return text(c, "reason") }),
		word("message", cel.StringType, func(c map[string]any) ref.Val { return text(c, "message") }),
	}
}

// ProgramOptions implements cel.Library.
func (conditions) ProgramOptions() []cel.ProgramOption {
	return nil
}

func text(condition map[string]any, field string) ref.Val {
	s, _ := condition[field].(string)
	return types.String(s)
}

// find returns the condition of the given type.
func find(object, kind ref.Val) map[string]any {
	o := native(object)
	for _, item := range listOf(o) {
		c, _ := item.(map[string]any)
		if name, ok := c["type"].(string); ok && name == kind.Value() && !stale(o, c) {
			return c
		}
	}
	name, _ := kind.Value().(string)
	return map[string]any{"type": name, "status": "Unknown", "reason": "", "message": ""}
}

// native returns the fields of an object, or nil if the value is not an object.
func native(value ref.Val) map[string]any {
	if fields, ok := value.Value().(map[string]any); ok {
		return fields
	}
	converted, err := value.ConvertToNative(types.JSONStructType) // an object that the expression itself has made
	if err != nil {
		return nil
	}
	fields, _ := converted.(*structpb.Struct)
	return fields.AsMap()
}

// listOf returns status.conditions of an object, or otherwise its conditions.
func listOf(object map[string]any) []any {
	if status, ok := object["status"].(map[string]any); ok {
		object = status
	}
	list, _ := object["conditions"].([]any)
	return list
}

// stale reports whether the condition was made for another generation than the object's.
func stale(object, condition map[string]any) bool {
	metadata, _ := object["metadata"].(map[string]any)
	generation, ok := metadata["generation"].(int64)
	observed, observes := condition["observedGeneration"].(int64)
	return ok && observes && observed != 0 && observed < generation
}
