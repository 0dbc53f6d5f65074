// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"cmp"
	"slices"
)

// Grade is what a note means for the person who imports.
type Grade string

// The grades, the gravest first.
const (
	// Refused: the object becomes no document.
	Refused Grade = "refused"
	// Missing: what is delivered would differ.
	Missing Grade = "missing"
	// Differs: Leat does something else than the other tool, with the same content.
	Differs Grade = "differs"
	// Check: a person has to look, or to do something.
	Check Grade = "check"
	// Needless: Leat has no such setting because it does not need it.
	Needless Grade = "needless"
)

// rank is the place of a grade in reports.
func (g Grade) rank() int {
	return slices.Index([]Grade{Refused, Missing, Differs, Check, Needless}, g)
}

// Note says what becomes of a field of an object.
type Note struct {
	// Field is the path of the field, such as spec.source.plugin. Empty: the whole object.
	Field string `json:"field,omitempty"`
	Grade Grade  `json:"grade"`
	// Reason is a sentence without a full stop.
	Reason string `json:"reason"`
}

// sortNotes sorts notes: the gravest first, the fields of a grade by name, and equal ones beside each other.
func sortNotes(notes []Note) {
	slices.SortFunc(notes, func(a, b Note) int {
		return cmp.Or(cmp.Compare(a.Grade.rank(), b.Grade.rank()), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Reason, b.Reason))
	})
}
