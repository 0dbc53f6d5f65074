// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/ext"
)

// self is the name of the object in an expression.
const self = "self"

// CompileError reports the defect in the text of an expression, and where.
type CompileError struct {
	// Line and Column point into the source, from 1.
	Line, Column int
	// Message describes the error, and the allowed values where that helps.
	Message string
}

// Error implements error.
func (e *CompileError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

func newEnvironment() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable(self, cel.DynType),
		cel.OptionalTypes(),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.EagerlyValidateDeclarations(true),
		cel.ParserExpressionSizeLimit(maxSource),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals()),
		ext.Strings(), ext.Lists(), ext.Sets(), ext.Math(), ext.Encoders(), ext.Regex(), ext.Bindings(), ext.TwoVarComprehensions(),
		cel.Lib(conditions{}), cel.Lib(quantities{}),
	)
}

// explain returns an error for the first issue. Later issues are often consequences of it.
func explain(issues *cel.Issues) error {
	first := issues.Errors()[0]
	return &CompileError{Line: first.Location.Line(), Column: first.Location.Column() + 1, Message: first.Message + hint(first.Message)}
}

// topLevel are the fields that people write without self, because other tools allow that.
var topLevel = []string{"apiVersion", "kind", "metadata", "spec", "status", "data", "object", "obj", "resource", "this"}

func hint(message string) string {
	rest, found := strings.CutPrefix(message, "undeclared reference to '")
	if !found {
		return ""
	}
	name, _, _ := strings.Cut(rest, "'")
	switch i := slices.Index(topLevel, name); {
	case i < 0:
		return "; the only variable is self, the object"
	case i < slices.Index(topLevel, "object"):
		return "; the only variable is self, the object: write self." + name
	default:
		return "; the object is called self"
	}
}

const (
	// maxSource bounds the text of an expression, in code points.
	maxSource = 16 << 10
	// maxCost bounds the cost of one evaluation in CEL's own unit. A typical rule costs less than a
	// hundred. The most expensive evaluations, of regular expressions that differ each time, take
	// some 150 ms. WithBudget bounds many evaluations together.
	maxCost = 100_000
	// interruptEvery is the number of comprehension steps between two checks of the context.
	interruptEvery = 100
)

// Expression is a compiled expression. It is safe for concurrent use, and immutable except its
// memory: see Remembering.
type Expression struct {
	source    string
	kind      Kind
	limit     uint64 // of the cost of one evaluation
	program   cel.Program
	positions *ast.SourceInfo // of the nodes that CEL's errors name
	paths     [][]string      // see Paths
	reads     [][]string      // see readsOf
	memory    *memory         // nil: nothing is remembered
}
