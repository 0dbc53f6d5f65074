// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"slices"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// people are the users, their tokens, and the bindings of both users and groups. The View's lock guards them.
type people struct {
	users    map[string]*catalog.User
	tokens   map[string]catalog.Token
	bindings map[string]*catalog.AccessBinding
	// byUser and byGroup find the bindings that name a subject.
	byUser, byGroup map[string]map[string]*catalog.AccessBinding
}

func newPeople() *people {
	return &people{
		users: map[string]*catalog.User{}, tokens: map[string]catalog.Token{}, bindings: map[string]*catalog.AccessBinding{},
		byUser: map[string]map[string]*catalog.AccessBinding{}, byGroup: map[string]map[string]*catalog.AccessBinding{},
	}
}

func (p *people) everyone(each func(catalog.Object)) {
	for _, user := range p.users {
		each(user)
	}
	for _, binding := range p.bindings {
		each(binding)
	}
}

// removeUser removes a user and the user's tokens, which went with it in the store.
func (p *people) removeUser(user *catalog.User) {
	delete(p.users, user.Name)
	maps.DeleteFunc(p.tokens, func(_ string, token catalog.Token) bool { return token.UserUID == user.UID })
}

func (p *people) putBinding(binding *catalog.AccessBinding) {
	if old := p.bindings[binding.Name]; old != nil {
		p.removeBinding(old)
	}
	p.bindings[binding.Name] = binding
	for _, user := range binding.Spec.Users {
		put(p.byUser, user, binding)
	}
	for _, group := range binding.Spec.Groups {
		put(p.byGroup, group, binding)
	}
}

func put(index map[string]map[string]*catalog.AccessBinding, subject string, binding *catalog.AccessBinding) {
	if index[subject] == nil {
		index[subject] = map[string]*catalog.AccessBinding{}
	}
	index[subject][binding.Name] = binding
}

func (p *people) removeBinding(binding *catalog.AccessBinding) {
	delete(p.bindings, binding.Name)
	for _, user := range binding.Spec.Users {
		drop(p.byUser, user, binding)
	}
	for _, group := range binding.Spec.Groups {
		drop(p.byGroup, group, binding)
	}
}

func drop(index map[string]map[string]*catalog.AccessBinding, subject string, binding *catalog.AccessBinding) {
	delete(index[subject], binding.Name)
	if len(index[subject]) == 0 {
		delete(index, subject)
	}
}

// of returns the bindings that name the person, by name.
func (p *people) of(user string, groups []string) []*catalog.AccessBinding {
	found := maps.Clone(p.byUser[user])
	if found == nil {
		found = map[string]*catalog.AccessBinding{}
	}
	for _, group := range groups {
		maps.Copy(found, p.byGroup[group])
	}
	bindings := make([]*catalog.AccessBinding, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		bindings = append(bindings, found[name])
	}
	return bindings
}

// takePeople takes over changes of people. The caller holds the lock.
func (v *View) takePeople(d *dirt, changes catalog.Changes) {
	for _, user := range changes.Users {
		if v.people.users[user.Name] == nil {
			delete(v.sorted, catalog.KindUser)
		}
		v.people.users[user.Name] = user
		d.object(user.Key())
	}
	for _, binding := range changes.Bindings {
		if v.people.bindings[binding.Name] == nil {
			delete(v.sorted, catalog.KindAccessBinding)
		}
		v.people.putBinding(binding)
		d.object(binding.Key())
	}
	for _, token := range changes.Tokens {
		v.people.tokens[token.ID] = token
	}
}

// BindingStatus is what is known of a binding.
type BindingStatus struct {
	// Clusters counts those that it covers.
	Clusters int
	Expired  bool
}

func (v *View) bindingStatus(binding *catalog.AccessBinding) BindingStatus {
	s := BindingStatus{Expired: binding.Expired(now())}
	for _, cluster := range v.clusters {
		if binding.Spec.Clusters.Covers(cluster) {
			s.Clusters++
		}
	}
	return s
}

// User returns a user by name.
func (v *View) User(name string) (*catalog.User, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	user, ok := v.people.users[name]
	return user, ok
}

// TokenLives tells whether there is an API token of that id, and it is the user's and has not ended.
func (v *View) TokenLives(id, userUID string, at time.Time) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	token, ok := v.people.tokens[id]
	return ok && token.UserUID == userUID && !token.Expired(at)
}
