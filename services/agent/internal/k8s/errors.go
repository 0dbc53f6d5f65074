// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/fields"
)

// Sentinel errors of an API.
var (
	// ErrNotFound means that the cluster has no such object.
	ErrNotFound = errors.New("object not found")
	// ErrReplaced means that the object under that name does not have the given UID.
	ErrReplaced = errors.New("object was replaced by another of the same name")
)

// IgnoreNotFound returns err, or nil if err is ErrNotFound.
func IgnoreNotFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// IsUnknownKind reports whether a look-up of a kind, such as [Reader.Namespaced], failed because the
// cluster does not serve the kind. Objects that the cluster refuses have the same reason.
func IsUnknownKind(err error) bool {
	problem, ok := errors.AsType[*reason.Problem](err)
	return ok && problem.Reason == reason.ApplyRejected
}

// ImmutableError is the answer to an apply that changes an immutable field.
type ImmutableError struct {
	*reason.Problem

	// Fields are the immutable fields, as far as they are known.
	Fields []string
}

// Unwrap returns the problem.
func (e *ImmutableError) Unwrap() error { return e.Problem }

// Conflict is a field that a manifest sets to one value while another manager holds another value.
type Conflict struct {
	Manager string
	// Field is the API server's name of it, such as .spec.containers[name="app"].image.
	Field string
}

// ConflictError is the answer to an apply without force that sets fields of other managers.
type ConflictError struct {
	*reason.Problem

	Conflicts []Conflict
}

// Unwrap returns the problem.
func (e *ConflictError) Unwrap() error { return e.Problem }

// NewConflictError returns an error that names managers and fields. For a confidential object it
// does not name list items: their keys are values, too.
func NewConflictError(conflicts []Conflict, confidential bool) *ConflictError {
	const advice = "remove the fields from the manifest, or say in the service's policy (conflicts, ignore) whose they are"
	return &ConflictError{
		Problem:   reason.Errorf(reason.ApplyConflict, "%s; %s", DescribeConflicts(conflicts, confidential, "owns"), advice),
		Conflicts: conflicts,
	}
}

// DescribeConflicts names each manager with its fields: "MANAGER VERB FIELD, FIELD; MANAGER …".
func DescribeConflicts(conflicts []Conflict, confidential bool, verb string) string {
	const maxFields = 8
	var parts []string
	for _, manager := range managersOf(conflicts) {
		var names []string
		for _, c := range conflicts {
			if c.Manager == manager {
				names = append(names, fields.Legible(c.Field, confidential))
			}
		}
		slices.Sort(names)
		if len(names) > maxFields {
			names = append(names[:maxFields], fmt.Sprintf("%d more", len(names)-maxFields))
		}
		parts = append(parts, fmt.Sprintf("%s %s %s", manager, verb, strings.Join(names, ", ")))
	}
	return strings.Join(parts, "; ")
}

// managersOf returns the managers of conflicts, each once, sorted.
func managersOf(conflicts []Conflict) []string {
	var all []string
	for _, c := range conflicts {
		all = append(all, c.Manager)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// FieldsOf returns the fields of conflicts.
func FieldsOf(conflicts []Conflict) []string {
	var names []string
	for _, c := range conflicts {
		names = append(names, c.Field)
	}
	return names
}
