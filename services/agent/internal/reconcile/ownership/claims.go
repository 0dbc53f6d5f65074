// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"unique"

	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// claims record the owners of objects within this process: the first service to take an object
// keeps it. The registry's lock guards them. The zero claims are ready to use.
type claims struct {
	owners inventory.Index[unique.Handle[string]] // names of services; each name is stored once
}

// take gives an object to a service unless another one has it, and returns the owner.
func (c *claims) take(k inventory.Key, service string) (owner string) {
	if owner := c.owners.At(k); owner != nil {
		return owner.Value()
	}
	c.owners.Put(k, unique.Make(service))
	return service
}

// move gives an object from one service, or from none, to another, and reports whether the first
// had it.
func (c *claims) move(k inventory.Key, from, to string) bool {
	owner := c.owners.At(k)
	switch {
	case owner == nil && from == "":
		c.owners.Put(k, unique.Make(to))
	case owner == nil || owner.Value() != from:
		return false
	default:
		*owner = unique.Make(to)
	}
	return true
}

// owner returns the service that has an object, or "".
func (c *claims) owner(k inventory.Key) string {
	if owner := c.owners.At(k); owner != nil {
		return owner.Value()
	}
	return ""
}

// drop removes the owner of an object, if it is the service.
func (c *claims) drop(k inventory.Key, service string) {
	if owner := c.owners.At(k); owner != nil && owner.Value() == service {
		c.owners.Remove(k)
	}
}

func (c *claims) dropAll(service string) {
	c.owners.RemoveFunc(func(_ inventory.Key, owner *unique.Handle[string]) bool { return owner.Value() == service })
}
