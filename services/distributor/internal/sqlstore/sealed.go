// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import "strings"

// Purposes of what is sealed.
const (
	purposeCredential = "repository credential"
	purposeWebhook    = "repository webhook secret"
	purposeIssuer     = "issuer key"
	purposeSecrets    = "service secrets"
	purposeProvider   = "identity provider secret"
	purposeRefresh    = "session refresh token"
	purposeBackend    = "configuration back end credential"
	purposeEntries    = "configuration entries"
	purposeNotifier   = "notifier secrets"
	purposeSets       = "configuration set secrets"
	purposeConfig     = "service configuration digest"
)

// placeOfKey is the place of a value that is bound to the key of its row alone.
const placeOfKey = "*"

// sealedColumn is a column of sealed values.
type sealedColumn struct {
	table, key, column string
	purpose            string
	// place is what the value of a row is bound to, with an asterisk for the key of the row. No value opens in another
	// row, nor in another column of the same purpose, so columns of one purpose have different places, unless their
	// keys differ.
	place string
}

func (c sealedColumn) bound(key string) []byte { return []byte(strings.Replace(c.place, "*", key, 1)) }

// seal seals the value of a row.
func (c sealedColumn) seal(k *keyStore, key string, plain []byte) ([]byte, error) {
	sealer, err := k.ring.Sealer(c.purpose)
	if err != nil {
		return nil, err
	}
	return sealer.Seal(plain, c.bound(key))
}

// open is the reverse of seal.
func (c sealedColumn) open(k *keyStore, key string, sealed []byte) ([]byte, error) {
	sealer, err := k.ring.Sealer(c.purpose)
	if err != nil {
		return nil, err
	}
	return sealer.Open(sealed, c.bound(key))
}
