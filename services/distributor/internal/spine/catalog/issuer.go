// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"

	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/check"
)

// Bounds of issuers and of the claims of their tokens.
const (
	// maxClaimItems bounds the values of a list claim that are compared.
	maxClaimItems  = 10_000
	maxIssuerBytes = 1024

	maxClaimBytes = 256

	maxRequirements = 16
	maxClaimValues  = 64
)

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
	case u.Scheme != "https" && (u.Scheme != "http" || !check.IsLoopback(u.Hostname())):
		return fielderr.New("spec.issuer", "%q does not begin with https://, which is required of an issuer", issuer)
	}
	return nil
}

// reachableIssuer refuses an issuer at the hub's own machine or link.
func reachableIssuer(issuer string) error {
	if host := check.Host(issuer); check.IsLocal(host) {
		return fielderr.New("spec.issuer", "%q is an address of the hub's own machine or its link, which it does not dial", host)
	}
	return nil
}

// ClaimRequirement holds where the claim is one of the values, or a list that has one of them.
type ClaimRequirement struct {
	Claim  string   `json:"claim"`
	Values []string `json:"values"`
}

// Meets reports whether a claim, as JSON decodes it, meets the requirement.
func (r ClaimRequirement) Meets(claim any) bool {
	switch c := claim.(type) {
	case string:
		return slices.Contains(r.Values, c)
	case bool:
		return slices.Contains(r.Values, fmt.Sprint(c))
	case []any:
		return slices.ContainsFunc(c[:min(len(c), maxClaimItems)], func(item any) bool {
			text, ok := item.(string)
			return ok && slices.Contains(r.Values, text)
		})
	}
	return false
}

func validateClaim(field string, r ClaimRequirement) error {
	if r.Claim == "" {
		return fielderr.New(field+".claim", "is required")
	}
	if len(r.Values) == 0 {
		return fielderr.New(field+".values", "is required: the values of which the claim must have one")
	}
	return cmp.Or(
		check.Line(field+".claim", r.Claim, maxClaimBytes),
		fielderr.Each(field+".values", "items", r.Values, maxClaimValues, func(field, value string) error {
			return check.Line(field, value, maxIssuerBytes)
		}),
	)
}
