// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"slices"

	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/check"
)

const maxUserGroups = 64

// User is a person whom the hub knows itself.
type User struct {
	Metadata
	Spec UserSpec
}

// UserSpec is the desired state of a user.
type UserSpec struct {
	// Description is a sentence for people.
	Description string
	// Groups that the user is in, rising, each once.
	Groups []string
}

// Key implements Object.
func (u *User) Key() Key { return Key{KindUser, u.Name} }

func (u *User) sameSpec(other Object) bool {
	o, ok := other.(*User)
	return ok && u.Spec.Description == o.Spec.Description && slices.Equal(u.Spec.Groups, o.Spec.Groups)
}

func (u *User) clone() Object { return new(*u) }

func (u *User) normalize()                                    { u.Spec.Groups = asSet(u.Spec.Groups) }
func (u *User) settle(Object) error                           { return nil }
func (u *User) reachable() error                              { return nil }
func (u *User) checkReferences(context.Context, Reader) error { return nil }
func (u *User) checkSettled(context.Context, Reader) error    { return nil }
func (u *User) room(ProjectQuotas) Room                       { return Room{} }
func (u *User) secrets() map[string]any                       { return nil }
func (u *User) changesRelease(Object) bool                    { return false }

// Place implements Object: it is the hub's.
func (u *User) Place() Place { return Place{} }

// Validate implements Object.
func (u *User) Validate() error {
	return cmp.Or(
		u.validate(KindUser),
		check.Description(u.Spec.Description),
		fielderr.Each("spec.groups", "items", u.Spec.Groups, maxUserGroups, validateGroup),
	)
}
