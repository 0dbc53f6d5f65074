// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package permission

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	optionsv1 "github.com/leatdev/leat/gen/go/leat/options/v1"
)

// Edit is a field of a document, and what an edit of it needs.
type Edit struct {
	// Path is the path of the field, such as "spec.sources[0].repository".
	Path string
	// Needs is the option of the field. Unspecified: the field has none, so edits of it are refused.
	Needs optionsv1.Edit
}

// Text is a text of a document that names another object.
type Text struct {
	Edit

	Value string
}

// Edits returns the fields that an edit of a document sets, changes or clears, and those whose needs
// count at every edit, in the order of their declarations. Both messages are of one type; current is
// empty for a new document. Whether a message without content is set makes no difference.
func Edits(current, next protoreflect.Message) []Edit {
	var found []Edit
	compare(&found, "", current, next, nil)
	return found
}

func compare(found *[]Edit, path string, from, to protoreflect.Message, metadata *optionsv1.MetadataEdit) {
	fields := to.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		at, needs := below(path, field), needsOf(field, metadata)
		isSame := sameField(field, from, to)
		if isAlways(needs) || !isSame && isWhole(field, needs) {
			*found = append(*found, Edit{Path: at, Needs: needs})
		}
		switch {
		case isSame || isWhole(field, needs):
		case field.IsList():
			a, b := from.Get(field).List(), to.Get(field).List()
			for j := range max(a.Len(), b.Len()) {
				compare(found, fmt.Sprintf("%s[%d]", at, j), itemOf(to, field, a, j), itemOf(to, field, b, j), nil)
			}
		default:
			compare(found, at, from.Get(field).Message(), to.Get(field).Message(), metadataOf(field))
		}
	}
}

// itemOf returns an item of a list, or an empty message behind its end.
func itemOf(message protoreflect.Message, field protoreflect.FieldDescriptor, list protoreflect.List, i int) protoreflect.Message {
	if i < list.Len() {
		return list.Get(i).Message()
	}
	return message.NewField(field).List().NewElement().Message()
}

// sameField reports whether a field is the same in both messages.
func sameField(field protoreflect.FieldDescriptor, from, to protoreflect.Message) bool {
	if field.Message() == nil || field.IsList() || field.IsMap() {
		return from.Has(field) == to.Has(field) && from.Get(field).Equal(to.Get(field))
	}
	a, b := from.Get(field).Message(), to.Get(field).Message()
	if !a.IsValid() || !b.IsValid() {
		return isEmpty(a) && isEmpty(b)
	}
	return proto.Equal(a.Interface(), b.Interface())
}

func isEmpty(message protoreflect.Message) bool {
	empty := true
	message.Range(func(protoreflect.FieldDescriptor, protoreflect.Value) bool { empty = false; return false })
	return empty
}

// Texts returns the texts of a document that name objects of which the editor needs to be allowed the
// use.
func Texts(document protoreflect.Message) []Text {
	var found []Text
	collect(&found, "", document)
	return found
}

func collect(found *[]Text, path string, message protoreflect.Message) {
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if !message.Has(field) {
			continue
		}
		at, value := below(path, field), message.Get(field)
		needs := needsOf(field, nil)
		switch {
		case isUse(needs):
			*found = append(*found, textsOf(Edit{Path: at, Needs: needs}, field, value)...)
		case isWhole(field, needs):
		case field.IsList():
			for j := range value.List().Len() {
				collect(found, fmt.Sprintf("%s[%d]", at, j), value.List().Get(j).Message())
			}
		default:
			collect(found, at, value.Message())
		}
	}
}

// textsOf returns the texts of a field that names objects: one, a list, or the values of a map.
func textsOf(edit Edit, field protoreflect.FieldDescriptor, value protoreflect.Value) []Text {
	var texts []Text
	switch {
	case field.IsMap():
		value.Map().Range(func(key protoreflect.MapKey, v protoreflect.Value) bool {
			texts = append(texts, Text{Edit: Edit{Path: edit.Path + "[" + key.String() + "]", Needs: edit.Needs}, Value: v.String()})
			return true
		})
		slices.SortFunc(texts, func(a, b Text) int { return strings.Compare(a.Path, b.Path) })
	case field.IsList():
		for i := range value.List().Len() {
			texts = append(texts, Text{Edit: Edit{Path: fmt.Sprintf("%s[%d]", edit.Path, i), Needs: edit.Needs}, Value: value.List().Get(i).String()})
		}
	default:
		texts = append(texts, Text{Edit: edit, Value: value.String()})
	}
	return texts
}

// Declared returns every field of a kind of documents, with what an edit of it needs.
func Declared(kind protoreflect.MessageDescriptor) []Edit {
	var found []Edit
	declare(&found, "", kind, nil)
	return found
}

func declare(found *[]Edit, path string, message protoreflect.MessageDescriptor, metadata *optionsv1.MetadataEdit) {
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		at, needs := below(path, field), needsOf(field, metadata)
		if isAlways(needs) || isWhole(field, needs) {
			*found = append(*found, Edit{Path: at, Needs: needs})
		}
		if !isWhole(field, needs) {
			declare(found, at, field.Message(), metadataOf(field))
		}
	}
}

func below(path string, field protoreflect.FieldDescriptor) string {
	if path == "" {
		return string(field.Name())
	}
	return path + "." + string(field.Name())
}

// needsOf returns the option of a field. That of the metadata of a kind comes first.
func needsOf(field protoreflect.FieldDescriptor, metadata *optionsv1.MetadataEdit) optionsv1.Edit {
	special := optionsv1.Edit_EDIT_UNSPECIFIED
	switch field.Name() {
	case "labels":
		special = metadata.GetLabels()
	case "annotations":
		special = metadata.GetAnnotations()
	}
	if special != optionsv1.Edit_EDIT_UNSPECIFIED {
		return special
	}
	needs, _ := proto.GetExtension(field.Options(), optionsv1.E_Edit).(optionsv1.Edit)
	return needs
}

func metadataOf(field protoreflect.FieldDescriptor) *optionsv1.MetadataEdit {
	metadata, _ := proto.GetExtension(field.Options(), optionsv1.E_Metadata).(*optionsv1.MetadataEdit)
	return metadata
}

// isLeaf reports whether a field has no fields of Leat's below it. A map is one value, and so is a message
// without fields.
func isLeaf(field protoreflect.FieldDescriptor) bool {
	message := field.Message()
	return message == nil || field.IsMap() || message.Fields().Len() == 0 || message.ParentFile().Package() == "google.protobuf"
}

// isWhole reports whether a field is compared as a whole: the option counts for all below, or there is
// nothing below.
func isWhole(field protoreflect.FieldDescriptor, needs optionsv1.Edit) bool {
	switch needs { //nolint:exhaustive // the others count for one field
	case optionsv1.Edit_EDIT_SERVER, optionsv1.Edit_EDIT_CLUSTER_ADMIN, optionsv1.Edit_EDIT_SHARE, optionsv1.Edit_EDIT_LOOSEN,
		optionsv1.Edit_EDIT_GIVE, optionsv1.Edit_EDIT_DEFINE, optionsv1.Edit_EDIT_HUB_ADMIN, optionsv1.Edit_EDIT_BECOME:
		return true
	}
	return isLeaf(field)
}

// isAlways reports whether a need counts at every edit, whatever it changes.
func isAlways(needs optionsv1.Edit) bool {
	switch needs { //nolint:exhaustive // the others count for what changes
	case optionsv1.Edit_EDIT_PROJECT_SERVICES, optionsv1.Edit_EDIT_GIVE, optionsv1.Edit_EDIT_DEFINE, optionsv1.Edit_EDIT_HUB_ADMIN,
		optionsv1.Edit_EDIT_BECOME, optionsv1.Edit_EDIT_DIRECT:
		return true
	}
	return false
}

// isUse reports whether the texts of a field name objects that are used.
func isUse(needs optionsv1.Edit) bool {
	switch needs { //nolint:exhaustive // the others ask for no use
	case optionsv1.Edit_EDIT_USE_REPOSITORY, optionsv1.Edit_EDIT_USE_CONFIG_SET, optionsv1.Edit_EDIT_USE_REFERENCE:
		return true
	}
	return false
}
