// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package terminal_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/leatdev/leat/cli/internal/terminal"
)

func TestSecTerminalObeysNothing(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"plain\ttext\n":                      "plain\ttext\n",
		"Grüße, 世界 🚢":                        "Grüße, 世界 🚢",
		terminal.Paint("ok", terminal.Green): "\x1b[32mok\x1b[0m",
		"\x1b]0;title\a":                     "\uFFFD]0;title\uFFFD",
		"\x1b[2J":                            "\uFFFD[2J",
		"\x1b[8mhidden":                      "\uFFFD[8mhidden",
		"\x1b[31;5mred":                      "\uFFFD[31;5mred",
		"a\rb\bc\x00":                        "a\uFFFDb\uFFFDc\uFFFD",
		"\u009b2J":                           "\uFFFD2J",
		"\x9b2J":                             "\uFFFD2J",
		"a\u202eb\u2066":                     "a\uFFFDb\uFFFD",
		"cut \xe4\xb8":                       "cut \uFFFD",
		"cut \x1b[3":                         "cut \uFFFD",
	} {
		if got := write(t, given, len(given)); got != want {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
}

// colour matches the sequences that a terminal may obey.
var colour = regexp.MustCompile(`\x1b\[(0|2|31|32|33)m`)

// FuzzSecTerminalObeysNothing writes any text in pieces of any size.
func FuzzSecTerminalObeysNothing(f *testing.F) {
	f.Add("\x1b[32mok\x1b[0m \x1b]0;t\a\u009b\xe4", 1)
	f.Add("世\x1b[\x1b[3", 2)
	f.Fuzz(func(t *testing.T, text string, piece int) {
		whole := write(t, text, len(text))
		if pieces := write(t, text, piece); pieces != whole {
			t.Errorf("got %q in pieces of %d, want %q as at once", pieces, piece, whole)
		}
		for _, r := range colour.ReplaceAllString(whole, "") {
			if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
				t.Errorf("%q writes %q", text, r)
			}
		}
		if isPlain := !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }); isPlain && whole != strings.ToValidUTF8(text, "") && !strings.ContainsRune(text, '\uFFFD') {
			t.Errorf("got %q, want the plain text %q", whole, text)
		}
	})
}

// write returns what a Writer makes of a text that is written in pieces.
func write(t *testing.T, text string, piece int) string {
	t.Helper()
	var shown bytes.Buffer
	w := terminal.NewWriter(&shown)
	for piece = max(piece, 1); text != ""; {
		part := text[:min(piece, len(text))]
		if n, err := w.Write([]byte(part)); err != nil || n != len(part) {
			t.Fatalf("got %d, %v", n, err)
		}
		text = text[len(part):]
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return shown.String()
}
