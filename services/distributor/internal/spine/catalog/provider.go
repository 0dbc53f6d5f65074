// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/check"
)

const (
	maxTitle         = 64
	maxClientBytes   = 1024
	maxScopes        = 32
	maxScopeBytes    = 256
	maxPrefixBytes   = 64
	maxGroupMappings = 256
)

// Defaults and bounds of an identity provider's times.
const (
	// DefaultSession is how long a session lives where nothing is said, and the longest that it
	// may.
	DefaultSession = 12 * time.Hour
	// DefaultRenew is how often a provider is asked for a person's claims again.
	DefaultRenew = 15 * time.Minute

	minSession = 5 * time.Minute
	minRenew   = 5 * time.Minute
	maxRenew   = time.Hour
)

// IdentityProvider is an OpenID provider that people sign in with.
type IdentityProvider struct {
	Metadata
	Spec IdentityProviderSpec
}

// IdentityProviderSpec is how the hub speaks to a provider, and what it believes of its claims.
// Only the adapter that speaks to the provider reads it back with the client's secret.
//
// An update that leaves the secret out keeps the stored one.
type IdentityProviderSpec struct {
	// Title is the text that people see; empty: the name.
	Title string
	// Issuer is the URL that the provider's tokens name.
	Issuer   string
	ClientID string
	// ClientSecret is empty for a public client.
	ClientSecret secret.Text `json:"-"`
	// RemoveSecret removes the stored secret in an update. It is not stored.
	RemoveSecret bool `json:"-"`
	// Scopes are asked for beside openid and offline_access; none: profile and email.
	Scopes []string
	// UsernameClaim names people; empty: sub, with the provider's name in front.
	UsernameClaim string
	// GroupsClaim lists groups; empty: "groups".
	GroupsClaim string
	// GroupPrefix is put in front of each group; nil: the provider's name and a colon.
	GroupPrefix *string
	// Groups are groups of the hub by group of the provider, in place of the prefixed one.
	Groups map[string]string
	// Require are conditions that all must hold.
	Require []ClaimRequirement
	// Session is how long a session lives in all; zero: DefaultSession.
	Session time.Duration
	// Renew is how often claims are read again; zero: DefaultRenew.
	Renew time.Duration
	// CAPEM are certificates to trust instead of the system's; empty: the system's.
	CAPEM string
	// Suspended stops sign-ins. Sessions continue.
	Suspended bool
}

// Key implements Object.
func (p *IdentityProvider) Key() Key { return Key{KindIdentityProvider, p.Name} }

func (p *IdentityProvider) sameSpec(other Object) bool {
	o, ok := other.(*IdentityProvider)
	return ok && reflect.DeepEqual(p.Spec, o.Spec)
}

func (p *IdentityProvider) clone() Object { return new(*p) }

func (p *IdentityProvider) normalize() { p.Spec.normalize() }

func (p *IdentityProvider) settle(stored Object) error {
	have, _ := stored.(*IdentityProvider)
	return p.settleSecret(have)
}

func (p *IdentityProvider) reachable() error                              { return reachableIssuer(p.Spec.Issuer) }
func (p *IdentityProvider) checkReferences(context.Context, Reader) error { return nil }
func (p *IdentityProvider) checkSettled(context.Context, Reader) error    { return nil }
func (p *IdentityProvider) room(ProjectQuotas) Room                       { return Room{} }

func (p *IdentityProvider) secrets() map[string]any {
	if p.Spec.ClientSecret == "" {
		return nil
	}
	return map[string]any{"spec.clientSecret": p.Spec.ClientSecret}
}

func (p *IdentityProvider) changesRelease(Object) bool { return false }

// Place implements Object: it is the hub's.
func (p *IdentityProvider) Place() Place { return Place{} }

// Public returns the provider without its secret.
func (p *IdentityProvider) Public() *IdentityProvider {
	shown := *p
	shown.Spec.ClientSecret, shown.Spec.RemoveSecret = "", false
	return &shown
}

// ShownTitle returns what people are shown.
func (p *IdentityProvider) ShownTitle() string { return cmp.Or(p.Spec.Title, p.Name) }

// SessionLife returns how long a session lives in all.
func (s IdentityProviderSpec) SessionLife() time.Duration { return cmp.Or(s.Session, DefaultSession) }

// RenewEvery returns how often claims are read again.
func (s IdentityProviderSpec) RenewEvery() time.Duration { return cmp.Or(s.Renew, DefaultRenew) }

// settle gives the stored form to what has several spellings. It works on a clone.
func (s *IdentityProviderSpec) normalize() {
	if len(s.Groups) == 0 {
		s.Groups = nil
	}
	if len(s.Scopes) == 0 {
		s.Scopes = nil
	}
	if len(s.Require) == 0 {
		s.Require = nil
	}
	s.Groups, s.Scopes, s.Require = maps.Clone(s.Groups), slices.Clone(s.Scopes), slices.Clone(s.Require)
	s.Session, s.Renew = s.Session.Truncate(time.Microsecond), s.Renew.Truncate(time.Microsecond)
}

// settleSecret completes the secret from the stored provider, which is nil for a new one. It
// returns an error if the secret would then be sent to another issuer, or for another client, than
// it was given for.
func (p *IdentityProvider) settleSecret(stored *IdentityProvider) error {
	if stored != nil {
		if stored.Spec.Issuer != p.Spec.Issuer {
			return fielderr.New("spec.issuer", "is fixed to %q, because sessions depend on it; create another provider for %q", stored.Spec.Issuer, p.Spec.Issuer)
		}
		if p.Spec.ClientSecret == "" && !p.Spec.RemoveSecret && stored.Spec.ClientSecret != "" {
			if stored.Spec.ClientID != p.Spec.ClientID {
				return fielderr.New("spec.client_secret", "is required with another client_id: the stored one belongs to %q", stored.Spec.ClientID)
			}
			p.Spec.ClientSecret = stored.Spec.ClientSecret
		}
	}
	p.Spec.RemoveSecret = false
	return nil
}

// Validate implements Object.
func (p *IdentityProvider) Validate() error {
	s := p.Spec
	return cmp.Or(
		p.validate(KindIdentityProvider),
		check.Line("spec.title", s.Title, maxTitle),
		validateIssuer(s.Issuer),
		s.validateClient(),
		fielderr.Each("spec.scopes", "items", s.Scopes, maxScopes, validateScope),
		check.Line("spec.username_claim", s.UsernameClaim, maxClaimBytes),
		check.Line("spec.groups_claim", s.GroupsClaim, maxClaimBytes),
		p.validateGroups(),
		fielderr.Each("spec.require", "conditions", s.Require, maxRequirements, validateClaim),
		check.Within("spec.session", s.Session, minSession, DefaultSession),
		check.Within("spec.renew", s.Renew, minRenew, maxRenew),
		check.CA(s.CAPEM),
	)
}

func (s IdentityProviderSpec) validateClient() error {
	if s.ClientID == "" {
		return fielderr.New("spec.client_id", "is required: register the hub at the provider, with the redirect URI HUB/login/callback")
	}
	if len(s.ClientSecret) > maxClientBytes {
		return fielderr.New("spec.client_secret", "has %d bytes; at most %d are allowed", len(s.ClientSecret), maxClientBytes)
	}
	return check.Line("spec.client_id", s.ClientID, maxClientBytes)
}

func (p *IdentityProvider) validateGroups() error {
	s := p.Spec
	prefix := p.Name + ":"
	if s.GroupPrefix != nil {
		prefix = *s.GroupPrefix
	}
	if len(prefix) > maxPrefixBytes || prefix != "" && !groupName.MatchString(prefix+"x") {
		return fielderr.New("spec.group_prefix", "%q cannot begin the name of a group: at most %d letters, digits and ._@+:/-", prefix, maxPrefixBytes)
	}
	for _, reserved := range []string{reservedPrefix, kubernetesPrefix} {
		if strings.HasPrefix(prefix, reserved) {
			return fielderr.New("spec.group_prefix", "begins with %q, which is reserved; set another one, and name single groups under spec.groups", reserved)
		}
	}
	if len(s.Groups) > maxGroupMappings {
		return fielderr.New("spec.groups", "has %d items; at most %d are allowed", len(s.Groups), maxGroupMappings)
	}
	for _, theirs := range slices.Sorted(maps.Keys(s.Groups)) {
		at := "spec.groups[" + theirs + "]"
		if theirs == "" {
			return fielderr.New("spec.groups", "names a group of the provider that is empty")
		}
		if err := cmp.Or(check.Line("spec.groups", theirs, maxSubjectBytes), validateGroup(at, s.Groups[theirs])); err != nil {
			return err
		}
	}
	return nil
}

func validateScope(field, scope string) error {
	if scope == "" || len(scope) > maxScopeBytes || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }) {
		return fielderr.New(field, "%q is not a scope: at most %d printable characters without spaces", scope, maxScopeBytes)
	}
	return nil
}
