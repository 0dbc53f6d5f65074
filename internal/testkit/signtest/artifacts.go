// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package signtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"testing"

	"github.com/leatdev/leat/internal/testkit/registrytest"
)

// The forms of keys that sign artifacts.
const (
	P256     = "ECDSA P-256"
	P384     = "ECDSA P-384 over SHA-384"
	P384Old  = "ECDSA P-384 over SHA-256"
	Ed25519  = "Ed25519"
	RSA      = "RSA PKCS #1"
	RSAPSS   = "RSA PSS"
	digestOf = "sha256:"
)

// The media types of signatures.
const (
	PayloadType    = "application/vnd.dev.cosign.simplesigning.v1+json"
	BundleType     = "application/vnd.dev.sigstore.bundle.v0.3+json"
	StatementType  = "application/vnd.in-toto+json"
	signAnnotation = "dev.cosignproject.cosign/signature"
)

// Key signs artifacts by the rules of cosign's formats.
type Key struct {
	form   string
	signer crypto.Signer
}

// NewKey returns a new key of a form.
func NewKey(t testing.TB, form string) *Key {
	t.Helper()
	k := &Key{form: form}
	var err error
	switch form {
	case P256:
		k.signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case P384, P384Old:
		k.signer, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case Ed25519:
		_, k.signer, err = ed25519.GenerateKey(rand.Reader)
	case RSA, RSAPSS:
		k.signer, err = rsa.GenerateKey(rand.Reader, 2048)
	default:
		t.Fatalf("unknown form of key %q", form)
	}
	if err != nil {
		t.Fatalf("make key: %v", err)
	}
	return k
}

// PublicKey returns the key as cosign.pub has it.
func (k *Key) PublicKey(t testing.TB) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(k.signer.Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// Sign returns the bare signature of a message.
func (k *Key) Sign(t testing.TB, message []byte) []byte {
	t.Helper()
	hash, options := crypto.SHA256, crypto.SignerOpts(crypto.SHA256)
	switch k.form {
	case P384:
		hash, options = crypto.SHA384, crypto.SHA384
	case RSAPSS:
		options = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: hash}
	case Ed25519:
		hash, options = 0, crypto.Hash(0)
	}
	if hash != 0 {
		h := hash.New()
		_, _ = h.Write(message)
		message = h.Sum(nil)
	}
	signature, err := k.signer.Sign(rand.Reader, message, options)
	if err != nil {
		t.Fatalf("sign: %v", err)
	}
	return signature
}

// Payload returns what cosign signs for the artifact with a digest of 64 digits.
func Payload(digest string) []byte {
	return fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":"registry.example.com/team/web"},"image":{"docker-manifest-digest":%q},`+
		`"type":"cosign container image signature"},"optional":null}`, digestOf+digest)
}

// Layer returns a layer with a payload and its signature.
func (k *Key) Layer(t testing.TB, payload []byte) registrytest.Layer {
	t.Helper()
	return registrytest.Layer{MediaType: PayloadType, Data: payload, Annotations: map[string]string{
		signAnnotation: base64.StdEncoding.EncodeToString(k.Sign(t, payload)),
	}}
}

// PushTag signs an artifact, and pushes the signature under cosign's tag for it.
func (k *Key) PushTag(t testing.TB, r *registrytest.Registry, name, digest string) {
	t.Helper()
	r.Push(t, name, "sha256-"+digest+".sig", "application/vnd.oci.image.config.v1+json", k.Layer(t, Payload(digest)))
}

// Statement returns what cosign signs in a bundle for the artifact with a digest of 64 digits.
func Statement(digest string) []byte {
	return fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":%q}}],`+
		`"predicateType":"https://sigstore.dev/cosign/sign/v1","predicate":{}}`, digest)
}

// StatementBundle returns a Sigstore bundle with a signed statement.
func (k *Key) StatementBundle(t testing.TB, statement []byte) []byte {
	t.Helper()
	signed := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(StatementType), StatementType, len(statement), statement)
	return encode(t, map[string]any{
		"mediaType": BundleType, "verificationMaterial": map[string]any{"publicKey": map[string]any{"hint": "a key"}},
		"dsseEnvelope": map[string]any{
			"payload": statement, "payloadType": StatementType, "signatures": []any{map[string]any{"sig": k.Sign(t, signed)}},
		},
	})
}

// MessageBundle returns a Sigstore bundle with the signature of a message, such as a manifest.
func (k *Key) MessageBundle(t testing.TB, message []byte) []byte {
	t.Helper()
	sum := sha256.Sum256(message)
	return encode(t, map[string]any{
		"mediaType": BundleType, "verificationMaterial": map[string]any{"publicKey": map[string]any{"hint": "a key"}},
		"messageSignature": map[string]any{
			"messageDigest": map[string]any{"algorithm": "SHA2_256", "digest": sum[:]}, "signature": k.Sign(t, message),
		},
	})
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
