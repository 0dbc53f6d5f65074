// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// ProviderStatus is the state of an identity provider.
type ProviderStatus struct {
	// Sessions counts the sessions that began with it and have not ended.
	Sessions int
}

// Session returns a session by its id, also a pending one. It may have ended.
func (a Accounts) Session(id string) (catalog.Session, bool) {
	c := a.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	s, ok := c.contents.sessions[id]
	return s, ok
}

// LiveSessions counts the sessions that people use, by their clients.
func (a Accounts) LiveSessions() map[catalog.SessionClient]int {
	c := a.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	at, live := catalog.Now(), map[catalog.SessionClient]int{}
	for _, s := range c.contents.sessions {
		if !s.Pending && !s.Expired(at) {
			live[s.Client]++
		}
	}
	return live
}

// Provider returns an identity provider by its name, without its secret.
func (a Accounts) Provider(name string) (*catalog.IdentityProvider, bool) {
	return named(a.Catalog, a.Catalog.contents.providers, name)
}

// Providers returns the identity providers that people can sign in with, by name.
func (a Accounts) Providers() []*catalog.IdentityProvider {
	c := a.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	var open []*catalog.IdentityProvider
	for _, p := range c.contents.providers.all() {
		if !p.Spec.Suspended {
			open = append(open, p)
		}
	}
	return open
}

// AccessRequests returns people's requests for access, by name.
func (a Accounts) AccessRequests() []*catalog.AccessRequest {
	c := a.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.contents.requests.all()
}

func (a Accounts) providerStatus(provider *catalog.IdentityProvider) ProviderStatus {
	c := a.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	at, s := catalog.Now(), ProviderStatus{}
	for _, session := range c.contents.sessions {
		if session.ProviderUID == provider.UID && !session.Pending && !session.Expired(at) {
			s.Sessions++
		}
	}
	return s
}
