// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/expression"
	"github.com/leatdev/leat/internal/fielderr"
)

// Bounds of a trust rule.
const (
	maxAudienceBytes    = 1024
	maxUserTemplate     = 256
	maxTrustGroups      = 16
	maxRecorded         = 16
	maxTrustExpression  = 4 << 10
	minTrustLifetime    = time.Minute
	maxTrustLifetime    = time.Hour
	maxTrustKeySetBytes = 64 << 10
)

// workloadName is a name that a trust rule makes: the rule's name, a colon, and what its template
// makes of claims.
var workloadName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?:[A-Za-z0-9]([A-Za-z0-9._@+:/-]*[A-Za-z0-9])?$`)

// Validate implements Object.
func (r *TrustRule) Validate() error {
	s := r.Spec
	return cmp.Or(
		r.validate(KindTrustRule),
		r.validateRuleName(),
		validateDescription(s.Description),
		validateIssuer(s.Issuer),
		s.validateAudience(),
		fielderr.Each("spec.require", "conditions", s.Require, maxRequirements, validateClaim),
		s.validateExpression(),
		s.validateUser(),
		fielderr.Each("spec.groups", "items", s.Groups, maxTrustGroups, validateTrustGroup),
		fielderr.Each("spec.record", "items", s.Record, maxRecorded, validateRecorded),
		validateWithin("spec.lifetime", s.Lifetime, minTrustLifetime, maxTrustLifetime),
		validateCA(s.CAPEM),
		s.validateKeySet(),
	)
}

// validateRuleName refuses names that would make users of Kubernetes' or of Leat's own.
func (r *TrustRule) validateRuleName() error {
	if prefix := r.UserPrefix(); prefix == reservedPrefix || prefix == kubernetesPrefix {
		return fielderr.New("metadata.name", "%q is reserved, because the names of the rule's users would begin with %q; choose another name", r.Name, prefix)
	}
	return nil
}

func (s TrustRuleSpec) validateAudience() error {
	if s.Audience == "" {
		return fielderr.New("spec.audience", "is required: what the tokens are issued for, such as the hub's own URL")
	}
	return validateLine("spec.audience", s.Audience, maxAudienceBytes)
}

func (s TrustRuleSpec) validateExpression() error {
	if s.Expression == "" {
		if len(s.Require) == 0 {
			return fielderr.New("spec.require", "is required, or an expression: without a condition, everybody who can obtain a token from the issuer gets in")
		}
		return nil
	}
	if len(s.Expression) > maxTrustExpression {
		return fielderr.New("spec.expression", "has %d bytes; at most %d are allowed", len(s.Expression), maxTrustExpression)
	}
	if _, err := expression.Compile(s.Expression, expression.Bool); err != nil {
		return fielderr.New("spec.expression", "%v; self holds the claims", err)
	}
	return nil
}

func (s TrustRuleSpec) validateUser() error {
	if len(s.User) > maxUserTemplate {
		return fielderr.New("spec.user", "has %d bytes; at most %d are allowed", len(s.User), maxUserTemplate)
	}
	template, err := ParseUserTemplate(cmp.Or(s.User, DefaultTrustUser))
	if err != nil {
		return fielderr.New("spec.user", "%v", err)
	}
	sample, err := template.Fill(slices.Repeat([]string{"x"}, len(template.claims)))
	if err == nil && !workloadName.MatchString("rule:"+sample) {
		return fielderr.New("spec.user", "makes no name: letters, digits and ._@+:/- are allowed beside claims, with a claim, a letter or a digit at both ends")
	}
	return nil
}

func validateTrustGroup(field, name string) error {
	if name == AdminGroup {
		return fielderr.New(field, "%q is reserved; bind the rule's users or a group of another name to the role admin", name)
	}
	return validateGroup(field, name)
}

func validateRecorded(field, claim string) error {
	if claim == "" || strings.ContainsAny(claim, "= ") {
		return fielderr.New(field, "%q is not the name of a claim that can go on record", claim)
	}
	return validateLine(field, claim, maxClaimBytes)
}

// validateKeySet checks the form of the keys. Which of them count is decided where they are used.
func (s TrustRuleSpec) validateKeySet() error {
	if s.JWKS == "" {
		return nil
	}
	if len(s.JWKS) > maxTrustKeySetBytes {
		return fielderr.New("spec.jwks", "has %d bytes; at most %d are allowed", len(s.JWKS), maxTrustKeySetBytes)
	}
	if s.CAPEM != "" {
		return fielderr.New("spec.ca_pem", "has no meaning with jwks: the hub does not ask the issuer; leave out one of them")
	}
	var set struct {
		Keys []struct {
			Kid     string `json:"kid"`
			Private string `json:"d"`
			Secret  string `json:"k"`
		} `json:"keys"`
	}
	if err := json.Unmarshal([]byte(s.JWKS), &set); err != nil || len(set.Keys) == 0 {
		return fielderr.New("spec.jwks", `is not a key set: {"keys": [...]}`)
	}
	for i, key := range set.Keys {
		if key.Private != "" || key.Secret != "" {
			return fielderr.New("spec.jwks", "holds a private key at keys[%d]; write public keys alone", i)
		}
		if key.Kid == "" {
			return fielderr.New("spec.jwks", "holds a key without a kid at keys[%d]; tokens name their key by it", i)
		}
	}
	return nil
}

// ValidateWorkload checks a name that a trust rule makes. The error names no field.
func ValidateWorkload(name string) error {
	if len(name) > maxSubjectBytes || !workloadName.MatchString(name) ||
		strings.HasPrefix(name, reservedPrefix) || strings.HasPrefix(name, kubernetesPrefix) {
		return fielderr.New("name", "is no name of a workload: at most %d letters, digits and ._@+:/-, with a letter or digit at both ends", maxSubjectBytes)
	}
	return nil
}
