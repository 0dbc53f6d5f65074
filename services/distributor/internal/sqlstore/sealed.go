// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Purposes of sealed values.
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
	// place is the binding of the value of a row, with an asterisk for the key of the row. No value
	// opens in another row, nor in another column of the same purpose, so columns of one purpose have
	// different places, unless their keys differ.
	place string
}

// seal seals the value of a row.
func (c sealedColumn) seal(k *keyStore, key string, plain []byte) ([]byte, error) {
	sealer, err := k.ring.Sealer(c.purpose)
	var sealed []byte
	if err == nil {
		sealed, err = sealer.Seal(plain, c.bound(key))
	}
	return sealed, c.failed("seal", key, err)
}

// open is the reverse of seal.
func (c sealedColumn) open(k *keyStore, key string, sealed []byte) ([]byte, error) {
	sealer, err := k.ring.Sealer(c.purpose)
	var plain []byte
	if err == nil {
		plain, err = sealer.Open(sealed, c.bound(key))
	}
	return plain, c.failed("open", key, err)
}

// sealJSON seals a value as JSON. Errors of JSON may hold a part of the value, so they are not passed on.
func (c sealedColumn) sealJSON(k *keyStore, key string, value any) ([]byte, error) {
	plain, err := json.Marshal(value)
	if err != nil {
		return nil, c.failed("seal", key, errors.New("it has no form as JSON"))
	}
	return c.seal(k, key, plain)
}

// openJSON is the reverse of sealJSON. It sets what value points to.
func (c sealedColumn) openJSON(k *keyStore, key string, sealed []byte, value any) error {
	plain, err := c.open(k, key, sealed)
	if err == nil && json.Unmarshal(plain, value) != nil {
		err = c.failed("open", key, errors.New("it is not the JSON that was sealed"))
	}
	return err
}

func (c sealedColumn) bound(key string) []byte { return []byte(strings.Replace(c.place, "*", key, 1)) }

func (c sealedColumn) failed(verb, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s.%s of %s: %w", verb, c.table, c.column, key, err)
}
