// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"regexp"
	"strings"

	"github.com/leatdev/leat/internal/kit/fielderr"
)

// AdminGroup is the group whose members may do everything.
const AdminGroup = "leat:admins"

// BreakGlassUser is who acts for people in an emergency, when they cannot sign in: a member of
// AdminGroup whose every call is on record.
const BreakGlassUser = "break-glass"

// Bounds of people and their bindings.
const (
	maxSubjectBytes = 253

	reservedPrefix   = "leat:"
	kubernetesPrefix = "system:"
)

var (
	// userName is the form of names that sign a person in anywhere: also names that others give, such
	// as mail addresses. There is no colon in it, so it is never one of Kubernetes' own.
	userName  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._@+-]*[A-Za-z0-9])?$`)
	groupName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._@+:/-]*[A-Za-z0-9])?$`)
)

// workloadName is a name that a trust rule makes: the rule's name, a colon, and what its template
// makes of claims.
var workloadName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?:[A-Za-z0-9]([A-Za-z0-9._@+:/-]*[A-Za-z0-9])?$`)

// validateSubject checks the name of a binding's subject: a person, or a workload.
func validateSubject(field, name string) error {
	if strings.Contains(name, ":") {
		if ValidateWorkload(name) == nil {
			return nil
		}
		return fielderr.New(field, "%q is no name of a workload: the name of a trust rule, a colon, letters, digits and ._@+:/-", name)
	}
	return validateUser(field, name)
}

func validateUser(field, name string) error {
	if len(name) > maxSubjectBytes || !userName.MatchString(name) {
		return fielderr.New(field, "%q is no name of a user: letters, digits and ._@+-, with a letter or digit at both ends", name)
	}
	return nil
}

// validateGroup refuses names that mean something to Leat or to Kubernetes, so that no person is in
// such a group by accident.
func validateGroup(field, name string) error {
	switch {
	case name == AdminGroup:
		return nil
	case strings.HasPrefix(name, reservedPrefix), strings.HasPrefix(name, kubernetesPrefix):
		return fielderr.New(field, "%q begins with %q, which is reserved; only %s may be named", name, strings.SplitAfter(name, ":")[0], AdminGroup)
	case len(name) > maxSubjectBytes || !groupName.MatchString(name):
		return fielderr.New(field, "%q is no name of a group: letters, digits and ._@+:/-, with a letter or digit at both ends", name)
	}
	return nil
}

// ValidatePerson checks a name that an identity provider gives to a person.
func ValidatePerson(name string) error { return validateUser("name", name) }

// ValidateForeignGroup checks the name of a group that an identity provider puts a person into. A
// name that means something to Leat or to Kubernetes is refused, leat:admins included.
func ValidateForeignGroup(name string) error {
	if name == AdminGroup {
		return fielderr.New("group", "%q is reserved", name)
	}
	return validateGroup("group", name)
}

// ValidateWorkload checks a name that a trust rule makes. The error names no field.
func ValidateWorkload(name string) error {
	if len(name) > maxSubjectBytes || !workloadName.MatchString(name) ||
		strings.HasPrefix(name, reservedPrefix) || strings.HasPrefix(name, kubernetesPrefix) {
		return fielderr.New("name", "is no name of a workload: at most %d letters, digits and ._@+:/-, with a letter or digit at both ends", maxSubjectBytes)
	}
	return nil
}
