// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package canarytest makes secrets for tests, and finds them in what a program shows.
//
// A test plants a canary in each place that keeps a secret, lets the program work and fail, and checks
// everything that leaves the program. A canary is found as it is, and as programs write it: inside of
// base64 of either alphabet at any offset, in hex, with the escapes of JSON, Go and URLs, in another
// case, and in any of these below gzip.
package canarytest

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// minCore is the length of the shortest run of letters and digits that identifies a secret.
const minCore = 12

// maxInflated bounds the bytes read of one gzip stream.
const maxInflated = 16 << 20

// Set holds the canaries of a test. It is safe for concurrent use. The zero Set is empty.
type Set struct {
	mu      sync.Mutex
	needles []needle
}

// needle is one form of a part of a secret.
type needle struct {
	place, form, text string
	ignoresCase       bool
}

// Plant returns a new secret for a place, and looks for it from now on. Between its two parts, each of
// which is looked for, are characters that JSON, YAML, URLs and shells escape.
func (s *Set) Plant(place string) string {
	text := core() + `"/+ <&é$` + core()
	s.Add(place, text)
	return text
}

// PlantWord is Plant for a place that takes letters and digits alone.
func (s *Set) PlantWord(place string) string {
	text := core()
	s.Add(place, text)
	return text
}

// core returns random text of 26 lower-case letters and digits, which begins with a letter.
func core() string { return "canary" + strings.ToLower(rand.Text())[:20] }

var (
	run     = regexp.MustCompile(`[A-Za-z0-9]+`)
	escapes = regexp.MustCompile(`%[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}`)
	// packed matches base64 of a gzip stream.
	packed = regexp.MustCompile(`H4sI[A-Za-z0-9+/_-]+`)
)

// Add looks for a secret that the program or the test has made, such as a token or a key. Of its runs
// of letters and digits the long ones are looked for, each alone. Without one it is looked for as a whole.
func (s *Set) Add(place, secret string) {
	cores := slices.DeleteFunc(run.FindAllString(secret, -1), func(core string) bool { return len(core) < minCore })
	if len(cores) == 0 && len(secret) < minCore {
		panic(fmt.Sprintf("the secret of %s has fewer than %d bytes", place, minCore))
	}
	if len(cores) == 0 {
		cores = []string{secret}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, core := range cores {
		s.needles = append(s.needles,
			needle{place, "plain", strings.ToLower(core), true}, needle{place, "hex", hex.EncodeToString([]byte(core)), true})
		for offset, inner := range inBase64(core) {
			s.needles = append(s.needles, needle{place, fmt.Sprintf("base64 at offset %d", offset), inner, false})
		}
	}
}

// inBase64 returns the characters that base64 of any longer text has where it holds the core, for each
// of the three offsets of its first byte. The last one of an encoded group may depend on what follows.
// Letters and digits alone become the same characters in both alphabets, unless they become one of the
// two that differ; such a character ends the part that is looked for.
func inBase64(core string) (inner [3]string) {
	for offset := range inner {
		encoded := base64.StdEncoding.EncodeToString(append(make([]byte, offset), core...))
		from := (offset*8 + 5) / 6
		whole := encoded[from : (offset+len(core))*8/6]
		inner[offset] = slices.MaxFunc(strings.FieldsFunc(whole, func(r rune) bool { return r == '+' || r == '/' }),
			func(a, b string) int { return len(a) - len(b) })
	}
	return inner
}

// Find returns where and how secrets are in a text, sorted, each once.
func (s *Set) Find(text string) []string {
	var all []string
	for found := range s.find(text) {
		all = append(all, found)
	}
	slices.Sort(all)
	return all
}

// shownBefore is how much of a text Check prints before a secret.
const shownBefore = 80

// Check fails the test if a text shows a secret. It prints what precedes the secret.
func (s *Set) Check(t testing.TB, where, text string) {
	t.Helper()
	for found, before := range s.find(text) {
		t.Errorf("%s shows the secret of %s, after %q", where, found, before)
	}
}

// find returns what precedes the secrets of a text, by where and how they are in it.
func (s *Set) find(text string) map[string]string {
	s.mu.Lock()
	needles := slices.Clone(s.needles)
	s.mu.Unlock()
	found := map[string]string{}
	for _, layer := range layers(text) {
		lower := strings.ToLower(layer.text)
		for _, n := range needles {
			in := layer.text
			if n.ignoresCase {
				in = lower
			}
			if at := strings.Index(in, n.text); at >= 0 {
				found[fmt.Sprintf("%s (%s%s)", n.place, n.form, layer.suffix)] = in[max(at-shownBefore, 0):at]
			}
		}
	}
	return found
}

// layer is a text, or a decoded form of it.
type layer struct{ text, suffix string }

// layers returns a text, the text without escapes, and what gzip streams in it hold, also those in
// base64. An escape inside of a core, which no usual encoder writes, is undone as well.
func layers(text string) []layer {
	all := []layer{{text: text}}
	if escapes.MatchString(text) {
		all = append(all, layer{escapes.ReplaceAllStringFunc(text, unescape), ", escaped"})
	}
	for _, encoded := range packed.FindAllString(text, -1) {
		encoding := base64.RawStdEncoding
		if strings.ContainsAny(encoded, "-_") {
			encoding = base64.RawURLEncoding
		}
		content, _ := encoding.DecodeString(encoded) // up to the first character that does not fit
		all = append(all, inflated(content)...)
	}
	return append(all, inflated([]byte(text))...)
}

// unescape returns the byte of one escape.
func unescape(escape string) string {
	digits := strings.TrimLeft(escape, `%\ux`)
	decoded, err := hex.DecodeString(digits[max(len(digits)-2, 0):])
	if err != nil {
		return escape
	}
	return string(decoded)
}

// inflated returns what each gzip stream in a text holds, and streams within.
func inflated(text []byte) (all []layer) {
	magic := []byte{0x1f, 0x8b, 0x08}
	for at := bytes.Index(text, magic); at >= 0; at = bytes.Index(text, magic) {
		text = text[at:]
		if z, err := gzip.NewReader(bytes.NewReader(text)); err == nil {
			content, _ := io.ReadAll(io.LimitReader(z, maxInflated)) // a stream that was cut off holds something, too
			for _, inner := range layers(string(content)) {
				all = append(all, layer{inner.text, ", below gzip" + inner.suffix})
			}
		}
		text = text[len(magic):]
	}
	return all
}
