// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/objectname"
)

// Use is a place where a document names an object whose content is then delivered: a repository, a set
// of configuration, or an entry of a back end. The people who write the document obtain the content,
// so they need the permission to use it.
type Use struct {
	// Key is the key of the object. The name of a set has the letter x in the place of facts, which
	// are not allowed in the name of its project.
	Key Key
	// Project is the project of the document.
	Project string
	// Field is the field of the document.
	Field string
	// part tells uses of one object apart. Empty: the object as a whole is used.
	part string
}

// Permission returns the permission that the editor needs.
func (u Use) Permission() Permission {
	return Permission{Verb: VerbUse, Resource: ResourceOf(u.Key.Kind)}
}

// IsForeign reports whether the object belongs to another project than the document.
func (u Use) IsForeign() bool {
	return u.Key.Kind.InProject() && objectname.Project(u.Key.Name) != u.Project
}

// NewUses returns the uses that are not among the known ones.
//
// Facts are compared by their names. Their values are the administrators' of the cluster to change.
func NewUses(known, uses []Use) []Use {
	return slices.DeleteFunc(slices.Clone(uses), func(use Use) bool {
		return slices.ContainsFunc(known, func(other Use) bool { return use.Key == other.Key && use.part == other.part })
	})
}

// UseOfReference returns what a reference of a configuration uses, in a document of the project. ok is
// false if it names an object of a cluster, which the agent reads with the rights of the service's
// account. Validation has refused everything that is not a reference.
func UseOfReference(project, field, text string) (use Use, ok bool) {
	use = Use{Project: project, Field: field}
	if IsHubReference(text) {
		reference, err := ParseHubReference(replaceFacts(text, "x"), project)
		other, err2 := ParseHubReference(replaceFacts(text, "y"), project)
		if use.Key = (Key{KindConfigSet, reference.Set}); reference.Set != other.Set {
			use.part = text // facts decide which set it is
		}
		return use, err == nil && err2 == nil
	}
	reference, err := ParseReference(withoutFacts(text))
	use.Key, use.part = Key{KindConfigBackend, reference.Backend}, strings.TrimSuffix(text, "?")
	return use, err == nil && !reference.IsInCluster()
}
