// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission decides who gets in, and who has to wait.
//
// It makes and verifies the secrets of agents and people: join tokens, API tokens, the uid of a
// cluster's identity, and assertions, which are good once. It also bounds how often and how many
// callers come: gates for a whole replica, paces and seats for each cluster. Each type has a lock
// of its own and calls none of the others.
package admission

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/leatdev/leat/internal/runtime/identity"
)

const (
	// JoinTokenLife is how long a join token can be used.
	JoinTokenLife = 24 * time.Hour
	// AccessTokenLife is how long access tokens of clusters and people are valid.
	AccessTokenLife = time.Hour
)

// Prefixes of the secrets, so that people and scanners recognise them. Bootstrap tokens begin with
// [identity.BootstrapTokenPrefix], by which agents recognise them, too.
const (
	JoinTokenPrefix = "leatjoin_"
	APITokenPrefix  = "leat_"
)

// NewJoinToken returns a random token of 256 bits.
func NewJoinToken() string { return JoinTokenPrefix + newSecret() }

// NewBootstrapToken returns a random token of 256 bits.
func NewBootstrapToken() string { return identity.BootstrapTokenPrefix + newSecret() }

// BootstrapCredential returns what records name as the credential of an edit that a bootstrap token
// of that id made.
func BootstrapCredential(id string) string { return "bootstrap." + id }

// NewAPIToken returns a random token of 256 bits.
func NewAPIToken() string { return APITokenPrefix + newSecret() }

func newSecret() string {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails: see crypto/rand.Read
	return base64.RawURLEncoding.EncodeToString(secret[:])
}

// TokenID names a token by a part of its hash, which reveals nothing of the token.
func TokenID(hash []byte) string { return hex.EncodeToString(hash[:min(len(hash), 8)]) }

// Hash returns the stored form of a token. A plain hash is enough: the tokens are long and random.
func Hash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// IdentityUID returns the uid that a cluster's identity carries in its tokens: it changes with the
// cluster's uid and with every enrolment and revocation, so that comparing it shows both.
func IdentityUID(uid string, keyGeneration int64) string {
	return uid + "." + strconv.FormatInt(keyGeneration, 10)
}
