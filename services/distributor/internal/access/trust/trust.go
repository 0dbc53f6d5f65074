// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package trust decides which workloads a trust rule lets in, and as whom.
//
// # Promises
//
// A token lets its bearer in if a rule names its issuer and an audience of it, the issuer's key has
// signed it, its times are right, and its claims meet every condition of the rule. The name that the
// bearer gets begins with the rule's, and two workloads with different claims in it have different
// names. If several rules accept a token, the bearer has to name one of them.
//
// A refusal describes a rule only to a bearer whose token the rule's issuer has signed for the rule's
// audience, and then it describes that rule alone. All others learn that no rule accepts the token.
//
// A token may be exchanged again until it ends, as RFC 8693 allows: nothing is stored.
//
// # What it does not do
//
// It speaks to no issuer, verifies no signature, and decides nothing about rights: packages oidclogin,
// fleet and authz do. Its types are safe for concurrent use.
package trust

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/leatdev/leat/internal/contract/expression"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// MaxToken bounds a token, in bytes.
	MaxToken = 16 << 10
	// maxRules bounds the rules that are tried for a token whose bearer names none.
	maxRules = 64
	// maxCost bounds what the expressions of all rules that are tried for one token may cost together, in
	// CEL's own unit. An ordinary one costs less than a hundred.
	maxCost = 100_000
	// maxCompiled bounds the compiled expressions that are kept.
	maxCompiled = 1024
)

var (
	// ErrToken means that the keys of a rule's issuer did not sign the token, or that it is not one.
	ErrToken = errors.New("the token is malformed, or not signed by the issuer")
	// ErrUnavailable means that the issuer's keys are not known and cannot be read now.
	ErrUnavailable = errors.New("the keys of the token's issuer cannot be read now")
)

// Claims are the content of a token, once its signature is verified.
type Claims struct {
	Issuer, Subject string
	Audience        []string
	// IssuedAt and ExpiresAt are zero if the token has none, and so is NotBefore.
	IssuedAt, NotBefore, ExpiresAt time.Time
	// Values are all claims by name, as JSON decodes them.
	Values map[string]any
}

// Verifier verifies signatures; oidclogin.Issuers implements it. It is safe for concurrent use.
type Verifier interface {
	// Issuer returns the issuer that an unverified token names. Error: ErrToken.
	Issuer(token string) (string, error)
	// Verify returns the claims of a token that the rule's issuer has signed. Errors: ErrToken,
	// ErrUnavailable.
	Verify(ctx context.Context, rule *catalog.TrustRule, token string) (Claims, error)
}

// View is this replica's copy of the catalog; fleet.TrustRules implements it.
type View interface {
	// TrustRule returns a rule by its name.
	TrustRule(name string) (*catalog.TrustRule, bool)
	// TrustRules returns rules that trust an issuer, and no more than limit of them.
	TrustRules(issuer string, limit int) []*catalog.TrustRule
	// Look refreshes the copy.
	Look(ctx context.Context)
}

// RefusedError is why a token is refused. Its text is for the bearer.
type RefusedError struct {
	Message string
	// Rule is the rule that the text is about. Empty: it is about none.
	Rule string
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Message }

func refuse(format string, args ...any) error {
	return &RefusedError{Message: fmt.Sprintf(format, args...)}
}

// Pass is a workload that is let in.
type Pass struct {
	Rule *catalog.TrustRule
	// Name is the user's.
	Name string
	// Claims are recorded with the workload's actions: iss, sub, and the ones that the rule chooses.
	Claims map[string]string
	Life   time.Duration
}

// Params are a Desk's collaborators, all required.
type Params struct {
	View     View
	Verifier Verifier
	Logger   *slog.Logger
}

// Desk lets workloads in. It is safe for concurrent use.
type Desk struct {
	p        Params
	compiled *lru.Cache[string, *expression.Expression] // by credential of the rule
}

// NewDesk returns a Desk.
func NewDesk(p Params) *Desk {
	compiled, _ := lru.New[string, *expression.Expression](maxCompiled) // fails only for a limit that is not positive
	return &Desk{p: p, compiled: compiled}
}

// verdict is the result of checking a token with the keys of an issuer.
type verdict struct {
	claims Claims
	err    error
}

// Admit returns what a token lets its bearer in as. The bearer may name a rule. Errors are a
// *RefusedError, match ErrUnavailable, or are the context's.
func (d *Desk) Admit(ctx context.Context, token secret.Text, rule string) (Pass, error) {
	if len(token) > MaxToken {
		return Pass{}, refuse("the subject_token has %d bytes; at most %d are allowed", len(token), MaxToken)
	}
	issuer, err := d.p.Verifier.Issuer(token.Reveal())
	if err != nil {
		return Pass{}, refuse("the subject_token is not a signed JWT")
	}
	rules, err := d.rulesFor(ctx, issuer, rule)
	if err != nil {
		return Pass{}, err
	}
	ctx = expression.WithBudget(ctx, maxCost)
	var found []Pass
	var addressed []error // refusals by rules that the token is meant for
	isAway := false
	type keySet struct{ ca, jwks string }
	verified := map[keySet]verdict{} // rules of one issuer mostly have the same keys, and a signature costs
	for _, rule := range rules {
		keys := keySet{rule.Spec.CAPEM, rule.Spec.JWKS}
		known, ok := verified[keys]
		if !ok {
			known.claims, known.err = d.p.Verifier.Verify(ctx, rule, token.Reveal())
			verified[keys] = known
		}
		claims, err := known.claims, known.err
		switch {
		case errors.Is(err, ErrUnavailable):
			isAway = true
			d.p.Logger.WarnContext(ctx, "keys of a trusted issuer not read", slog.String("rule", rule.Name), slog.Any("error", err))
			continue
		case errors.Is(err, ErrToken):
			continue
		case err != nil:
			return Pass{}, err
		}
		if !isFor(rule, claims) {
			continue
		}
		pass, err := d.admit(ctx, rule, claims, catalog.Now())
		switch refused, ok := errors.AsType[*RefusedError](err); {
		case ok:
			d.p.Logger.InfoContext(ctx, "trust rule refused a workload", slog.String("rule", rule.Name), slog.String("why", refused.Message))
			addressed = append(addressed, err)
		case err != nil:
			return Pass{}, err
		default:
			found = append(found, pass)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return Pass{}, refuse("several trust rules accept the token; name one of them with the parameter trust_rule")
	case isAway:
		return Pass{}, ErrUnavailable
	case len(addressed) == 1:
		return Pass{}, addressed[0]
	case len(addressed) > 1:
		return Pass{}, refuse("several trust rules are for this issuer and audience, and none accepts the token; name one with the parameter trust_rule to learn why")
	}
	return Pass{}, noRule(rule)
}

// rulesFor returns the rules to try. A rule that this replica does not know yet may be there.
func (d *Desk) rulesFor(ctx context.Context, issuer, name string) ([]*catalog.TrustRule, error) {
	find := func() []*catalog.TrustRule {
		if name == "" {
			return d.p.View.TrustRules(issuer, maxRules+1)
		}
		if rule, ok := d.p.View.TrustRule(name); ok && rule.Spec.Issuer == issuer {
			return []*catalog.TrustRule{rule}
		}
		return nil
	}
	rules := find()
	if len(rules) == 0 {
		d.p.View.Look(ctx)
		rules = find()
	}
	switch {
	case len(rules) == 0:
		return nil, noRule(name)
	case len(rules) > maxRules:
		return nil, refuse("more than %d trust rules are for the token's issuer; name one with the parameter trust_rule", maxRules)
	}
	return rules, nil
}

// noRule is the refusal that describes no rule: not even whether one is for the issuer.
func noRule(name string) error {
	if name != "" {
		return refuse("the hub has no trust rule %q for tokens of this issuer, key and audience", shortened(name))
	}
	return refuse("the hub has no trust rule for tokens of this issuer, key and audience")
}

// admit returns what a rule lets a token in as, whose signature and audience are verified.
func (d *Desk) admit(ctx context.Context, rule *catalog.TrustRule, claims Claims, at time.Time) (Pass, error) {
	pass, err := decide(rule, claims, at)
	if err != nil || rule.Spec.Expression == "" {
		return pass, err
	}
	condition, err := d.expressionOf(rule)
	if err != nil {
		return Pass{}, err
	}
	holds, err := condition.Holds(ctx, claims.Values)
	switch {
	case ctx.Err() != nil:
		return Pass{}, ctx.Err()
	case errors.Is(err, expression.ErrMissing):
		return Pass{}, refuseBy(rule, "its expression reads a claim that the token does not have")
	case err != nil:
		return Pass{}, refuseBy(rule, "its expression cannot be evaluated for the token's claims")
	case !holds:
		return Pass{}, refuseBy(rule, "its expression is not true for the token's claims")
	}
	return pass, nil
}

func (d *Desk) expressionOf(rule *catalog.TrustRule) (*expression.Expression, error) {
	key := rule.Credential()
	if known, ok := d.compiled.Get(key); ok {
		return known, nil
	}
	made, err := expression.Compile(rule.Spec.Expression, expression.Bool)
	if err != nil {
		return nil, fmt.Errorf("compile expression of trust rule %s: %w", rule.Name, err)
	}
	d.compiled.Add(key, made)
	return made, nil
}
