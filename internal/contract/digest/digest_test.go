// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package digest_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/leatdev/leat/internal/contract/digest"
)

// The SHA-256 of nothing and of "abc", from FIPS 180.
const (
	ofNothing = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	ofABC     = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
)

func TestKnownContent(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{"": ofNothing, "abc": ofABC} {
		if got := digest.FromBytes([]byte(content)).String(); got != want {
			t.Errorf("digest of %q: got %s, want %s", content, got, want)
		}
		hasher := digest.NewHasher()
		for _, piece := range strings.Split(content, "") {
			_, _ = io.WriteString(hasher, piece)
			_ = hasher.Digest() // reading the digest must not change later ones
		}
		if got := hasher.Digest().String(); got != want {
			t.Errorf("hasher's digest of %q: got %s, want %s", content, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	d, err := digest.Parse(ofABC)
	if err != nil {
		t.Fatal(err)
	}
	if d != digest.FromBytes([]byte("abc")) || d.String() != ofABC || "sha256:"+d.Hex() != ofABC {
		t.Errorf("parsed digest: got %s and hex %s, want %s", d, d.Hex(), ofABC)
	}
	hex := strings.TrimPrefix(ofABC, "sha256:")
	for _, text := range []string{
		"", "sha256:", hex, "sha512:" + hex, "SHA256:" + hex, "sha256:" + strings.ToUpper(hex), ofABC + " ", " " + ofABC,
		ofABC[:len(ofABC)-1], ofABC + "0", "sha256:" + strings.Repeat("g", 64), "sha256:" + strings.Repeat("0", 64),
		"sha256:" + strings.Repeat("a", 1<<20),
	} {
		got, err := digest.Parse(text)
		if !errors.Is(err, digest.ErrInvalid) || !got.IsZero() {
			t.Errorf("parse %.80q: got %s and %v, want ErrInvalid", text, got, err)
		} else if len(err.Error()) > 300 {
			t.Errorf("parse %.80q: error of %d bytes, want a short one", text, len(err.Error()))
		}
	}
}

func TestZero(t *testing.T) {
	t.Parallel()
	var zero digest.Digest
	if !zero.IsZero() || zero.String() != "" || zero.Hex() != "" {
		t.Errorf("zero digest: got %q and %q, want empty texts", zero.String(), zero.Hex())
	}
	if digest.FromSum([digest.Size]byte{}) != zero {
		t.Error("digest of the zero sum: want the zero digest")
	}
}

func TestTextRoundTrip(t *testing.T) {
	t.Parallel()
	type document struct{ Present, Absent digest.Digest }
	want := document{Present: digest.FromBytes([]byte("abc"))}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if wantText := `{"Present":"` + ofABC + `","Absent":""}`; string(text) != wantText {
		t.Errorf("marshalled: got %s, want %s", text, wantText)
	}
	got := document{Absent: want.Present} // must be overwritten
	if err := json.Unmarshal(text, &got); err != nil || got != want {
		t.Errorf("unmarshalled: got %v, %v, want %v", got, err, want)
	}
	if err := json.Unmarshal([]byte(`{"Present":"sha256:00"}`), &got); !errors.Is(err, digest.ErrInvalid) {
		t.Errorf("unmarshal of a bad digest: got %v, want ErrInvalid", err)
	}
}

func TestCompareOrdersAsText(t *testing.T) {
	t.Parallel()
	a, b := digest.FromBytes([]byte("abc")), digest.FromBytes(nil)
	for _, pair := range [][2]digest.Digest{{a, b}, {b, a}, {a, a}, {{}, a}} {
		if got, want := pair[0].Compare(pair[1]), strings.Compare(pair[0].String(), pair[1].String()); got != want {
			t.Errorf("compare %s with %s: got %d, want %d", pair[0], pair[1], got, want)
		}
	}
}

func TestVerifier(t *testing.T) {
	t.Parallel()
	abc := digest.FromBytes([]byte("abc"))
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"plain": func(r io.Reader) io.Reader { return r }, "one byte": iotest.OneByteReader,
		"data with error": iotest.DataErrReader,
	} {
		got, err := io.ReadAll(digest.NewVerifier(wrap(strings.NewReader("abc")), abc))
		if err != nil || string(got) != "abc" {
			t.Errorf("%s: right content: got %q, %v, want %q", name, got, err, "abc")
		}
		verifier := digest.NewVerifier(wrap(strings.NewReader("abd")), abc)
		_, err = io.ReadAll(verifier)
		mismatch, ok := errors.AsType[*digest.MismatchError](err)
		if !errors.Is(err, digest.ErrMismatch) || !ok || mismatch.Want != abc || mismatch.Got == abc {
			t.Errorf("%s: wrong content: got %v, want a MismatchError", name, err)
		}
		if _, again := verifier.Read(make([]byte, 1)); !errors.Is(again, digest.ErrMismatch) {
			t.Errorf("%s: read after a mismatch: got %v, want the mismatch again", name, again)
		}
	}
}

func TestVerifierPassesErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	_, err := io.ReadAll(digest.NewVerifier(iotest.ErrReader(broken), digest.FromBytes(nil)))
	if !errors.Is(err, broken) || errors.Is(err, digest.ErrMismatch) {
		t.Errorf("error of a broken source: got %v, want that error", err)
	}
	if _, err := io.ReadAll(digest.NewVerifier(strings.NewReader(""), digest.Digest{})); !errors.Is(err, digest.ErrMismatch) {
		t.Errorf("verify against the zero digest: got %v, want a mismatch", err)
	}
}

func TestSequenceReadsTextsAndBuffersAlike(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("more than a sequence has room for at first, ", 20)
	texts, buffers := digest.NewSequence("first"), digest.NewSequence("first")
	for _, text := range []string{"", "a", long, digest.FromBytes(nil).String()} {
		texts.Text(text)
		buffer := []byte(text)
		buffers.TextBytes(buffer)
		clear(buffer) // the sequence has read it
	}
	texts.Number(7)
	buffers.Number(7)
	if got, want := buffers.Digest(), texts.Digest(); got != want {
		t.Errorf("got %s of buffers, want %s of texts", got, want)
	}
	if got := digest.NewSequence("first", "", "a").Digest(); got == digest.NewSequence("first", "a", "").Digest() {
		t.Errorf("two orders have one digest, %s", got)
	}
}
