// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package keyroot

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/leatdev/leat/internal/runtime/cloud"
)

const (
	googleKMS = "Google Cloud KMS"
	googleURL = "https://cloudkms.googleapis.com"
)

// googleKey is a key of Google Cloud KMS
// (https://cloud.google.com/kms/docs/reference/rest/v1/projects.locations.keyRings.cryptoKeys/encrypt). The
// binding is additional authenticated data. Every field travels with a checksum, in both directions.
type googleKey struct {
	name, url         string
	provider, account string
	identity          *cloud.Identity
}

var googleName = regexp.MustCompile(`^projects/[a-z][a-z0-9.:-]{1,100}/locations/[a-z0-9-]{1,63}/keyRings/[A-Za-z0-9_-]{1,63}/cryptoKeys/[A-Za-z0-9_-]{1,63}$`)

func newGoogle(p KMSParams) (*googleKey, error) {
	if !googleName.MatchString(p.Key) {
		return nil, fmt.Errorf("got %.200q, want projects/PROJECT/locations/LOCATION/keyRings/RING/cryptoKeys/KEY, without a version", p.Key)
	}
	if err := cloud.CheckService("the URL of Google Cloud KMS", p.GoogleURL); err != nil {
		return nil, err
	}
	k := &googleKey{name: p.Key, url: p.GoogleURL, provider: p.GoogleProvider, account: p.GoogleAccount, identity: p.Identity}
	if k.url == "" {
		k.url = googleURL
	}
	k.url = strings.TrimSuffix(k.url, "/")
	return k, nil
}

// castagnoli is the polynomial of CRC32C.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the CRC32C of bytes as JSON has numbers of 64 bits: as text.
func checksum(data []byte) string {
	return strconv.FormatUint(uint64(crc32.Checksum(data, castagnoli)), 10)
}

func (k *googleKey) encrypt(ctx context.Context, key []byte, to binding) ([]byte, error) {
	aad := to.bytes()
	request := map[string]any{
		"plaintext": key, "plaintextCrc32c": checksum(key),
		"additionalAuthenticatedData": aad, "additionalAuthenticatedDataCrc32c": checksum(aad),
	}
	var answer struct {
		Ciphertext       []byte      `json:"ciphertext"`
		CiphertextCRC32C json.Number `json:"ciphertextCrc32c"`
		VerifiedKey      bool        `json:"verifiedPlaintextCrc32c"`
		VerifiedAAD      bool        `json:"verifiedAdditionalAuthenticatedDataCrc32c"`
	}
	if err := k.call(ctx, "encrypt", request, &answer, false); err != nil {
		return nil, err
	}
	switch {
	case !answer.VerifiedKey || !answer.VerifiedAAD:
		return nil, damaged(googleKMS, "does not say that the request came without damage")
	case answer.CiphertextCRC32C.String() != checksum(answer.Ciphertext):
		return nil, damaged(googleKMS, "has another checksum")
	}
	return answer.Ciphertext, nil
}

func (k *googleKey) decrypt(ctx context.Context, wrapped []byte, to binding) ([]byte, error) {
	aad := to.bytes()
	request := map[string]any{
		"ciphertext": wrapped, "ciphertextCrc32c": checksum(wrapped),
		"additionalAuthenticatedData": aad, "additionalAuthenticatedDataCrc32c": checksum(aad),
	}
	var answer struct {
		Plaintext       []byte      `json:"plaintext"`
		PlaintextCRC32C json.Number `json:"plaintextCrc32c"`
	}
	if err := k.call(ctx, "decrypt", request, &answer, true); err != nil {
		return nil, err
	}
	if len(answer.Plaintext) == 0 || answer.PlaintextCRC32C.String() != checksum(answer.Plaintext) {
		return nil, damaged(googleKMS, "has another checksum, or contains no key")
	}
	return answer.Plaintext, nil
}

func (k *googleKey) call(ctx context.Context, action string, request, answer any, opening bool) error {
	token, err := k.identity.GoogleToken(ctx, k.provider, k.account)
	if err != nil {
		return signInFailed(err)
	}
	return post(ctx, k.identity.Call(googleKMS, ""), k.url+"/v1/"+k.name+":"+action, request, answer, func(r *http.Request, _ []byte) {
		r.Header.Set("Authorization", "Bearer "+token.Text.Reveal())
	}, opening)
}
