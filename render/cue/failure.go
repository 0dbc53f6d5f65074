// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cue

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	cueerrors "cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/token"

	"github.com/leatdev/leat/render"
)

const (
	// maxProblems bounds the errors of the library in one message, and maxPositions the places of each.
	maxProblems, maxPositions = 10, 4
	// maxMessage bounds the bytes of a message, which may hold a whole manifest.
	maxMessage = 4 << 10
)

// explain returns the library's errors as one, at the position of the first.
func (e *evaluation) explain(err error) error {
	place, texts := "", []string(nil)
	for _, problem := range cueerrors.Errors(err) {
		if len(texts) == maxProblems {
			texts = append(texts, "…")
			break
		}
		positions := positionsOf(problem)
		if len(texts) == 0 {
			place = e.place
			if len(positions) > 0 {
				place, positions = positions[0], positions[1:]
			}
		}
		texts = append(texts, describe(problem, positions))
	}
	message := strings.ReplaceAll(strings.Join(texts, "; "), root+"/", "")
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	return &render.Error{Path: place, Cause: errors.New(message)}
}

// inTree returns the path from the tree's root.
func inTree(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, root), "/")
}

// describe returns the message of an error, with the field and further positions.
func describe(problem cueerrors.Error, positions []string) string {
	text := strings.ReplaceAll(problem.Error(), "\n", " ")
	if len(positions) > 0 {
		text += " (" + strings.Join(positions, ", ") + ")"
	}
	return text
}

// positionsOf returns the places of an error that are in files, the primary one first.
func positionsOf(problem cueerrors.Error) []string {
	var places []string
	for _, position := range append([]token.Pos{problem.Position()}, problem.InputPositions()...) {
		if !position.IsValid() || len(places) == maxPositions {
			continue
		}
		at := position.Position()
		place := fmt.Sprintf("%s:%d:%d", inTree(at.Filename), at.Line, at.Column)
		if at.Filename != "" && !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	return places
}
