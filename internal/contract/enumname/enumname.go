// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package enumname converts values of the protocol's enums to the short names by which the rest of
// Leat knows them, and back: SERVICE_PHASE_HEALTHY is HEALTHY.
//
// The zero value, which is PREFIX_UNSPECIFIED in every enum of the protocol, has the empty name.
package enumname

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Of returns the name of a value without the enum's prefix. A value that this version does not know
// has its number for a name, so that it passes through and is refused where names are checked.
func Of(value protoreflect.Enum) string {
	known := value.Descriptor().Values().ByNumber(value.Number())
	switch {
	case value.Number() == 0:
		return ""
	case known == nil:
		return strconv.Itoa(int(value.Number()))
	}
	return strings.TrimPrefix(string(known.Name()), prefix(value))
}

// Value returns the value of a name, in whatever case that is. It returns the zero value for a name
// that the enum does not have.
func Value[E interface {
	~int32
	protoreflect.Enum
}](name string) E {
	var zero E
	known := zero.Descriptor().Values().ByName(protoreflect.Name(prefix(zero) + strings.ToUpper(name)))
	if known == nil {
		return zero
	}
	return E(known.Number())
}

func prefix(value protoreflect.Enum) string {
	return strings.TrimSuffix(string(value.Descriptor().Values().Get(0).Name()), "UNSPECIFIED")
}
