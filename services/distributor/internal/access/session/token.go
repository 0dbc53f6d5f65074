// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/kit/seal"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// CodeLife is how long the code of a command line is valid.
	CodeLife = time.Minute
	// DeviceLife is how long the codes of a device are valid.
	DeviceLife = 10 * time.Minute
	// DeviceInterval is how long a device waits between two questions.
	DeviceInterval = 5 * time.Second

	// credentialPrefix begins the credential of an identity that came with a session.
	credentialPrefix = "session."
	// letters of the codes that people type: no vowels, so that they spell nothing, and none that
	// is taken for another.
	letters  = "BCDFGHJKLMNPQRSTVWXZ"
	userCode = 8

	hashBytes = sha256.Size
	// maxCodeBytes bounds the codes that are opened for a stranger.
	maxCodeBytes = 512
)

// CredentialOf returns the credential that stands for a session in access tokens.
func CredentialOf(id string) string { return credentialPrefix + id }

// ByPerson returns a context whose edits are made by the session's person, in that session. The
// caller has proved that it is theirs.
func ByPerson(ctx context.Context, s catalog.Session) context.Context {
	origin := catalog.OriginOf(ctx)
	origin.Subject, origin.Credential = SubjectOf(s.Person), CredentialOf(s.ID)
	return catalog.WithOrigin(ctx, origin)
}

// SubjectOf returns the subject of a person in tokens and records.
func SubjectOf(person string) string {
	return identity.Identity{Kind: identity.KindUser, Name: person}.Subject()
}

// OfCredential returns the id of the session that a credential stands for, if it is one.
func OfCredential(credential string) (id string, ok bool) {
	return strings.CutPrefix(credential, credentialPrefix)
}

// hash returns the stored form of a secret.
func hash(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

// Codes makes and reads the codes of sign-ins. A code is sealed, so that what strangers make up is
// refused without a look into the store. It is safe for concurrent use.
type Codes struct {
	sealer *seal.Sealer
	// derive makes the tokens of browsers from their codes.
	derive []byte
}

// NewCodes returns the codes of a hub. The secret is the same at all replicas.
func NewCodes(secret []byte) (*Codes, error) {
	sealer, err := seal.NewSealer(secret, "sign-in code")
	if err != nil {
		return nil, err
	}
	derive, err := hkdf.Key(sha256.New, secret, nil, "leat token of a browser", hashBytes)
	return &Codes{sealer: sealer, derive: derive}, err
}

// ticket is the content of a code.
type ticket struct {
	// Session is the pending session that a command line's code is for; empty for a device.
	Session string    `json:"s,omitempty"`
	Random  string    `json:"r"`
	Ends    time.Time `json:"e"`
}

// The places of codes: one does not open as the other.
const (
	placeCLI    = "cli"
	placeDevice = "device"
)

func (c *Codes) make(place, session string, ends time.Time) (string, error) {
	text, err := json.Marshal(ticket{Session: session, Random: rand.Text(), Ends: ends.UTC().Truncate(time.Second)})
	if err != nil {
		return "", err
	}
	sealed, err := c.sealer.Seal(text, []byte(place))
	return base64.RawURLEncoding.EncodeToString(sealed), err
}

func (c *Codes) open(place, code string, at time.Time) (ticket, error) {
	if len(code) > maxCodeBytes {
		return ticket{}, ErrProof
	}
	sealed, err := base64.RawURLEncoding.DecodeString(code)
	if err != nil {
		return ticket{}, ErrProof
	}
	text, err := c.sealer.Open(sealed, []byte(place))
	if err != nil {
		return ticket{}, ErrProof
	}
	var t ticket
	if json.Unmarshal(text, &t) != nil || !at.Before(t.Ends) {
		return ticket{}, ErrProof
	}
	return t, nil
}

// UserCodeOf returns the code that a person types for a device, such as WDJB-MJHT. It follows from
// the device's code, so that nothing is stored before a person has signed in. A person who knows it
// cannot make a fitting device's code, because these are sealed.
func UserCodeOf(deviceCode string) string {
	sum := sha256.Sum256([]byte("leat user code\x00" + deviceCode))
	// A 64-bit number modulo 20^8 favours no letter by more than 1 in 10^8.
	var number uint64
	for _, b := range sum[:8] {
		number = number<<8 | uint64(b)
	}
	code := make([]byte, 0, userCode+1)
	for i := range userCode {
		if i == userCode/2 {
			code = append(code, '-')
		}
		code = append(code, letters[number%uint64(len(letters))])
		number /= uint64(len(letters))
	}
	return string(code)
}

// NormalUserCode returns a code as UserCodeOf spells it, from what a person typed. ok is false if
// it cannot be a code.
func NormalUserCode(typed string) (code string, ok bool) {
	if len(typed) > 64 {
		return "", false
	}
	var kept []byte
	for _, r := range strings.ToUpper(typed) {
		switch {
		case r == '-' || r == ' ' || r == '\t':
		case strings.ContainsRune(letters, r):
			kept = append(kept, byte(r))
		default:
			return "", false
		}
	}
	if len(kept) != userCode {
		return "", false
	}
	return string(kept[:userCode/2]) + "-" + string(kept[userCode/2:]), true
}

// userProof is the hash by which a device's pending session is found.
func userProof(code string) []byte { return hash("device\x00" + code) }

// ParseChallenge returns the hash of a PKCE challenge (S256).
func ParseChallenge(challenge string) ([]byte, bool) {
	sum, err := base64.RawURLEncoding.Strict().DecodeString(challenge)
	return sum, err == nil && len(sum) == hashBytes
}
