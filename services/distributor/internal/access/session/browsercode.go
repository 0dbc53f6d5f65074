// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// placeBrowser is the place of codes for browsers.
const placeBrowser = "browser"

// BrowserCode is the content of a code that signs a user of the hub in, in one browser.
type BrowserCode struct {
	// User and UserUID are the user, and TokenID is the API token with which they made the code.
	User    string    `json:"n"`
	UserUID string    `json:"u"`
	TokenID string    `json:"t"`
	Random  string    `json:"r"`
	Ends    time.Time `json:"e"`
}

// MakeForBrowser returns a code for a browser, and when it ends. Nothing is stored.
func (c *Codes) MakeForBrowser(of BrowserCode) (code secret.Text, ends time.Time, err error) {
	of.Random, of.Ends = rand.Text(), catalog.Now().Add(CodeLife).UTC().Truncate(time.Second)
	text, err := json.Marshal(of)
	if err != nil {
		return "", time.Time{}, err
	}
	sealed, err := c.sealer.Seal(text, []byte(placeBrowser))
	return secret.Text(base64.RawURLEncoding.EncodeToString(sealed)), of.Ends, err
}

// OpenForBrowser returns the content of a code, and the token that the browser gets for it. The same
// code gives the same token, so that a store which has the token knows that the code was used. Who
// holds the code cannot compute the token. Error: ErrProof.
func (c *Codes) OpenForBrowser(code string) (of BrowserCode, token secret.Text, err error) {
	if len(code) > maxCodeBytes {
		return BrowserCode{}, "", ErrProof
	}
	sealed, err := base64.RawURLEncoding.DecodeString(code)
	if err != nil {
		return BrowserCode{}, "", ErrProof
	}
	text, err := c.sealer.Open(sealed, []byte(placeBrowser))
	if err != nil || json.Unmarshal(text, &of) != nil || !catalog.Now().Before(of.Ends) {
		return BrowserCode{}, "", ErrProof
	}
	derived := hmac.New(sha256.New, c.derive)
	derived.Write([]byte(of.Random))
	return of, secret.Text(admission.APITokenPrefix + hex.EncodeToString(derived.Sum(nil))), nil
}
