// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package canarytest_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/canarytest"
)

// zip returns text as a gzip stream.
func zip(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestFind writes a secret as programs do, and expects each form to be found.
func TestFind(t *testing.T) {
	t.Parallel()
	set := &canarytest.Set{}
	secret, word := set.Plant("here"), set.PlantWord("there")
	inJSON, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	var escaped strings.Builder
	for _, b := range []byte(word) {
		fmt.Fprintf(&escaped, "%%%02X", b)
	}
	texts := map[string]string{
		"plain": secret, "in a sentence": "got " + secret + ", want less", "JSON": string(inJSON), "Go": fmt.Sprintf("%q", secret),
		"query": url.QueryEscape(secret), "path": url.PathEscape(secret), "upper case": strings.ToUpper(secret),
		"hex": hex.EncodeToString([]byte(secret)), "upper hex": fmt.Sprintf("%X", secret), "bytes": fmt.Sprintf("%x", []byte(secret)),
		"gzip": zip(t, secret), "gzip in gzip": "head" + zip(t, "x"+zip(t, secret)) + "tail", "gzip in base64": base64.StdEncoding.EncodeToString([]byte(zip(t, secret))),
		"base64 in gzip": zip(t, base64.StdEncoding.EncodeToString([]byte("u:"+secret))),
		"the first half": secret[:26], "the second half": secret[len(secret)-26:], "a word": word, "a word in escapes": escaped.String(),
	}
	for offset := range 6 {
		text := strings.Repeat("x", offset) + secret + strings.Repeat("y", offset)
		texts[fmt.Sprint("base64 at ", offset)] = base64.StdEncoding.EncodeToString([]byte(text))
		texts[fmt.Sprint("base64 without padding at ", offset)] = base64.RawStdEncoding.EncodeToString([]byte(text))
		texts[fmt.Sprint("base64 for URLs at ", offset)] = base64.RawURLEncoding.EncodeToString([]byte(text))
	}
	for name, text := range texts {
		if found := set.Find(text); len(found) == 0 {
			t.Errorf("%s: found nothing in %q", name, text)
		}
	}
	for _, text := range []string{"", "canary", strings.Repeat("canary0123456789", 100), zip(t, "canary"), "\x1f\x8b\x08 and no stream", "H4sI is no stream"} {
		if found := set.Find(text); len(found) > 0 {
			t.Errorf("found %q in %q, want nothing", found, text)
		}
	}
	if found := fmt.Sprint(set.Find(word + " " + word)); found != "[there (plain)]" {
		t.Errorf("got %s, want the place once", found)
	}
}

// TestAdd looks for the parts of a secret that a program has made.
func TestAdd(t *testing.T) {
	t.Parallel()
	set := &canarytest.Set{}
	set.Add("key", "-----BEGIN KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ\n+abc/def0123456789\n-----END KEY-----\n")
	if found := set.Find(`"MC4CAQAwBQYDK2VwBCIEIJ\n+abc"`); len(found) == 0 {
		t.Error("found nothing of the first line")
	}
	if found := set.Find("-----BEGIN KEY-----"); len(found) > 0 {
		t.Errorf("found %q in what all keys have", found)
	}
}
