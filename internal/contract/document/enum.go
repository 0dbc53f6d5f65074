// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// parseEnum accepts the short name in any case ("git") and the protocol's own
// ("REPOSITORY_TYPE_GIT").
func parseEnum(enum protoreflect.EnumDescriptor, node *yaml.Node) (value protoreflect.Value, problem string) {
	word := strings.ReplaceAll(strings.ToUpper(node.Value), "-", "_")
	word = strings.TrimPrefix(word, enumPrefix(enum))
	found := enum.Values().ByName(protoreflect.Name(enumPrefix(enum) + word))
	if found != nil && found.Number() != 0 {
		return protoreflect.ValueOfEnum(found.Number()), ""
	}
	names := enumNames(enum)
	return value, fmt.Sprintf("unknown value %q, want one of %s%s", node.Value, strings.Join(names, ", "), Suggest(node.Value, names))
}

// enumPrefix returns the prefix of all values of an enum. buf's lint ensures that the zero value is
// PREFIX_UNSPECIFIED.
func enumPrefix(enum protoreflect.EnumDescriptor) string {
	return strings.TrimSuffix(string(enum.Values().Get(0).Name()), "UNSPECIFIED")
}

func enumNames(enum protoreflect.EnumDescriptor) []string {
	var names []string
	for i := range enum.Values().Len() {
		if number := enum.Values().Get(i).Number(); number != 0 {
			names = append(names, enumName(enum, number))
		}
	}
	return names
}

// enumName returns the short name of a value. Reasons keep their capitals, as in documentation and
// logs. A value of a newer hub is its number.
func enumName(enum protoreflect.EnumDescriptor, number protoreflect.EnumNumber) string {
	value := enum.Values().ByNumber(number)
	if value == nil {
		return fmt.Sprint(number)
	}
	short := strings.TrimPrefix(string(value.Name()), enumPrefix(enum))
	if enum.FullName() == "leat.errors.v1.Reason" {
		return short
	}
	return strings.ToLower(short)
}

// EnumName returns the short name of an enum's value, as shown in documents and tables.
func EnumName(value protoreflect.Enum) string { return enumName(value.Descriptor(), value.Number()) }
