// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Fields reads the fields of an object or of a part of it, and remembers which ones were read. The fields of a part that
// the object does not have are empty, so that a translation need not ask. A field of another type than the one asked
// for counts as absent, and is Missing.
type Fields struct {
	path   string
	values map[string]any
	read   map[string]bool
	// parts are by their paths, so that what two readers read of one counts together.
	parts     map[string]*Fields
	isDropped bool
	// notes are those of the whole object.
	notes *[]Note
}

// NewFields returns the fields of an object, or of values that are not part of one.
func NewFields(values map[string]any) *Fields {
	return &Fields{values: values, read: map[string]bool{}, parts: map[string]*Fields{}, notes: &[]Note{}}
}

// at returns the path of a field, or of a part if name is empty.
func (f *Fields) at(name string) string { return strings.Trim(f.path+"."+name, ".") }

// take returns the value of a field, and marks it as read.
func take[T any](f *Fields, name, want string) (value T, isSet bool) {
	f.read[name] = true
	raw, isSet := f.values[name]
	if !isSet || raw == nil {
		return value, false
	}
	value, isSet = raw.(T)
	if !isSet {
		f.Note(name, Missing, "is not "+want)
	}
	return value, isSet
}

// Has reports whether a field is set. It does not mark it as read.
func (f *Fields) Has(name string) bool { return f.values[name] != nil }

// All returns all values as they are, and marks them as read. They must not be changed.
func (f *Fields) All() map[string]any {
	f.Skip(slices.Collect(maps.Keys(f.values))...)
	return f.values
}

// IsEmpty reports whether nothing is set.
func (f *Fields) IsEmpty() bool { return len(f.values) == 0 }

// Text returns a text. Empty: the field is not set.
func (f *Fields) Text(name string) string {
	text, _ := take[string](f, name, "a text")
	return text
}

// Bool returns a truth value, and whether it is set.
func (f *Fields) Bool(name string) (value, isSet bool) { return take[bool](f, name, "true or false") }

// Map returns the values of a field as they are. It must not be changed.
func (f *Fields) Map(name string) map[string]any {
	values, _ := take[map[string]any](f, name, "an object")
	return values
}

// Texts returns the texts of a list.
func (f *Fields) Texts(name string) []string {
	list, _ := take[[]any](f, name, "a list")
	var texts []string
	for i, item := range list {
		text, isText := item.(string)
		if !isText {
			f.Note(fmt.Sprintf("%s[%d]", name, i), Missing, "is not a text")
			continue
		}
		texts = append(texts, text)
	}
	return texts
}

// Strings returns a map of texts.
func (f *Fields) Strings(name string) map[string]string {
	found := map[string]string{}
	for key, value := range f.Map(name) {
		text, isText := value.(string)
		if !isText {
			f.Note(name, Missing, fmt.Sprintf("the value of %s is not a text", Line(key)))
			continue
		}
		found[key] = text
	}
	return found
}

// Part returns the fields of a part of the object. They are empty if it is not set.
func (f *Fields) Part(name string) *Fields {
	values, _ := take[map[string]any](f, name, "an object")
	return f.part(f.at(name), values)
}

// Parts returns the fields of each object in a list.
func (f *Fields) Parts(name string) []*Fields {
	list, _ := take[[]any](f, name, "a list")
	var parts []*Fields
	for i, item := range list {
		place := fmt.Sprintf("%s[%d]", name, i)
		values, isObject := item.(map[string]any)
		if !isObject {
			f.Note(place, Missing, "is not an object")
			continue
		}
		parts = append(parts, f.part(f.at(name)+fmt.Sprintf("[%d]", i), values))
	}
	return parts
}

func (f *Fields) part(path string, values map[string]any) *Fields {
	if f.parts[path] == nil {
		f.parts[path] = &Fields{path: path, values: values, read: map[string]bool{}, parts: map[string]*Fields{}, notes: f.notes}
	}
	return f.parts[path]
}

// Derive returns the fields of values that a translation has made of a part, such as of a template. Their notes are the
// object's.
func (f *Fields) Derive(path string, values map[string]any) *Fields {
	return f.part(fmt.Sprintf("%s#%d", path, len(f.parts)), values).as(path)
}

// as changes the path that notes have.
func (f *Fields) as(path string) *Fields {
	f.path = path
	return f
}

// Note notes what a field means. An empty name means the whole part.
func (f *Fields) Note(name string, grade Grade, reason string) {
	*f.notes = append(*f.notes, Note{Field: f.at(name), Grade: grade, Reason: reason})
}

// Without notes fields that have no counterpart, if they are set, and marks them as read.
func (f *Fields) Without(grade Grade, reason string, names ...string) {
	for _, name := range names {
		f.read[name] = true
		if f.Has(name) {
			f.Note(name, grade, reason)
		}
	}
}

// Skip marks fields as read that mean nothing for an import, such as what the other tool has observed.
func (f *Fields) Skip(names ...string) {
	for _, name := range names {
		f.read[name] = true
	}
}

// Drop marks everything as read: a translation makes nothing of it, and has said why.
func (f *Fields) Drop() { f.isDropped = true }

// finish returns all notes of the object. One that is not imported has only those that say why: what its fields would mean
// is of no use then.
func (f *Fields) finish(isImported bool) []Note {
	if isImported {
		f.noteUnread()
	}
	notes := slices.Clone(*f.notes)
	if slices.ContainsFunc(notes, func(n Note) bool { return n.Grade == Refused }) && !isImported {
		notes = slices.DeleteFunc(notes, func(n Note) bool { return n.Grade != Refused })
	}
	for i := range notes {
		notes[i].Field, notes[i].Reason = Line(notes[i].Field), Line(notes[i].Reason)
	}
	sortNotes(notes)
	return slices.Compact(notes)
}

// quoted returns the name of a field as a part of a path.
func quoted(name string) string {
	if strings.ContainsAny(name, "./[ ") {
		return strconv.Quote(name)
	}
	return name
}

// noteUnread notes each field that was not read.
func (f *Fields) noteUnread() {
	if f.isDropped {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(f.values)) {
		if !f.read[name] && f.values[name] != nil {
			f.Note(quoted(name), Missing, "the import does not know this field")
		}
	}
	for _, part := range f.parts {
		part.noteUnread()
	}
}
