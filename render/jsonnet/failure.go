// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package jsonnet

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-jsonnet"
	"github.com/google/go-jsonnet/ast"

	"github.com/leatdev/leat/render"
)

const (
	// maxCallers bounds the places of callers in a message.
	maxCallers = 5
	// maxMessage bounds the bytes of a message, which may hold a whole manifest.
	maxMessage = 4 << 10
	// tooDeep is the library's message about calls within calls.
	tooDeep = "max stack frames exceeded."
)

// formatter keeps the error that the library passes to the formatter of its messages: the library's
// own results are texts without positions.
type formatter struct {
	file    string // the evaluated one, for errors without a position
	failure error
}

// Format implements jsonnet.ErrorFormatter.
func (f *formatter) Format(err error) string {
	f.failure = explain(f.file, err)
	return f.failure.Error()
}

// SetMaxStackTraceSize implements jsonnet.ErrorFormatter.
func (*formatter) SetMaxStackTraceSize(int) {}

// SetColorFormatter implements jsonnet.ErrorFormatter.
func (*formatter) SetColorFormatter(jsonnet.ColorFormatter) {}

// explain returns an error of the library with its position: the innermost one that is in a file.
func explain(file string, err error) error {
	if failure, ok := errors.AsType[jsonnet.RuntimeError](err); ok {
		places := placesOf(failure.StackTrace)
		if failure.Msg == tooDeep {
			return &render.LimitError{
				Path: first(places, file), Limit: render.LimitDepth,
				Message: fmt.Sprintf("functions call one another more than %d deep; end the recursion, or use std.foldl", maxStack),
			}
		}
		return &render.Error{Path: first(places, file), Cause: errors.New(shortened(failure.Msg) + calledFrom(places))}
	}
	// Errors of the parser have a position, in an internal type.
	if static, ok := err.(interface { //nolint:errorlint // the library returns it bare
		error
		Loc() ast.LocationRange
	}); ok {
		at := static.Loc()
		return &render.Error{Path: placeOf(at), Cause: errors.New(shortened(strings.TrimPrefix(static.Error(), at.String()+" ")))}
	}
	text, _, _ := strings.Cut(err.Error(), "\ngoroutine ") // a panic in the library comes with its stack
	return &render.Error{Path: file, Cause: errors.New(shortened(text))}
}

// placesOf returns the places of a stack that are in files, the innermost first, each once.
func placesOf(stack []jsonnet.TraceFrame) []string {
	var places []string
	for i := len(stack) - 1; i >= 0; i-- {
		at := stack[i].Loc
		if !at.IsSet() || at.File == nil || strings.HasPrefix(string(at.File.DiagnosticFileName), "<") {
			continue // such as the standard library, <std>
		}
		if place := placeOf(at); len(places) == 0 || places[len(places)-1] != place {
			places = append(places, place)
		}
	}
	return places
}

func placeOf(at ast.LocationRange) string {
	if !at.IsSet() || at.File == nil {
		return at.FileName
	}
	return fmt.Sprintf("%s:%d:%d", at.File.DiagnosticFileName, at.Begin.Line, at.Begin.Column)
}

func first(places []string, otherwise string) string {
	if len(places) == 0 {
		return otherwise
	}
	return places[0]
}

func calledFrom(places []string) string {
	if len(places) < 2 {
		return ""
	}
	callers, more := places[1:], ""
	if len(callers) > maxCallers {
		callers, more = callers[:maxCallers], ", …"
	}
	return "; called from " + strings.Join(callers, ", ") + more
}

func shortened(text string) string {
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}
