// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// skew is how far an issuer's clock may differ.
	skew = 30 * time.Second
	// maxLife is the longest time between a token's iat and exp: the tokens of jobs are for the job.
	maxLife = 24 * time.Hour
	// maxSubject bounds a subject, in bytes.
	maxSubject = 512
	// maxRecordedValue bounds one claim on record, and maxRecorded all of them together, in bytes. The
	// access token holds them.
	maxRecordedValue = 256
	maxRecorded      = 2 << 10
	// exactInteger is the first integer that a float64 may stand for although another was meant.
	exactInteger = 1 << 53
)

// The claims that are always on record.
const (
	claimIssuer  = "iss"
	claimSubject = "sub"
)

// isFor reports whether a token is meant for a rule.
func isFor(rule *catalog.TrustRule, claims Claims) bool {
	return claims.Issuer == rule.Spec.Issuer && slices.Contains(claims.Audience, rule.Spec.Audience)
}

// decide returns what a rule lets a verified token in as, without the rule's expression. The error
// is a *RefusedError.
func decide(rule *catalog.TrustRule, claims Claims, at time.Time) (Pass, error) {
	if why := wrongTime(claims, at); why != "" {
		return Pass{}, refuseBy(rule, why)
	}
	if claims.Subject == "" || len(claims.Subject) > maxSubject {
		return Pass{}, refuseBy(rule, "the token has no sub, or one that is too long")
	}
	for _, requirement := range rule.Spec.Require {
		value, ok := claims.Values[requirement.Claim]
		if !ok {
			return Pass{}, refuseBy(rule, fmt.Sprintf("it requires the claim %s, which the token does not have", shortened(requirement.Claim)))
		}
		if !requirement.Meets(value) {
			return Pass{}, refuseBy(rule, fmt.Sprintf("it does not accept the token's claim %s, which is %s", shortened(requirement.Claim), shownValue(value)))
		}
	}
	name, err := nameOf(rule, claims)
	if err != nil {
		return Pass{}, err
	}
	return Pass{Rule: rule, Name: name, Claims: recorded(rule, claims), Life: rule.Spec.TokenLife()}, nil
}

// refuseBy refuses a token that is meant for the rule.
func refuseBy(rule *catalog.TrustRule, why string) error {
	return &RefusedError{Rule: rule.Name, Message: fmt.Sprintf("trust rule %s refuses the token: %s", rule.Name, why)}
}

// wrongTime returns the defect of the times of a token; "" if there is none.
func wrongTime(claims Claims, at time.Time) string {
	switch {
	case claims.ExpiresAt.IsZero() || claims.IssuedAt.IsZero():
		return "the token has no exp or no iat"
	case !at.Before(claims.ExpiresAt.Add(skew)):
		return "the token has expired; obtain a new one directly before the exchange"
	case claims.NotBefore.After(at.Add(skew)), claims.IssuedAt.After(at.Add(skew)):
		return "the token is not valid yet; compare the clocks of the hub and the issuer"
	case claims.ExpiresAt.Sub(claims.IssuedAt) > maxLife:
		return fmt.Sprintf("the token lives longer than %.0f hours; let the issuer make shorter ones", maxLife.Hours())
	}
	return ""
}

// nameOf returns the user's name.
func nameOf(rule *catalog.TrustRule, claims Claims) (string, error) {
	template, err := catalog.ParseUserTemplate(cmp.Or(rule.Spec.User, catalog.DefaultTrustUser))
	if err != nil {
		return "", refuseBy(rule, "its user is not valid; an administrator has to correct spec.user")
	}
	values := make([]string, len(template.Claims()))
	for i, claim := range template.Claims() {
		text, ok := textOf(claims.Values[claim])
		if !ok || text == "" {
			return "", refuseBy(rule, fmt.Sprintf("it names users by the claim %s, which the token does not have as a text", shortened(claim)))
		}
		values[i] = text
	}
	filled, err := template.Fill(values)
	if err != nil {
		return "", refuseBy(rule, err.Error())
	}
	name := rule.UserPrefix() + filled
	if err := catalog.ValidateWorkload(name); err != nil {
		return "", refuseBy(rule, "its claims make no name of a user: letters, digits and ._@+:/- are allowed, with a letter or digit at both ends, and at most 253 characters")
	}
	return name, nil
}

// recorded returns the claims for the record. One that is not a text in one printable line, or that
// there is no room for, is left out: it must not keep a workload out, and not break a line.
func recorded(rule *catalog.TrustRule, claims Claims) map[string]string {
	kept := map[string]string{claimIssuer: claims.Issuer, claimSubject: printable(claims.Subject)}
	size := len(kept[claimIssuer]) + len(kept[claimSubject])
	for _, name := range rule.Spec.RecordedClaims() {
		if _, isKept := kept[name]; isKept {
			continue
		}
		text, ok := textOf(claims.Values[name])
		if !ok || text == "" || len(text) > maxRecordedValue || printable(text) != text {
			continue
		}
		if size += len(name) + len(text); size > maxRecorded {
			break
		}
		kept[name] = text
	}
	return kept
}

// textOf returns a claim as a text: a text, a truth value or an integer.
func textOf(claim any) (string, bool) {
	switch c := claim.(type) {
	case string:
		return c, true
	case bool:
		return strconv.FormatBool(c), true
	case float64:
		if c == math.Trunc(c) && math.Abs(c) < exactInteger {
			return strconv.FormatInt(int64(c), 10), true
		}
	}
	return "", false
}

// printable returns a text with everything replaced that does not belong into one line.
func printable(text string) string {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, text)
}

// shownValue describes the bearer's own claim in a refusal.
func shownValue(claim any) string {
	if text, ok := textOf(claim); ok {
		return shortened(text)
	}
	return "not one text"
}

// shortened returns the beginning of a text that a caller chose.
func shortened(text string) string {
	text = printable(text)
	if len(text) <= 128 {
		return text
	}
	end := 128
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
