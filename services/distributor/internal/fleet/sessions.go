// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// ProviderStatus is what is known of an identity provider.
type ProviderStatus struct {
	// Sessions counts those that began with it and have not ended.
	Sessions int
}

// putSessionsLocked adds sessions. Those that ended by their time leave no tombstones, so they are
// forgotten here.
func (c *Catalog) putSessionsLocked(sessions []catalog.Session) {
	if len(sessions) == 0 {
		return
	}
	at := catalog.Now()
	maps.DeleteFunc(c.sessions, func(_ string, s catalog.Session) bool { return s.Expired(at) })
	for _, s := range sessions {
		if !s.Expired(at) {
			c.sessions[s.ID] = s
		}
	}
}

// dropSessionsLocked forgets the sessions that began with a provider. The store deleted them with
// it, without tombstones of their own.
func (c *Catalog) dropSessionsLocked(providerUID string) {
	maps.DeleteFunc(c.sessions, func(_ string, s catalog.Session) bool { return s.ProviderUID == providerUID })
}

// Session returns a session by its id, also a pending one. It may have ended.
func (c *Catalog) Session(id string) (catalog.Session, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s, ok := c.sessions[id]
	return s, ok
}

// LiveSessions counts the sessions that people use, by their clients.
func LiveSessions(v *View) map[catalog.SessionClient]int {
	c := v.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	at, live := catalog.Now(), map[catalog.SessionClient]int{}
	for _, s := range c.sessions {
		if !s.Pending && !s.Expired(at) {
			live[s.Client]++
		}
	}
	return live
}

// Provider returns an identity provider by its name, without its secret.
func (c *Catalog) Provider(name string) (*catalog.IdentityProvider, bool) {
	provider, ok := c.find(catalog.Key{Kind: catalog.KindIdentityProvider, Name: name}).(*catalog.IdentityProvider)
	return provider, ok
}

// Providers returns the identity providers that people can sign in with, by name.
func (c *Catalog) Providers() []*catalog.IdentityProvider {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var open []*catalog.IdentityProvider
	for _, name := range c.names[catalog.KindIdentityProvider].all() {
		if p, ok := c.objects[catalog.KindIdentityProvider][name].(*catalog.IdentityProvider); ok && !p.Spec.Suspended {
			open = append(open, p)
		}
	}
	return open
}

func (c *Catalog) providerStatus(provider *catalog.IdentityProvider) ProviderStatus {
	c.mu.RLock()
	defer c.mu.RUnlock()
	at, s := catalog.Now(), ProviderStatus{}
	for _, session := range c.sessions {
		if session.ProviderUID == provider.UID && !session.Pending && !session.Expired(at) {
			s.Sessions++
		}
	}
	return s
}
