// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cloudtest

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"

	josecipher "github.com/go-jose/go-jose/v4/cipher"
)

// Keys of the clouds' key management services. Azure's are from [Clouds.AzureKey].
const (
	AWSKey         = "arn:aws:kms:" + Region + ":123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
	OtherAWSKey    = "arn:aws:kms:" + Region + ":123456789012:key/99999999-12ab-34cd-56ef-1234567890ab"
	GoogleKey      = "projects/project/locations/europe-west3/keyRings/leat/cryptoKeys/hub"
	OtherGoogleKey = "projects/project/locations/europe-west3/keyRings/leat/cryptoKeys/other"
)

// kms holds the keys of all clouds' key management services. Its zero value is in use.
type kms struct {
	mu       sync.Mutex
	disabled bool
	// versions are how often the keys of Azure were rotated.
	versions int
	rsa      map[string]*rsa.PrivateKey // by name and version
}

// AzureKey returns the URL of a key. The names leat and other belong to RSA keys, and leat-aes and
// other-aes those of AES keys.
func (c *Clouds) AzureKey(name string) string { return c.URL + "/keys/" + name }

// DisableKeys has the key management services refuse to use their keys, or ends that.
func (c *Clouds) DisableKeys(disabled bool) {
	c.kms.mu.Lock()
	defer c.kms.mu.Unlock()
	c.kms.disabled = disabled
}

// RotateAzure gives the keys of Azure a new version. The former ones continue to unwrap.
func (c *Clouds) RotateAzure() {
	c.kms.mu.Lock()
	defer c.kms.mu.Unlock()
	c.kms.versions++
}

func (k *kms) isDisabled() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.disabled
}

// read decodes a body that has the wanted fields and no others.
func read(r *http.Request, fields ...string) (map[string]json.RawMessage, []byte, error) {
	body, err := io.ReadAll(r.Body)
	var content map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(body, &content)
	}
	if err == nil && len(content) != len(fields) {
		err = fmt.Errorf("got the body %s", body)
	}
	for _, field := range fields {
		if err == nil && content[field] == nil {
			err = fmt.Errorf("field %s is missing", field)
		}
	}
	return content, body, err
}

// binary reads base64.
func binary(text json.RawMessage) []byte {
	var data []byte
	if json.Unmarshal(text, &data) != nil {
		return nil
	}
	return data
}

// aead is a symmetric key that only its name makes.
func aead(name string) cipher.AEAD {
	sum := sha256.Sum256([]byte("for tests only: " + name))
	block, err := aes.NewCipher(sum[:])
	if err != nil {
		panic(err)
	}
	sealer, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return sealer
}

func (c *Clouds) serveAWSKMS(w http.ResponseWriter, r *http.Request) {
	action := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "TrentService.")
	field := map[string]string{"Encrypt": "Plaintext", "Decrypt": "CiphertextBlob"}[action]
	content, body, err := read(r, "KeyId", "EncryptionContext", field)
	if err == nil {
		err = c.keys.verify(r, body, Region, "kms", c.now())
	}
	var key string
	var about map[string]string
	if err == nil {
		err = errors.Join(json.Unmarshal(content["KeyId"], &key), json.Unmarshal(content["EncryptionContext"], &about))
	}
	if err != nil || field == "" || key != AWSKey && key != OtherAWSKey || about["leat-place"] == "" || r.Header.Get("Content-Type") != "application/x-amz-json-1.1" {
		c.refuse(w, r, "%v: action %q, key %q, context %v", err, action, key, about)
		return
	}
	fail := func(name, message string) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"__type": name, "message": message})
	}
	if c.kms.isDisabled() {
		fail("DisabledException", key+" is disabled.")
		return
	}
	aad, err := json.Marshal(about) // sorted
	if err != nil {
		c.refuse(w, r, "%v", err)
		return
	}
	data := binary(content[field])
	if action == "Encrypt" {
		blob := append([]byte(key), aead(key).Seal(nil, nil, data, aad)...)
		answer(w, map[string]any{"KeyId": key, "CiphertextBlob": blob, "EncryptionAlgorithm": "SYMMETRIC_DEFAULT"})
		return
	}
	if len(data) > len(key) && !bytes.HasPrefix(data, []byte(key)) {
		fail("IncorrectKeyException", "The key ID in the request does not identify a CMK that can perform this operation.")
		return
	}
	plain, err := aead(key).Open(nil, nil, bytes.TrimPrefix(data, []byte(key)), aad)
	if err != nil {
		fail("InvalidCiphertextException", "")
		return
	}
	answer(w, map[string]any{"KeyId": key, "Plaintext": plain, "EncryptionAlgorithm": "SYMMETRIC_DEFAULT"})
}

func crc32c(data []byte) string {
	return strconv.FormatUint(uint64(crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))), 10)
}

func (c *Clouds) serveGoogleKMS(w http.ResponseWriter, r *http.Request) {
	name, action, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/google/kms/v1/"), ":")
	field := map[string]string{"encrypt": "plaintext", "decrypt": "ciphertext"}[action]
	bearer := r.Header.Get("Authorization")
	content, _, err := read(r, field, field+"Crc32c", "additionalAuthenticatedData", "additionalAuthenticatedDataCrc32c")
	if err != nil || field == "" || name != GoogleKey && name != OtherGoogleKey || bearer != "Bearer "+GoogleToken && bearer != "Bearer "+AccountToken {
		c.refuse(w, r, "%v: authorization %q", err, bearer)
		return
	}
	data, aad := binary(content[field]), binary(content["additionalAuthenticatedData"])
	if string(content[field+"Crc32c"]) != strconv.Quote(crc32c(data)) || string(content["additionalAuthenticatedDataCrc32c"]) != strconv.Quote(crc32c(aad)) || len(aad) == 0 {
		c.refuse(w, r, "a checksum is wrong, or there is no additional data")
		return
	}
	fail := func(status int, name, message string) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": status, "status": name, "message": message}})
	}
	switch {
	case c.kms.isDisabled():
		fail(http.StatusBadRequest, "FAILED_PRECONDITION", name+"/cryptoKeyVersions/1 is not enabled, current state is: DISABLED.")
	case action == "encrypt":
		sealed := aead(name).Seal(nil, nil, data, aad)
		answer(w, map[string]any{
			"name": name + "/cryptoKeyVersions/1", "ciphertext": sealed, "ciphertextCrc32c": crc32c(sealed), "protectionLevel": "SOFTWARE",
			"verifiedPlaintextCrc32c": true, "verifiedAdditionalAuthenticatedDataCrc32c": true,
		})
	default:
		plain, err := aead(name).Open(nil, nil, data, aad)
		if err != nil {
			fail(http.StatusBadRequest, "INVALID_ARGUMENT", "Decryption failed: verify that 'name' refers to the correct CryptoKey.")
			return
		}
		answer(w, map[string]any{"plaintext": plain, "plaintextCrc32c": crc32c(plain), "usedPrimary": true, "protectionLevel": "SOFTWARE"})
	}
}

var azurePath = regexp.MustCompile(`^/keys/((?:leat|other)(-aes)?)/([0-9a-f]{32})?/(wrapkey|unwrapkey)$`)

// azureRSA returns the private key of a version, and makes it first.
func (k *kms) azureRSA(id string) (*rsa.PrivateKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rsa[id] != nil {
		return k.rsa[id], nil
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	if k.rsa == nil {
		k.rsa = map[string]*rsa.PrivateKey{}
	}
	k.rsa[id] = key
	return key, nil
}

func (c *Clouds) serveAzureKeys(w http.ResponseWriter, r *http.Request) {
	path := azurePath.FindStringSubmatch(r.URL.Path)
	content, _, err := read(r, "alg", "value")
	if err != nil || path == nil || r.Method != http.MethodPost || r.URL.RawQuery != "api-version=7.4" || r.Header.Get("Authorization") != "Bearer "+vaultToken ||
		r.Header.Get("Content-Type") != "application/json" {
		c.refuse(w, r, "%v: query %q, authorization %q", err, r.URL.RawQuery, r.Header.Get("Authorization"))
		return
	}
	var algorithm, text string
	err = errors.Join(json.Unmarshal(content["alg"], &algorithm), json.Unmarshal(content["value"], &text))
	name, isAES, version, operation := path[1], path[2] != "", path[3], path[4]
	if want := map[bool]string{false: "RSA-OAEP-256", true: "A256KW"}[isAES]; err != nil || algorithm != want || version == "" && operation == "unwrapkey" {
		c.refuse(w, r, "%v: got the algorithm %q and the version %q", err, algorithm, version)
		return
	}
	fail := func(status int, code, inner, message string) {
		w.WriteHeader(status)
		problem := map[string]any{"code": code, "message": message}
		if inner != "" {
			problem["innererror"] = map[string]string{"code": inner}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"error": problem})
	}
	if c.kms.isDisabled() {
		fail(http.StatusForbidden, "Forbidden", "KeyDisabled", "Operation is not allowed on a disabled key.")
		return
	}
	if version == "" {
		c.kms.mu.Lock()
		sum := sha256.Sum256(fmt.Append(nil, name, c.kms.versions))
		c.kms.mu.Unlock()
		version = hex.EncodeToString(sum[:16])
	}
	value, err := base64.RawURLEncoding.DecodeString(text)
	var made []byte
	if err == nil {
		made, err = c.kms.azureDo(operation, name+"/"+version, isAES, value)
	}
	if err != nil {
		fail(http.StatusBadRequest, "BadParameter", "", "The parameter is incorrect.")
		return
	}
	answer(w, map[string]any{"kid": c.URL + "/keys/" + name + "/" + version, "value": base64.RawURLEncoding.EncodeToString(made)})
}

// azureDo wraps or unwraps with one version of a key.
func (k *kms) azureDo(operation, id string, isAES bool, value []byte) ([]byte, error) {
	if isAES {
		sum := sha256.Sum256([]byte("for tests only: " + id))
		block, err := aes.NewCipher(sum[:])
		if err != nil {
			return nil, err
		}
		if operation == "wrapkey" {
			return josecipher.KeyWrap(block, value)
		}
		return josecipher.KeyUnwrap(block, value)
	}
	key, err := k.azureRSA(id)
	if err != nil {
		return nil, err
	}
	if operation == "wrapkey" {
		return rsa.EncryptOAEP(sha256.New(), rand.Reader, &key.PublicKey, value, nil)
	}
	return rsa.DecryptOAEP(sha256.New(), nil, key, value, nil)
}
