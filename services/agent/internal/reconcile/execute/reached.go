// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import "github.com/leatdev/leat/services/agent/internal/inventory"

// reached are the manifests that a run has reached.
type reached struct {
	desired inventory.Set // the objects of the service
	created inventory.Set // objects that the run only creates where they are missing
	hooks   inventory.Set
}

// has reports whether the run has reached a manifest with the key.
func (s *reached) has(k inventory.Key) bool {
	for _, all := range []inventory.Set{s.desired, s.created, s.hooks} {
		if _, isKnown := all.Get(k); isKnown {
			return true
		}
	}
	return false
}
