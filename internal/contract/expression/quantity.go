// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/api/resource"
)

// quantities is a CEL library for Kubernetes' quantities, with the functions that Kubernetes itself
// has in CEL.
type quantities struct{}

var quantityType = cel.OpaqueType("kubernetes.Quantity")

// CompileOptions implements cel.Library.
func (quantities) CompileOptions() []cel.EnvOption {
	compare := func(name string, of func(order int) bool) cel.EnvOption {
		return binary(name, quantityType, cel.BoolType, func(a, b resource.Quantity) ref.Val { return types.Bool(of(a.Cmp(b))) })
	}
	return []cel.EnvOption{
		cel.Function("quantity", cel.Overload("string_to_quantity", []*cel.Type{cel.StringType}, quantityType, cel.UnaryBinding(parse))),
		cel.Function("isQuantity", cel.Overload("is_quantity_string", []*cel.Type{cel.StringType}, cel.BoolType,
			cel.UnaryBinding(func(s ref.Val) ref.Val { return types.Bool(!types.IsError(parse(s))) }))),
		compare("isGreaterThan", func(order int) bool { return order > 0 }),
		compare("isLessThan", func(order int) bool { return order < 0 }),
		binary("compareTo", quantityType, cel.IntType, func(a, b resource.Quantity) ref.Val { return types.Int(a.Cmp(b)) }),
		binary("add", quantityType, quantityType, func(a, b resource.Quantity) ref.Val { a.Add(b); return quantity{a} }),
		binary("sub", quantityType, quantityType, func(a, b resource.Quantity) ref.Val { a.Sub(b); return quantity{a} }),
		unary("sign", cel.IntType, func(q resource.Quantity) ref.Val { return types.Int(q.Sign()) }),
		unary("asApproximateFloat", cel.DoubleType, func(q resource.Quantity) ref.Val { return types.Double(q.AsApproximateFloat64()) }),
		unary("isInteger", cel.BoolType, func(q resource.Quantity) ref.Val { _, whole := q.AsInt64(); return types.Bool(whole) }),
		unary("asInteger", cel.IntType, asInteger),
	}
}

// ProgramOptions implements cel.Library.
func (quantities) ProgramOptions() []cel.ProgramOption {
	return nil
}

func binary(name string, other, result *cel.Type, of func(a, b resource.Quantity) ref.Val) cel.EnvOption {
	return cel.Function(name, cel.MemberOverload("quantity_"+name, []*cel.Type{quantityType, other}, result,
		cel.BinaryBinding(func(a, b ref.Val) ref.Val {
			left, right := a.(quantity), b.(quantity) //nolint:errcheck // CEL calls it with quantities only
			return of(left.DeepCopy(), right.Quantity)
		})))
}

func unary(name string, result *cel.Type, of func(q resource.Quantity) ref.Val) cel.EnvOption {
	return cel.Function(name, cel.MemberOverload("quantity_"+name, []*cel.Type{quantityType}, result,
		cel.UnaryBinding(func(q ref.Val) ref.Val {
			return of(q.(quantity).Quantity) //nolint:errcheck // CEL calls it with quantities only
		})))
}

func parse(s ref.Val) ref.Val {
	text, ok := s.Value().(string)
	if !ok {
		return types.MaybeNoSuchOverloadErr(s)
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return types.NewErr("the text is not a quantity")
	}
	return quantity{q}
}

func asInteger(q resource.Quantity) ref.Val {
	whole, ok := q.AsInt64()
	if !ok {
		return types.NewErr("the quantity is not an integer of 64 bits")
	}
	return types.Int(whole)
}

// quantity is a CEL value.
type quantity struct{ resource.Quantity }

// ConvertToNative implements ref.Val.
func (q quantity) ConvertToNative(wanted reflect.Type) (any, error) {
	if wanted == reflect.TypeFor[resource.Quantity]() {
		return q.Quantity, nil
	}
	return nil, fmt.Errorf("a quantity cannot become a %v", wanted)
}

// ConvertToType implements ref.Val.
func (q quantity) ConvertToType(wanted ref.Type) ref.Val {
	if wanted == types.TypeType {
		return quantityType
	}
	return types.NewErr("a quantity cannot become a %s", wanted.TypeName())
}

// Equal implements ref.Val.
func (q quantity) Equal(other ref.Val) ref.Val {
	o, ok := other.(quantity)
	return types.Bool(ok && q.Cmp(o.Quantity) == 0)
}

// Type implements ref.Val.
func (q quantity) Type() ref.Type {
	return quantityType
}

// Value implements ref.Val.
func (q quantity) Value() any {
	return q.Quantity
}
