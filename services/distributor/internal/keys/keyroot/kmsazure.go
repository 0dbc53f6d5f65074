// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package keyroot

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/leatdev/leat/internal/runtime/cloud"
)

const (
	azureKMS = "Azure Key Vault"
	// azureVersion is the version of the API that managed HSMs wrap with AES since.
	azureVersion = "7.4"
	azureRSA     = "RSA-OAEP-256"
	azureAES     = "A256KW"
	// azureForm begins the stored form: azure:v1:KEY/VERSION:ALGORITHM:VALUE.
	azureForm = "azure:v1:"
)

// azureKey is a key of Azure Key Vault or of a managed HSM
// (https://learn.microsoft.com/rest/api/keyvault/keys/wrap-key/wrap-key). Neither algorithm
// authenticates anything besides the key, so the binding is wrapped with it. The version that
// wrapped is kept with the wrapped key: another one does not unwrap it.
type azureKey struct {
	host, name, url  string
	scope, algorithm string
	identity         *cloud.Identity
}

var (
	azureHost    = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{1,22}[a-z0-9]\.((?:vault|managedhsm)\.(?:azure\.net|azure\.cn|usgovcloudapi\.net))$`)
	azurePath    = regexp.MustCompile(`^/keys/([A-Za-z0-9-]{1,127})$`)
	azureWrapped = regexp.MustCompile(`^azure:v1:([A-Za-z0-9-]{1,127})/([0-9a-f]{32}):(RSA-OAEP-256|A256KW):([A-Za-z0-9_-]+)$`)
	azureKID     = regexp.MustCompile(`^https?://[^/]+/keys/([A-Za-z0-9-]{1,127})/([0-9a-f]{32})$`)
)

func newAzure(p KMSParams) (*azureKey, error) {
	u, err := url.Parse(p.Key)
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("want a URL such as https://NAME.vault.azure.net/keys/leat")
	}
	path := azurePath.FindStringSubmatch(u.EscapedPath())
	if path == nil {
		return nil, fmt.Errorf("got path %.200q, want /keys/NAME, without a version", u.Path)
	}
	k := &azureKey{host: u.Host, name: path[1], url: p.Key, algorithm: p.AzureAlgorithm, identity: p.Identity}
	domain := azureHost.FindStringSubmatch(u.Host)
	switch {
	case domain != nil && u.Scheme == "https":
		k.scope = "https://" + domain[1] + "/.default"
	case isLoopback(u.Hostname()):
		k.scope = "https://vault.azure.net/.default"
	default:
		return nil, fmt.Errorf("got %s://%.200s, want https:// and a host below vault.azure.net or managedhsm.azure.net", u.Scheme, u.Host)
	}
	if k.algorithm == "" {
		k.algorithm = azureRSA
		if strings.Contains(k.scope, "managedhsm") {
			k.algorithm = azureAES
		}
	}
	if k.algorithm != azureRSA && k.algorithm != azureAES {
		return nil, fmt.Errorf("got algorithm %.100q, want %s or %s", k.algorithm, azureRSA, azureAES)
	}
	return k, nil
}

func (k *azureKey) encrypt(ctx context.Context, key []byte, to binding) ([]byte, error) {
	content, err := bound(key, to)
	if err != nil {
		return nil, err
	}
	// Without a version, the current one wraps.
	kid, value, err := k.call(ctx, "", "wrapkey", k.algorithm, content, false)
	if err != nil {
		return nil, err
	}
	parts := azureKID.FindStringSubmatch(kid)
	if parts == nil || !strings.EqualFold(parts[1], k.name) || len(value) == 0 {
		return nil, damaged(azureKMS, "is about another key, or contains none")
	}
	return []byte(azureForm + k.name + "/" + parts[2] + ":" + k.algorithm + ":" + base64.RawURLEncoding.EncodeToString(value)), nil
}

func (k *azureKey) decrypt(ctx context.Context, wrapped []byte, to binding) ([]byte, error) {
	parts := azureWrapped.FindSubmatch(wrapped)
	if parts == nil || string(parts[1]) != k.name {
		return nil, fmt.Errorf("%w: another key has wrapped it", ErrRefused)
	}
	value, err := base64.RawURLEncoding.DecodeString(string(parts[4]))
	if err != nil {
		return nil, fmt.Errorf("%w: it is not complete", ErrRefused)
	}
	_, content, err := k.call(ctx, string(parts[2]), "unwrapkey", string(parts[3]), value, true)
	if err != nil {
		return nil, err
	}
	key, ok := unbound(content, to)
	if !ok {
		return nil, fmt.Errorf("%w: it was wrapped for another place", ErrRefused)
	}
	return key, nil
}

// call asks a version of the key for an operation, and returns the id of the version that did it, and
// what it made.
func (k *azureKey) call(ctx context.Context, version, operation, algorithm string, value []byte, opening bool) (string, []byte, error) {
	token, err := k.identity.EntraToken(ctx, "", "", k.scope)
	if err != nil {
		return "", nil, signInFailed(err)
	}
	to := k.url + "/" + version + "/" + operation + "?api-version=" + azureVersion
	request := map[string]string{"alg": algorithm, "value": base64.RawURLEncoding.EncodeToString(value)}
	var answer struct {
		KID   string `json:"kid"`
		Value string `json:"value"`
	}
	err = post(ctx, k.identity.Call(azureKMS, ""), to, request, &answer, func(r *http.Request, _ []byte) {
		r.Header.Set("Authorization", "Bearer "+token.Text.Reveal())
	}, opening)
	if err != nil {
		return "", nil, err
	}
	made, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(answer.Value, "="))
	if err != nil {
		return "", nil, damaged(azureKMS, "is not readable")
	}
	return answer.KID, made, nil
}

const (
	// boundNonce has equal keys wrapped to different bytes by AES, too.
	boundNonce = 16
	boundHead  = boundNonce + sha256.Size + 1
	// maxBound bounds a key: RSA-OAEP-256 with a key of 2048 bits takes 190 bytes in all.
	maxBound = 64
	// boundBlock divides the length of what AES wraps (RFC 3394).
	boundBlock = 8
)

// bound returns a key with what it is bound to: a nonce, the digest of the binding, the length of the
// key, the key, and zeros.
func bound(key []byte, to binding) ([]byte, error) {
	if len(key) > maxBound {
		return nil, fmt.Errorf("got a key of %d bytes, want at most %d", len(key), maxBound)
	}
	content := make([]byte, boundNonce, boundHead+maxBound+boundBlock)
	_, _ = rand.Read(content) // never fails
	digest := sha256.Sum256(to.bytes())
	content = append(append(append(content, digest[:]...), byte(len(key))), key...)
	for len(content)%boundBlock != 0 {
		content = append(content, 0)
	}
	return content, nil
}

// unbound returns the key of bound if it was bound to the same.
func unbound(content []byte, to binding) ([]byte, bool) {
	if len(content) < boundHead {
		return nil, false
	}
	digest := sha256.Sum256(to.bytes())
	if subtle.ConstantTimeCompare(content[boundNonce:boundHead-1], digest[:]) != 1 {
		return nil, false
	}
	rest, length := content[boundHead:], int(content[boundHead-1])
	if length == 0 || length > len(rest) || len(rest)-length >= boundBlock {
		return nil, false
	}
	return rest[:length], true
}
