// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"fmt"
	"strings"
)

// Position is a place in a file. A zero Line or Column is unknown.
type Position struct {
	File         string
	Line, Column int // counted from 1
}

// String returns "file:line:column", as far as known. Terminals and editors make a link of it.
func (p Position) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	default:
		return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	}
}

// Problem is one error in a document.
type Problem struct {
	Position Position
	Field    string // path such as spec.sources[0].path; empty for the whole document
	Message  string // the defect and, if known, what to write instead
}

// Error implements error: "fleet.yaml:7:5: spec.source: unknown field; did you mean "sources"?".
func (p Problem) Error() string {
	if p.Field == "" {
		return p.Position.String() + ": " + p.Message
	}
	return p.Position.String() + ": " + p.Field + ": " + p.Message
}

// Problems are all errors in some documents, in the order of the files. It is never empty.
type Problems []Problem

// Error implements error, one line a problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.Error()
	}
	return strings.Join(lines, "\n")
}
