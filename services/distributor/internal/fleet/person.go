// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Person is a person whose rights can be asked for: by the bindings that name them, and as far as
// the credential of their call goes. Only AdmitPerson makes the Person of a caller, so no call can
// forget the limit of a token. The zero Person may do nothing.
type Person struct {
	id identity.Identity
	// limit is the limit of the person's API token, which ends then. Nil: there is none.
	limit *catalog.TokenLimit
	ends  time.Time
}

// Named returns the person of a name in some groups, whatever credential they come with: for
// questions about others, and never for the caller.
func Named(name string, groups []string) Person {
	return Person{id: identity.Identity{Kind: identity.KindUser, Name: name, Groups: groups}}
}

// Identity returns who the person is, with the groups that they have now.
func (p Person) Identity() identity.Identity { return p.id }

// Limit returns the limit of the person's API token, and when that ends. Nil: it has none.
func (p Person) Limit() (limit *catalog.TokenLimit, ends time.Time) { return p.limit, p.ends }
