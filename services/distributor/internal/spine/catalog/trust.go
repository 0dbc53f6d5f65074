// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/expression"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/check"
)

// trustCredential begins the credential of an identity that came by a trust rule.
const trustCredential = "trust."

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

// DefaultTrustLifetime is how long a workload's access token lives by default.
const DefaultTrustLifetime = 15 * time.Minute

// TrustRule lets workloads in by the tokens that another system signs for them.
type TrustRule struct {
	Metadata
	Spec TrustRuleSpec
}

// TrustRuleSpec selects the accepted tokens, and the users they count for. Its JSON is its stored
// form.
type TrustRuleSpec struct {
	Description string `json:"description,omitempty"`
	// Issuer is the URL that the tokens name.
	Issuer string `json:"issuer"`
	// Audience is the required audience of the tokens.
	Audience string `json:"audience"`
	// Require are conditions that all must hold.
	Require []ClaimRequirement `json:"require,omitempty"`
	// Expression is a CEL expression over the claims that must be true; empty: none.
	Expression string `json:"expression,omitempty"`
	// User is the users' name behind the rule's name and a colon; empty: DefaultTrustUser. See
	// UserTemplate.
	User string `json:"user,omitempty"`
	// Groups are the users' groups.
	Groups []string `json:"groups,omitempty"`
	// Record are claims to record; none: DefaultTrustRecord.
	Record []string `json:"record,omitempty"`
	// Lifetime is the lifetime of access tokens; zero: DefaultTrustLifetime.
	Lifetime time.Duration `json:"lifetime,omitempty"`
	// CAPEM are certificates to trust instead of the system's; empty: the system's.
	CAPEM string `json:"caPem,omitempty"`
	// JWKS are the issuer's keys; empty: the hub reads them from the issuer.
	JWKS string `json:"jwks,omitempty"`
}

// DefaultTrustUser names a workload by the subject of its token.
const DefaultTrustUser = "{sub}"

// DefaultTrustRecord returns the claims to record where a rule names none: the ones by which GitHub
// and GitLab describe a job.
func DefaultTrustRecord() []string {
	return []string{"repository", "project_path", "ref", "run_id", "run_number", "pipeline_id", "job_id", "environment", "actor"}
}

// Key implements Object.
func (r *TrustRule) Key() Key { return Key{KindTrustRule, r.Name} }

func (r *TrustRule) sameSpec(other Object) bool {
	o, ok := other.(*TrustRule)
	return ok && reflect.DeepEqual(r.Spec, o.Spec)
}

func (r *TrustRule) clone() Object { return new(*r) }

// SpecAt implements Plain.
func (r *TrustRule) SpecAt() any { return &r.Spec }

func (r *TrustRule) normalize()          { r.Spec.normalize() }
func (r *TrustRule) settle(Object) error { return nil }

func (r *TrustRule) reachable() error {
	if r.Spec.JWKS != "" {
		return nil // the hub does not ask the issuer
	}
	return reachableIssuer(r.Spec.Issuer)
}

func (r *TrustRule) checkReferences(context.Context, Reader) error { return nil }
func (r *TrustRule) checkSettled(context.Context, Reader) error    { return nil }
func (r *TrustRule) room(ProjectQuotas) Room                       { return Room{} }
func (r *TrustRule) secrets() map[string]any                       { return nil }
func (r *TrustRule) changesRelease(Object) bool                    { return false }

// Place implements Object: it is the hub's.
func (r *TrustRule) Place() Place { return Place{} }

// normalize gives a spec its one stored form. It works on a clone.
func (s *TrustRuleSpec) normalize() {
	s.Groups = asSet(s.Groups)
	if s.Require = slices.Clone(s.Require); len(s.Require) == 0 {
		s.Require = nil
	}
	if s.Record = slices.Clone(s.Record); len(s.Record) == 0 {
		s.Record = nil
	}
	s.Lifetime = s.Lifetime.Truncate(time.Second)
}

// TokenLife returns how long access tokens live.
func (s TrustRuleSpec) TokenLife() time.Duration { return cmp.Or(s.Lifetime, DefaultTrustLifetime) }

// RecordedClaims returns the names of the claims to record.
func (s TrustRuleSpec) RecordedClaims() []string {
	if len(s.Record) == 0 {
		return DefaultTrustRecord()
	}
	return s.Record
}

// UserPrefix returns what the names of the rule's users begin with. Neither users of the hub nor
// people of identity providers have a colon in their names, and no rule's name has one, so no other
// rule and no provider makes such a name.
func (r *TrustRule) UserPrefix() string { return r.Name + ":" }

// RuleOfUser returns the name of the trust rule that makes a user's name, if one does.
func RuleOfUser(name string) (rule string, ok bool) {
	rule, _, ok = strings.Cut(name, ":")
	return rule, ok
}

// Credential returns what stands for the rule in access tokens that were obtained by it. It changes
// with the spec, so that a changed rule ends them.
func (r *TrustRule) Credential() string {
	return trustCredential + r.UID + "." + strconv.FormatInt(r.Generation, 10)
}

// IsTrustCredential reports whether a credential stands for a trust rule.
func IsTrustCredential(credential string) bool { return strings.HasPrefix(credential, trustCredential) }

// UserTemplate is a name with places for claims: literals[0] claims[0] literals[1] … The last literal
// may be empty, and those between two claims may not.
type UserTemplate struct {
	literals, claims []string
}

// Claims returns the names of the claims, in their order.
func (t UserTemplate) Claims() []string { return t.claims }

// ParseUserTemplate reads a text such as "{repository}@{environment}". The text of the error is for
// people.
func ParseUserTemplate(text string) (UserTemplate, error) {
	var t UserTemplate
	for {
		literal, rest, opens := strings.Cut(text, "{")
		if strings.Contains(literal, "}") {
			return t, fmt.Errorf("has a } without a { before it")
		}
		t.literals = append(t.literals, literal)
		if !opens {
			break
		}
		claim, after, closes := strings.Cut(rest, "}")
		switch {
		case !closes || claim == "" || strings.Contains(claim, "{"):
			return t, fmt.Errorf("has a { that does not begin a claim in braces")
		case len(t.claims) > 0 && literal == "":
			return t, fmt.Errorf("has nothing between {%s} and {%s}, so two workloads could have one name", t.claims[len(t.claims)-1], claim)
		}
		t.claims, text = append(t.claims, claim), after
	}
	if len(t.claims) == 0 {
		return t, fmt.Errorf("names no claim in braces, so all workloads would be one user")
	}
	return t, nil
}

// Fill returns the name for values of the claims. Different values make different names: a value that
// holds the text behind its place, so that another division of the name is possible, is refused. The
// error names the claim.
func (t UserTemplate) Fill(values []string) (string, error) {
	var b strings.Builder
	for i, value := range values {
		if next := t.literals[i+1]; i+1 < len(values) && strings.Index(value+next, next) != len(value) {
			return "", fmt.Errorf("the claim %s holds %q, which separates it from {%s} in the user's name", t.claims[i], next, t.claims[i+1])
		}
		b.WriteString(t.literals[i])
		b.WriteString(value)
	}
	b.WriteString(t.literals[len(values)])
	return b.String(), nil
}

// Validate implements Object.
func (r *TrustRule) Validate() error {
	s := r.Spec
	return cmp.Or(
		r.validate(KindTrustRule),
		r.validateRuleName(),
		check.Description(s.Description),
		validateIssuer(s.Issuer),
		s.validateAudience(),
		fielderr.Each("spec.require", "conditions", s.Require, maxRequirements, validateClaim),
		s.validateExpression(),
		s.validateUser(),
		fielderr.Each("spec.groups", "items", s.Groups, maxTrustGroups, validateTrustGroup),
		fielderr.Each("spec.record", "items", s.Record, maxRecorded, validateRecorded),
		check.Within("spec.lifetime", s.Lifetime, minTrustLifetime, maxTrustLifetime),
		check.CA(s.CAPEM),
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
	return check.Line("spec.audience", s.Audience, maxAudienceBytes)
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
	return check.Line(field, claim, maxClaimBytes)
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
