// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"strings"
)

// maxDefault bounds the default of a variable that References searches.
const maxDefault = 4 << 10

// Reference is the use of a variable in a text.
type Reference struct {
	Name string
	// Default replaces a variable without a value, and HasDefault reports that there is such a text.
	Default    string
	HasDefault bool
	// Line is the line of the text, from 1.
	Line int
}

// References returns the variables that expressions such as ${NAME} and ${NAME:-default} of a text
// use, in their order, including variables in defaults. It passes over other text.
func References(text string) []Reference {
	var found []Reference
	line := 1
	for last, at := 0, 0; ; last = at {
		next := strings.Index(text[at:], "${")
		if next < 0 {
			return found
		}
		at += next
		line += strings.Count(text[last:at], "\n")
		isLiteral := at > 0 && text[at-1] == '$'
		at += len("${")
		name := variableName(text[at:])
		if isLiteral || name == "" {
			continue
		}
		at += len(name)
		if reference, ok := referenceOf(name, text[at:min(len(text), at+maxDefault)]); ok {
			reference.Line = line
			found = append(found, reference)
		}
	}
}

// referenceOf returns the reference of an expression whose rest follows the name.
func referenceOf(name, rest string) (Reference, bool) {
	switch {
	case strings.HasPrefix(rest, "}"):
		return Reference{Name: name}, true
	case strings.HasPrefix(rest, ":-"), strings.HasPrefix(rest, ":="):
		x := expansion{lookUp: func(string) (string, bool, bool) { return "", false, false }, room: maxDefault}
		value, after, err := x.text(rest[len(":-"):], 1)
		return Reference{Name: name, Default: value, HasDefault: true}, err == nil && strings.HasPrefix(after, "}")
	}
	return Reference{}, false
}

// ManifestReferences returns the references in the documents of a file, except documents that
// SubstituteAnnotation exempts.
func ManifestReferences(text []byte) []Reference {
	var found []Reference
	line := 0
	for document := range bytes.SplitSeq(text, []byte("\n---")) {
		if !isLeftAlone(document) {
			for _, reference := range References(string(document)) {
				reference.Line += line
				found = append(found, reference)
			}
		}
		line += bytes.Count(document, []byte("\n")) + 1
	}
	return found
}

// isLeftAlone reports whether a line of the document disables the substitution.
func isLeftAlone(document []byte) bool {
	for line := range bytes.Lines(document) {
		_, value, found := bytes.Cut(line, []byte(SubstituteAnnotation))
		if found && bytes.Contains(value, []byte(substituteDisabled)) {
			return true
		}
	}
	return false
}
