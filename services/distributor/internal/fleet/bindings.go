// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"slices"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// bindingIndex finds the bindings that name a person. It is not safe for concurrent use.
type bindingIndex struct {
	byUser, byGroup map[string]map[string]*catalog.AccessBinding
}

func newBindingIndex() *bindingIndex {
	return &bindingIndex{byUser: map[string]map[string]*catalog.AccessBinding{}, byGroup: map[string]map[string]*catalog.AccessBinding{}}
}

// put adds a binding. One of its name is removed before.
func (x *bindingIndex) put(binding *catalog.AccessBinding) {
	add := func(index map[string]map[string]*catalog.AccessBinding, subjects []string) {
		for _, subject := range subjects {
			if index[subject] == nil {
				index[subject] = map[string]*catalog.AccessBinding{}
			}
			index[subject][binding.Name] = binding
		}
	}
	add(x.byUser, binding.Spec.Users)
	add(x.byGroup, binding.Spec.Groups)
}

func (x *bindingIndex) remove(binding *catalog.AccessBinding) {
	drop := func(index map[string]map[string]*catalog.AccessBinding, subjects []string) {
		for _, subject := range subjects {
			delete(index[subject], binding.Name)
			if len(index[subject]) == 0 {
				delete(index, subject)
			}
		}
	}
	drop(x.byUser, binding.Spec.Users)
	drop(x.byGroup, binding.Spec.Groups)
}

// of returns the bindings that name the person or one of its groups, by name.
func (x *bindingIndex) of(user string, groups []string) []*catalog.AccessBinding {
	found := maps.Clone(x.byUser[user])
	if found == nil {
		found = map[string]*catalog.AccessBinding{}
	}
	for _, group := range groups {
		maps.Copy(found, x.byGroup[group])
	}
	bindings := make([]*catalog.AccessBinding, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		bindings = append(bindings, found[name])
	}
	return bindings
}
