// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// Conflict is a field that a manifest sets to one value and that another manager holds at another.
type Conflict struct {
	Manager string
	// Field is the API server's name of it, such as .spec.containers[name="app"].image.
	Field string
}

// ConflictError is a Cluster's answer to an apply without force that sets fields of others, and what a run says about those that
// it leaves alone.
type ConflictError struct {
	*Problem

	Conflicts []Conflict
}

// Unwrap gives the problem.
func (e *ConflictError) Unwrap() error {
	return e.Problem
}

// Conflicting makes an error that names managers and fields. Of confidential objects it does not name items of lists: what they
// are called by are values, too.
func Conflicting(conflicts []Conflict, confidential bool) *ConflictError {
	const advice = "remove the fields from the manifest, or say in the service's policy (conflicts, ignore) whose they are"
	return &ConflictError{Problem: problemf(ApplyConflict, "%s; %s", whose(conflicts, confidential, "owns"), advice), Conflicts: conflicts}
}

// whose says which manager holds which fields.
func whose(conflicts []Conflict, confidential bool, verb string) string {
	const enough = 8
	var parts []string
	for _, manager := range managersOf(conflicts) {
		var names []string
		for _, c := range conflicts {
			if c.Manager == manager {
				names = append(names, fields.Legible(c.Field, confidential))
			}
		}
		slices.Sort(names)
		if len(names) > enough {
			names = append(names[:enough], fmt.Sprintf("%d more", len(names)-enough))
		}
		parts = append(parts, fmt.Sprintf("%s %s %s", manager, verb, strings.Join(names, ", ")))
	}
	return strings.Join(parts, "; ")
}

// managersOf lists the managers of conflicts, each once, in order.
func managersOf(conflicts []Conflict) []string {
	var all []string
	for _, c := range conflicts {
		all = append(all, c.Manager)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func namesOf(conflicts []Conflict) []string {
	var names []string
	for _, c := range conflicts {
		names = append(names, c.Field)
	}
	return names
}

// decided tells what became of an object, to whoever watches and to the log.
func (r *run) decided(ctx context.Context, ref inventory.Ref, what string) {
	r.engine.params.Logger.InfoContext(ctx, "decided about an object of others", slog.String("leat.service", r.service.Name),
		slog.String("object", ref.String()), slog.String("decision", what))
	r.tell(ref, what)
}
