// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package attestation_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/signers"
	"github.com/leatdev/leat/internal/testkit/signtest"
	"github.com/leatdev/leat/services/gitcache/internal/attestation"
)

const (
	digest  = "11aa000000000000000000000000000000000000000000000000000000000000"
	another = "22bb000000000000000000000000000000000000000000000000000000000000"
)

func policy(t *testing.T, v upstream.Verification) *attestation.Policy {
	t.Helper()
	v.Mode = upstream.ModeArtifact
	p, err := attestation.New(v)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// wantRejected wants a rejection whose text has the words.
func wantRejected(t *testing.T, name string, err error, words ...string) {
	t.Helper()
	if _, ok := errors.AsType[*signers.RejectedError](err); !ok {
		t.Errorf("%s: got %v, want it rejected", name, err)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: got %q, want it to have %q", name, err, word)
		}
	}
}

// TestCosign accepts signatures by every kind of key, in every form, for the artifact that they were
// made for and no other.
func TestCosign(t *testing.T) {
	t.Parallel()
	for _, form := range []string{signtest.P256, signtest.P384, signtest.P384Old, signtest.Ed25519, signtest.RSA, signtest.RSAPSS} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			mine, other := signtest.NewKey(t, form), signtest.NewKey(t, form)
			p := policy(t, upstream.Verification{CosignKeys: signtest.NewKey(t, signtest.P256).PublicKey(t) + mine.PublicKey(t)})
			manifest := []byte(`{"schemaVersion":2}`)
			read := func() ([]byte, error) { return manifest, nil }
			payload, statement := signtest.Payload(digest), signtest.Statement(digest)

			for name, err := range map[string]error{
				"payload":   p.VerifyPayload(digest, payload, mine.Sign(t, payload)),
				"statement": p.VerifyBundle(digest, mine.StatementBundle(t, statement), read),
				"message":   p.VerifyBundle(digest, mine.MessageBundle(t, manifest), read),
			} {
				if err != nil {
					t.Errorf("%s: got %v, want it accepted", name, err)
				}
			}
			wantRejected(t, "payload by another", p.VerifyPayload(digest, payload, other.Sign(t, payload)), "one of the keys")
			wantRejected(t, "payload for another", p.VerifyPayload(another, payload, mine.Sign(t, payload)), digest)
			wantRejected(t, "replaced payload", p.VerifyPayload(another, signtest.Payload(another), mine.Sign(t, payload)), "not signed")
			wantRejected(t, "no signature", p.VerifyPayload(digest, payload, nil))
			wantRejected(t, "statement by another", p.VerifyBundle(digest, other.StatementBundle(t, statement), read), "one of the keys")
			wantRejected(t, "statement for another", p.VerifyBundle(another, mine.StatementBundle(t, statement), read), "another artifact")
			wantRejected(t, "message by another", p.VerifyBundle(digest, other.MessageBundle(t, manifest), read), "one of the keys")
			wantRejected(t, "message of another", p.VerifyBundle(digest, mine.MessageBundle(t, []byte("{}")), read), "one of the keys")
			broken := errors.New("no manifest")
			if err := p.VerifyBundle(digest, mine.MessageBundle(t, manifest), func() ([]byte, error) { return nil, broken }); !errors.Is(err, broken) {
				t.Errorf("got %v, want that there is no manifest", err)
			}
		})
	}
}

// TestSecSignaturesForOtherPurposes rejects what a listed key signed, if it is not the signature of an
// artifact: its attestations of other kinds, and messages that only look alike.
func TestSecSignaturesForOtherPurposes(t *testing.T) {
	t.Parallel()
	key := signtest.NewKey(t, signtest.P256)
	p := policy(t, upstream.Verification{CosignKeys: key.PublicKey(t)})
	never := func() ([]byte, error) {
		t.Error("the manifest was asked for")
		return nil, errors.New("no manifest")
	}
	for name, payload := range map[string]string{
		"another type":   strings.Replace(string(signtest.Payload(digest)), "cosign container image signature", "atomic container signature", 1),
		"no digest":      strings.Replace(string(signtest.Payload(digest)), "sha256:"+digest, "", 1),
		"longer digest":  strings.Replace(string(signtest.Payload(digest)), digest, digest+"00", 1),
		"not JSON":       "sha256:" + digest,
		"several values": string(signtest.Payload(digest)) + string(signtest.Payload(digest)),
		"a list":         "[" + string(signtest.Payload(digest)) + "]",
		"a statement":    string(signtest.Statement(digest)),
	} {
		wantRejected(t, name, p.VerifyPayload(digest, []byte(payload), key.Sign(t, []byte(payload))))
	}
	for name, statement := range map[string]string{
		"an SBOM":           strings.Replace(string(signtest.Statement(digest)), "https://sigstore.dev/cosign/sign/v1", "https://spdx.dev/Document", 1),
		"another version":   strings.Replace(string(signtest.Statement(digest)), "Statement/v1", "Statement/v9", 1),
		"no subject":        strings.Replace(string(signtest.Statement(digest)), `{"digest":{"sha256":"`+digest+`"}}`, "", 1),
		"another algorithm": strings.Replace(string(signtest.Statement(digest)), `"sha256":`, `"sha512":`, 1),
		"many subjects":     strings.Replace(string(signtest.Statement(digest)), `"subject":[`, `"subject":[`+strings.Repeat("{},", 100), 1),
		"a payload":         string(signtest.Payload(digest)),
	} {
		wantRejected(t, name, p.VerifyBundle(digest, key.StatementBundle(t, []byte(statement)), never))
	}
	good := string(key.StatementBundle(t, signtest.Statement(digest)))
	for name, bundle := range map[string]string{
		"another envelope":  strings.Replace(good, signtest.StatementType, "application/json", 1),
		"another bundle":    strings.Replace(good, signtest.BundleType, "application/json", 1),
		"a certificate":     strings.Replace(good, `"publicKey"`, `"certificate"`, 1),
		"two signatures":    strings.Replace(good, `"signatures":[`, `"signatures":[{"sig":""},`, 1),
		"no signature":      `{"mediaType":"` + signtest.BundleType + `","verificationMaterial":{"publicKey":{}},"dsseEnvelope":{"payloadType":"` + signtest.StatementType + `"}}`,
		"two contents":      strings.Replace(good, `"dsseEnvelope"`, `"messageSignature":{},"dsseEnvelope"`, 1),
		"nothing":           "{}",
		"not JSON":          "-----BEGIN",
		"no base64":         strings.Replace(good, `"sig":"`, `"sig":"*`, 1),
		"deep":              strings.Repeat("[", 100_000),
		"signature, no key": `{"mediaType":"` + signtest.BundleType + `","verificationMaterial":{},"messageSignature":{"signature":"AAAA"}}`,
	} {
		wantRejected(t, name, p.VerifyBundle(digest, []byte(bundle), never))
	}
}

// TestProvenance accepts a provenance file for its own chart, version and archive.
func TestProvenance(t *testing.T) {
	t.Parallel()
	mine, other := signtest.NewChartSigner(t), signtest.NewChartSigner(t)
	p := policy(t, upstream.Verification{ProvenanceKeys: other.PublicKey(t) + mine.PublicKey(t)})
	strict := policy(t, upstream.Verification{ProvenanceKeys: other.PublicKey(t)})
	message := mine.Sign(t, "web", "1.2.0", []byte("archive"))
	web := attestation.Archive{Chart: "web", Version: "1.2.0", File: "web-1.2.0.tgz"}
	says, err := p.VerifyProvenance(web, message, time.Now())
	if err != nil || says.Version != "1.2.0" || len(says.Digest) != 64 {
		t.Fatalf("got %+v (%v)", says, err)
	}
	web.Digest = says.Digest
	for name, a := range map[string]attestation.Archive{
		"whole":              web,
		"any version":        {Chart: "web", Digest: says.Digest, File: "web-1.2.0.tgz"},
		"another file name":  {Chart: "web", Version: "1.2.0", Digest: says.Digest, File: "download"},
		"without file name":  {Chart: "web", Version: "1.2.0", Digest: says.Digest},
		"CRLF and blank end": web,
	} {
		text := message
		if name == "CRLF and blank end" {
			text = append(bytes.ReplaceAll(message, []byte("\n"), []byte("\r\n")), "\r\n\r\n"...)
		}
		if _, err := p.VerifyProvenance(a, text, time.Now()); err != nil {
			t.Errorf("%s: got %v, want it accepted", name, err)
		}
	}
	for name, a := range map[string]attestation.Archive{
		"another archive": {Chart: "web", Version: "1.2.0", Digest: another},
		"another chart":   {Chart: "db", Version: "1.2.0", Digest: says.Digest},
		"another version": {Chart: "web", Version: "1.3.0", Digest: says.Digest},
	} {
		_, err := p.VerifyProvenance(a, message, time.Now())
		wantRejected(t, name, err, "has a provenance file")
	}
	_, err = strict.VerifyProvenance(web, message, time.Now())
	wantRejected(t, "by another key", err, "may not sign here")
}

// TestSecProvenanceFiles rejects files of which not everything that is read was signed.
func TestSecProvenanceFiles(t *testing.T) {
	t.Parallel()
	signer := signtest.NewChartSigner(t)
	p := policy(t, upstream.Verification{ProvenanceKeys: signer.PublicKey(t)})
	claim := signtest.Claim("web", "1.2.0", []byte("archive"))
	good := string(signer.SignText(t, claim))
	web := attestation.Archive{Chart: "web", Version: "1.2.0", File: "web-1.2.0.tgz"}
	if _, err := p.VerifyProvenance(web, []byte(good), time.Now()); err != nil {
		t.Fatal(err)
	}
	for name, message := range map[string]string{
		"unsigned":          claim,
		"changed":           strings.Replace(good, "version: 1.2.0", "version: 1.2.1", 1),
		"text before":       "name: web\n" + good,
		"text behind":       good + "\nfiles: {}\n",
		"two messages":      good + "\n" + good,
		"cut":               good[:len(good)-40],
		"empty":             "",
		"another signature": good[:strings.Index(good, "-----BEGIN PGP SIGNATURE")] + string(signer.SignText(t, "x"))[strings.Index(string(signer.SignText(t, "x")), "-----BEGIN PGP SIGNATURE"):],
		"long":              good + strings.Repeat(" ", attestation.MaxProvenance),
		"no sums":           string(signer.SignText(t, "name: web\nversion: 1.2.0\n")),
		"no metadata":       string(signer.SignText(t, "files:\n  web-1.2.0.tgz: sha256:"+digest+"\n")),
		"three documents":   string(signer.SignText(t, claim+"\n...\nfiles: {}\n")),
		"another sum":       string(signer.SignText(t, strings.Replace(claim, "sha256:", "sha512:", 1))),
		"short sum":         string(signer.SignText(t, claim[:len(claim)-10]+"\n")),
		"another file":      string(signer.SignText(t, strings.Replace(claim, "web-1.2.0.tgz", "db-1.2.0.tgz", 1))),
		"not YAML":          string(signer.SignText(t, "{{{")),
		"a list":            string(signer.SignText(t, "- name: web\n...\n- files\n")),
	} {
		_, err := p.VerifyProvenance(web, []byte(message), time.Now())
		wantRejected(t, name, err)
	}
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	key, chart := signtest.NewKey(t, signtest.P256).PublicKey(t), signtest.NewChartSigner(t).PublicKey(t)
	none, err := attestation.New(upstream.Verification{})
	if err != nil || none.IsRequired() || none.Fingerprint() != "" {
		t.Errorf("got %+v (%v), want that nothing is required", none, err)
	}
	prints := map[string]bool{}
	for _, v := range []upstream.Verification{{CosignKeys: key}, {ProvenanceKeys: chart}, {CosignKeys: key, ProvenanceKeys: chart}, {CosignKeys: key + "\n"}} {
		p := policy(t, v)
		prints[p.Fingerprint()] = true
		if !p.IsRequired() || p.TakesCosign() != (v.CosignKeys != "") || p.TakesProvenance() != (v.ProvenanceKeys != "") {
			t.Errorf("%+v: got %+v", v, p)
		}
	}
	if len(prints) != 4 {
		t.Errorf("got %d fingerprints, want four", len(prints))
	}
	for name, v := range map[string]upstream.Verification{
		"no keys":      {Mode: upstream.ModeArtifact},
		"another mode": {Mode: upstream.ModeTag, CosignKeys: key},
		"broken key":   {Mode: upstream.ModeArtifact, CosignKeys: "hello"},
		"broken PGP":   {Mode: upstream.ModeArtifact, ProvenanceKeys: "hello"},
	} {
		if _, err := attestation.New(v); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

func FuzzSecVerify(f *testing.F) {
	key := signtest.NewKey(f, signtest.Ed25519)
	chart := signtest.NewChartSigner(f)
	p, err := attestation.New(upstream.Verification{
		Mode: upstream.ModeArtifact, CosignKeys: signtest.NewKey(f, signtest.Ed25519).PublicKey(f), ProvenanceKeys: signtest.NewChartSigner(f).PublicKey(f),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(signtest.Payload(digest), key.Sign(f, signtest.Payload(digest)))
	f.Add(key.StatementBundle(f, signtest.Statement(digest)), []byte{})
	f.Add(key.MessageBundle(f, []byte("{}")), []byte{})
	f.Add(chart.Sign(f, "web", "1.0.0", []byte("archive")), []byte{})
	f.Fuzz(func(t *testing.T, data, signature []byte) {
		_, err := p.VerifyProvenance(attestation.Archive{Chart: "web"}, data, time.Now())
		if err == nil || p.VerifyPayload(digest, data, signature) == nil ||
			p.VerifyBundle(digest, data, func() ([]byte, error) { return signature, nil }) == nil {
			t.Error("accepted what nobody signed")
		}
	})
}
