// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"maps"
	"slices"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/setmap"
)

// bindingIndex finds the bindings that name a person. It is not safe for concurrent use.
type bindingIndex struct {
	byUser, byGroup setmap.Map[string, *catalog.AccessBinding]
}

func newBindingIndex() *bindingIndex {
	return &bindingIndex{byUser: setmap.Map[string, *catalog.AccessBinding]{}, byGroup: setmap.Map[string, *catalog.AccessBinding]{}}
}

// put adds a binding. One of its name is removed before.
func (x *bindingIndex) put(binding *catalog.AccessBinding) {
	for _, user := range binding.Spec.Users {
		x.byUser.Add(user, binding)
	}
	for _, group := range binding.Spec.Groups {
		x.byGroup.Add(group, binding)
	}
}

// remove removes a binding that was put.
func (x *bindingIndex) remove(binding *catalog.AccessBinding) {
	for _, user := range binding.Spec.Users {
		x.byUser.Remove(user, binding)
	}
	for _, group := range binding.Spec.Groups {
		x.byGroup.Remove(group, binding)
	}
}

// of returns the bindings that name the person or one of its groups, by name.
func (x *bindingIndex) of(user string, groups []string) []*catalog.AccessBinding {
	found := map[*catalog.AccessBinding]struct{}{}
	maps.Copy(found, x.byUser[user])
	for _, group := range groups {
		maps.Copy(found, x.byGroup[group])
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b *catalog.AccessBinding) int { return cmp.Compare(a.Name, b.Name) })
}
