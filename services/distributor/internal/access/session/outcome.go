// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Outcome is how an attempt to sign in with an identity provider ended. It is a value of metrics.
type Outcome string

// The outcomes of attempts.
const (
	// OutcomeSignedIn is the only one that begins a session.
	OutcomeSignedIn Outcome = "signed_in"
	// OutcomeForeign is an answer of a provider that does not belong to a sign-in of this browser:
	// it came late, twice, or from another site.
	OutcomeForeign Outcome = "foreign"
	// OutcomeProviderAway means that the provider did not answer the hub.
	OutcomeProviderAway Outcome = "provider_away"
	// OutcomeProviderGone means that the provider was deleted or suspended meanwhile.
	OutcomeProviderGone Outcome = "provider_gone"
	// OutcomeProviderRefused means that the provider did not sign the person in.
	OutcomeProviderRefused Outcome = "provider_refused"
	// OutcomeUnconfirmed means that the hub could not verify what the provider said.
	OutcomeUnconfirmed Outcome = "unconfirmed"
	// OutcomeNotLetIn is a person whom the provider's document does not let in.
	OutcomeNotLetIn Outcome = "not_let_in"
	// OutcomeNameTaken is a person whose name a user of the hub has.
	OutcomeNameTaken Outcome = "name_taken"
	// OutcomeCodeUsed is a code of a device that another person has typed before.
	OutcomeCodeUsed Outcome = "code_used"
	// OutcomeHubFailed is a mistake of the hub, or a database that did not answer.
	OutcomeHubFailed Outcome = "hub_failed"
)

// OutcomeOf returns how an attempt ended whose answer of the provider led to err.
func OutcomeOf(err error) Outcome {
	if _, isClaims := errors.AsType[*ClaimsError](err); isClaims {
		return OutcomeNotLetIn
	}
	switch {
	case err == nil:
		return OutcomeSignedIn
	case errors.Is(err, ErrNameTaken):
		return OutcomeNameTaken
	case errors.Is(err, ErrProof):
		return OutcomeCodeUsed
	case errors.Is(err, catalog.ErrUnavailable), errors.Is(err, catalog.ErrUnrecorded):
		return OutcomeHubFailed
	}
	return OutcomeUnconfirmed
}

// Reason returns the reason in the record of a refused attempt. ok is false for attempts that leave
// no record of a refusal: successful ones, and ones that the hub itself fails.
func (o Outcome) Reason() (why reason.Reason, ok bool) {
	switch o {
	case OutcomeForeign, OutcomeUnconfirmed, OutcomeCodeUsed:
		return reason.TokenInvalid, true
	case OutcomeProviderAway:
		return reason.DependencyUnavailable, true
	case OutcomeProviderGone:
		return reason.NotFound, true
	case OutcomeProviderRefused, OutcomeNotLetIn:
		return reason.AccessDenied, true
	case OutcomeNameTaken:
		return reason.AlreadyExists, true
	case OutcomeSignedIn, OutcomeHubFailed:
	}
	return 0, false
}
