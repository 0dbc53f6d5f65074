// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package filter is the language in which people select objects of a list, such as
//
//	phase=Failed,Degraded cluster.label.region=eu repository~shop checkout
//
// A filter is a row of terms, and selects what all of them are true of. A term compares a field:
//
//	FIELD=VALUE,VALUE   one of the field's values is one of these
//	FIELD!=VALUE,VALUE  none is
//	FIELD~TEXT,TEXT     one of the field's values contains one of these texts, in either case
//	FIELD!~TEXT,TEXT    none does
//	FIELD>2h, FIELD<7d  a span of time is longer, or shorter
//
// A term without an operator is a text that the object contains. In a value of = and !=, * stands for
// any text and ? for any character. A value in double quotes stands for itself; \ in it takes the next
// character as it is.
//
// There are no regular expressions. The cost of a filter for one object grows with the bytes of the
// filter and of the object, which both are bounded.
package filter

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bounds of a filter.
const (
	// MaxBytes bounds the text of a filter.
	MaxBytes = 4096
	// MaxTerms bounds its terms, and MaxValues the values of all terms together.
	MaxTerms  = 32
	MaxValues = 64
	// maxValue bounds one value, and maxCompared how much of an object's value is compared.
	maxValue    = 256
	maxCompared = 1024
)

// FieldText is the field of terms without an operator. Every schema has it.
const FieldText = "text"

// Type is how the values of a field are compared.
type Type int

// The types.
const (
	// Text is compared literally.
	Text Type = iota
	// Word is compared in either case. If its field lists values, it is one of them.
	Word
	// Hash is equal to every text that it begins with, of four characters and more.
	Hash
	// Age is a span of time until now, and has the operators > and < alone.
	Age
)

// Field is one that terms may name.
type Field struct {
	// Name is the name that people write. A name that ends in a dot begins the names of many fields,
	// such as "label.": the rest is the key.
	Name string
	Type Type
	// Values are all that a Word can be. Nil: any.
	Values []string
	// About describes the field for people.
	About string
}

// Schema lists the fields of a kind, in the order in which people are told them.
type Schema []Field

// Find returns the field that a name leads to, and the key that follows its prefix.
func (s Schema) Find(name string) (field Field, key string, ok bool) {
	for _, f := range s {
		if f.Name == name && !strings.HasSuffix(name, ".") {
			return f, "", true
		}
		if key, isPart := strings.CutPrefix(name, f.Name); isPart && strings.HasSuffix(f.Name, ".") && key != "" {
			return f, key, true
		}
	}
	return Field{}, "", false
}

// names returns the fields as people write them.
func (s Schema) names() string {
	names := make([]string, len(s))
	for i, f := range s {
		if names[i] = f.Name; strings.HasSuffix(f.Name, ".") {
			names[i] += "KEY"
		}
	}
	return strings.Join(names, ", ")
}

// Subject is an object that a filter is compared with.
type Subject interface {
	// Any reports whether match is true of one of the field's values. It calls match with each value
	// until then. key is the rest after the prefix of the field's name.
	Any(field, key string, match func(string) bool) bool
	// At returns the time from which a field of type Age counts; zero: the object has no such time.
	At(field string) time.Time
}

// Error describes the defect of a filter, its place, and the correction.
type Error struct {
	// Position is the position of the first wrong character, from 1.
	Position int
	Message  string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("at character %d: %s", e.Position, e.Message) }

// Filter is a filter that was read. The zero Filter selects everything. It is safe for concurrent
// use.
type Filter struct {
	terms []term
	text  string
}

// term is one comparison.
type term struct {
	field, key string
	isNot      bool
	// match compares one value. It is nil in a term about time.
	match func(string) bool
	// span is compared with what has passed; isLonger selects how.
	span     time.Duration
	isLonger bool
}

// Parse reads a filter for objects with the fields of a schema. Its error is an *Error. An empty text
// selects everything.
func Parse(text string, schema Schema) (*Filter, error) {
	tokens, err := split(text)
	if err != nil {
		return nil, err
	}
	f := &Filter{}
	values, written := 0, make([]string, len(tokens))
	for i, t := range tokens {
		if i == MaxTerms {
			return nil, t.errorf("a filter has at most %d terms", MaxTerms)
		}
		if values += max(len(t.values), 1); values > MaxValues {
			return nil, t.errorf("a filter has at most %d values", MaxValues)
		}
		compiled, err := compile(t, schema)
		if err != nil {
			return nil, err
		}
		f.terms = append(f.terms, compiled)
		written[i] = t.String()
	}
	f.text = strings.Join(written, " ")
	return f, nil
}

// String returns the filter in its one spelling: filters that are written alike except for spaces
// and quotes have the same.
func (f *Filter) String() string { return f.text }

// IsEmpty reports whether the filter selects everything.
func (f *Filter) IsEmpty() bool { return len(f.terms) == 0 }

// TellsTime reports whether what the filter selects can change by time alone.
func (f *Filter) TellsTime() bool {
	return slices.ContainsFunc(f.terms, func(t term) bool { return t.match == nil })
}

// Matches reports whether all terms are true of an object.
func (f *Filter) Matches(s Subject, now time.Time) bool {
	for i := range f.terms {
		if !f.terms[i].isTrue(s, now) {
			return false
		}
	}
	return true
}

func (t *term) isTrue(s Subject, now time.Time) bool {
	if t.match != nil {
		return s.Any(t.field, t.key, t.match) != t.isNot
	}
	at := s.At(t.field)
	if at.IsZero() {
		return false // what has no time is neither old nor new
	}
	if t.isLonger {
		return now.Sub(at) > t.span
	}
	return now.Sub(at) < t.span
}

// compile makes a term of a token.
func compile(t token, schema Schema) (term, error) {
	if t.operator == "" {
		return term{field: FieldText, match: contains(t.values)}, nil
	}
	field, key, ok := schema.Find(t.field)
	if !ok {
		return term{}, t.errorf("there is no field %q; the fields are %s", t.field, schema.names())
	}
	compiled := term{field: field.Name, key: key, isNot: strings.HasPrefix(t.operator, "!")}
	isOrder := t.operator == "<" || t.operator == ">"
	switch {
	case (field.Type == Age) != isOrder && isOrder:
		return term{}, t.errorf("%s has no order; compare it with =, !=, ~ or !~", t.field)
	case (field.Type == Age) != isOrder:
		return term{}, t.errorf("%s is a span of time; compare it with > or <, such as %s>2h", t.field, t.field)
	case isOrder:
		span, err := parseSpan(t.values)
		if err != nil {
			return term{}, t.valueErrorf(0, "%s", err)
		}
		compiled.span, compiled.isLonger = span, t.operator == ">"
		return compiled, nil
	case strings.HasSuffix(t.operator, "~"):
		compiled.match = contains(t.values)
		return compiled, nil
	}
	for i, v := range t.values {
		switch {
		case field.Type == Hash && len(v.text) < 4 && !v.isPattern():
			return term{}, t.valueErrorf(i, "write at least 4 characters of a %s", t.field)
		case field.Type == Word && field.Values != nil && !v.isPattern() && !slices.ContainsFunc(field.Values, func(known string) bool { return strings.EqualFold(known, v.text) }):
			return term{}, t.valueErrorf(i, "%q is not a %s; write one of %s", v.text, t.field, strings.Join(field.Values, ", "))
		}
	}
	compiled.match = equals(field.Type, t.values)
	return compiled, nil
}
