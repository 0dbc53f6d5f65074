// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// tokenFresh is how long an API token is accepted without asking the store again.
	tokenFresh = 30 * time.Second
	// tokenKept is how long it continues to be accepted if the store does not answer.
	tokenKept = 10 * time.Minute
	// tokenMax bounds the tokens that are remembered.
	tokenMax = 4096
	// apiTokenID begins the id of an identity that came with an API token.
	apiTokenID = "api."
)

// APITokens verifies people's API tokens against the store, and remembers recently verified ones.
// It is safe for concurrent use.
//
// A token that was deleted may be accepted for tokenFresh more; calls then look the token up in the
// catalog, which knows better. If the store does not answer, people who called lately can still
// call.
type APITokens struct {
	people catalog.People
	// byHash holds the verified tokens.
	byHash *lru.Cache[string, verifiedToken]
}

// verifiedToken is the store's answer about one token.
type verifiedToken struct {
	signIn catalog.SignIn
	// at is when the store answered.
	at time.Time
}

// usableFor reports whether the answer is younger than age and the token has not ended.
func (t verifiedToken) usableFor(age time.Duration) bool {
	return time.Since(t.at) < age && !t.signIn.Token.Expired(time.Now())
}

var _ identity.Verifier = (*APITokens)(nil)

// NewAPITokens returns a verifier over the store.
func NewAPITokens(people catalog.People) *APITokens {
	byHash, _ := lru.New[string, verifiedToken](tokenMax) // fails only for a limit that is not positive
	return &APITokens{people: people, byHash: byHash}
}

// Verify implements identity.Verifier.
func (t *APITokens) Verify(ctx context.Context, token string) (identity.Identity, error) {
	return t.verify(ctx, token, func(context.Context, catalog.Token) error { return nil })
}

// verify verifies a token. It calls use with each token that it reads from the store, before it
// remembers the token. An error of use is handled as one of the store.
func (t *APITokens) verify(
	ctx context.Context, token string, use func(context.Context, catalog.Token) error,
) (identity.Identity, error) {
	if !strings.HasPrefix(token, APITokenPrefix) {
		return identity.Identity{}, identity.ErrTokenInvalid
	}
	hash := string(Hash(token))
	known, _ := t.byHash.Get(hash) // the zero value is usable for nothing
	if known.usableFor(tokenFresh) {
		return identityOf(known.signIn), nil
	}
	signIn, err := t.people.UserByToken(ctx, []byte(hash))
	if err == nil {
		err = use(ctx, signIn.Token)
	}
	switch {
	case err == nil:
		t.byHash.Add(hash, verifiedToken{signIn: signIn, at: time.Now()})
		return identityOf(signIn), nil
	case errors.Is(err, catalog.ErrNotFound):
		t.byHash.Remove(hash)
		return identity.Identity{}, identity.ErrTokenInvalid
	case errors.Is(err, catalog.ErrUnavailable) && known.usableFor(tokenKept):
		return identityOf(known.signIn), nil
	case errors.Is(err, catalog.ErrUnavailable):
		return identity.Identity{}, errors.Join(identity.ErrUnavailable, err)
	}
	return identity.Identity{}, err
}

// identityOf returns the identity of the token's owner. It names the token by its id, which reveals
// nothing of the token itself.
func identityOf(signIn catalog.SignIn) identity.Identity {
	id := apiTokenID + signIn.Token.ID
	return identity.Identity{
		Kind:       identity.KindUser,
		Name:       signIn.User.Name,
		UID:        signIn.User.UID,
		Groups:     signIn.User.Spec.Groups,
		TokenID:    id,
		Credential: id,
		Expires:    signIn.Token.ExpiresAt,
	}
}

// CredentialOf returns the credential of an identity that came with the API token of that id.
func CredentialOf(id string) string { return apiTokenID + id }

// APITokenOf returns the id of the API token that a credential stands for, if it is one.
func APITokenOf(credential string) (id string, ok bool) {
	return strings.CutPrefix(credential, apiTokenID)
}
