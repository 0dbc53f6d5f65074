// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package authz

import (
	"fmt"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// DeniedError means that a person lacks a permission about an object that they may see, or about no
// object.
type DeniedError struct {
	Permission catalog.Permission
	// Key names the object. It is zero if the permission is about none.
	Key catalog.Key
	// Limit describes the limit of the token that the person uses; empty: it has none.
	Limit string
}

// Error implements error. It contains advice.
func (e *DeniedError) Error() string {
	about := ""
	if e.Key.Name != "" {
		about = fmt.Sprintf(" for %s", e.Key)
	}
	return fmt.Sprintf("you lack the permission %q%s; ask an administrator for a binding whose role has it%s", e.Permission, about, hintOf(e.Limit))
}

// hintOf returns what an error adds for a person whose token has a limit.
func hintOf(limit string) string {
	if limit == "" {
		return ""
	}
	return "; your API token gives no more than " + limit
}
