// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"crypto/x509"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/fielderr"
)

// Bounds of an identity provider.
const (
	maxTitle         = 64
	maxIssuerBytes   = 1024
	maxClientBytes   = 1024
	maxScopes        = 32
	maxScopeBytes    = 256
	maxClaimBytes    = 256
	maxPrefixBytes   = 64
	maxGroupMappings = 256
	maxRequirements  = 16
	maxClaimValues   = 64
	maxProviderCA    = 64 << 10
)

// Validate implements Object.
func (p *IdentityProvider) Validate() error {
	s := p.Spec
	return cmp.Or(
		p.validate(KindIdentityProvider),
		validateLine("spec.title", s.Title, maxTitle),
		validateIssuer(s.Issuer),
		s.validateClient(),
		fielderr.Each("spec.scopes", "items", s.Scopes, maxScopes, validateScope),
		validateLine("spec.username_claim", s.UsernameClaim, maxClaimBytes),
		validateLine("spec.groups_claim", s.GroupsClaim, maxClaimBytes),
		p.validateGroups(),
		fielderr.Each("spec.require", "conditions", s.Require, maxRequirements, validateClaim),
		validateWithin("spec.session", s.Session, minSession, DefaultSession),
		validateWithin("spec.renew", s.Renew, minRenew, maxRenew),
		validateCA(s.CAPEM),
	)
}

func (s IdentityProviderSpec) validateClient() error {
	if s.ClientID == "" {
		return fielderr.New("spec.client_id", "is required: register the hub at the provider, with the redirect URI HUB/login/callback")
	}
	if len(s.ClientSecret) > maxClientBytes {
		return fielderr.New("spec.client_secret", "has %d bytes; at most %d are allowed", len(s.ClientSecret), maxClientBytes)
	}
	return validateLine("spec.client_id", s.ClientID, maxClientBytes)
}

// validateIssuer checks the form of an issuer. Where it may be is decided when it is dialled.
func validateIssuer(issuer string) error {
	u, err := url.Parse(issuer)
	switch {
	case issuer == "":
		return fielderr.New("spec.issuer", "is required: the issuer's URL, such as https://accounts.example.com")
	case len(issuer) > maxIssuerBytes:
		return fielderr.New("spec.issuer", "has %d bytes; at most %d are allowed", len(issuer), maxIssuerBytes)
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "":
		return fielderr.New("spec.issuer", "%q is not the URL of an issuer: scheme, host and path", issuer)
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return fielderr.New("spec.issuer", "%q does not begin with https://, which is required of an issuer", issuer)
	}
	return nil
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// reachableIssuer refuses an issuer at the hub's own machine or link.
func reachableIssuer(issuer string) error {
	if host := hostOf(issuer); isLocal(host) {
		return fielderr.New("spec.issuer", "%q is an address of the hub's own machine or its link, which it does not dial", host)
	}
	return nil
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
		if err := cmp.Or(validateLine("spec.groups", theirs, maxSubjectBytes), validateGroup(at, s.Groups[theirs])); err != nil {
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

func validateClaim(field string, r ClaimRequirement) error {
	if r.Claim == "" {
		return fielderr.New(field+".claim", "is required")
	}
	if len(r.Values) == 0 {
		return fielderr.New(field+".values", "is required: the values of which the claim must have one")
	}
	return cmp.Or(
		validateLine(field+".claim", r.Claim, maxClaimBytes),
		fielderr.Each(field+".values", "items", r.Values, maxClaimValues, func(field, value string) error {
			return validateLine(field, value, maxIssuerBytes)
		}),
	)
}

func validateLine(field, text string, limit int) error {
	switch {
	case len(text) > limit:
		return fielderr.New(field, "has %d bytes; at most %d are allowed", len(text), limit)
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fielderr.New(field, "holds a control character")
	}
	return nil
}

func validateWithin(field string, d, least, most time.Duration) error {
	if d != 0 && (d < least || d > most) {
		return fielderr.New(field, "is %s; from %s to %s are allowed", d, least, most)
	}
	return nil
}

func validateCA(pem string) error {
	switch {
	case pem == "":
		return nil
	case len(pem) > maxProviderCA:
		return fielderr.New("spec.ca_pem", "has %d bytes; at most %d are allowed", len(pem), maxProviderCA)
	case !x509.NewCertPool().AppendCertsFromPEM([]byte(pem)):
		return fielderr.New("spec.ca_pem", "holds no PEM certificate")
	}
	return nil
}
