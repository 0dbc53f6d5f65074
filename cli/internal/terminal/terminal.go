// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package terminal writes text of others to a terminal, which only shows it.
//
// A terminal obeys control characters: they move the cursor, rename the window, and have some
// terminals type. Leat prints text from hubs, clusters, committers and upstreams, so all text goes
// through a [Writer].
package terminal

import (
	"bytes"
	"io"
	"os"
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Colours are the texts between "ESC [" and "m" that a Writer lets pass: the colours of leat's own
// output, and their end (ECMA-48, SGR).
var Colours = []string{Reset, Faint, Red, Green, Yellow}

// Colours by name.
const (
	Reset  = "0"
	Faint  = "2"
	Red    = "31"
	Green  = "32"
	Yellow = "33"
)

const (
	introducer = "\x1b["
	// hidden stands for each character that a Writer does not write.
	hidden = "\uFFFD"
)

// Paint returns the text in one of Colours.
func Paint(text, colour string) string {
	return introducer + colour + "m" + text + introducer + Reset + "m"
}

// IsTerminal reports whether w is a terminal, also behind a Writer.
func IsTerminal(w any) bool {
	if writer, ok := w.(*Writer); ok {
		return IsTerminal(writer.to)
	}
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Writer replaces what a terminal would obey or what reorders text: control characters except line
// feeds and tabs, escape sequences except the sequences of Colours, characters for bidirectional
// text, and bytes that are not UTF-8. It is safe for concurrent use.
type Writer struct {
	mu sync.Mutex
	to io.Writer
	// held is the beginning of a character or of a colour whose end has not been written yet.
	held []byte
}

// NewWriter returns a Writer in front of to.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := slices.Concat(w.held, p)
	var shown bytes.Buffer
	for len(text) > 0 {
		size, isWhole := next(text)
		if !isWhole {
			break
		}
		if isShown(text[:size]) {
			shown.Write(text[:size])
		} else {
			shown.WriteString(hidden)
		}
		text = text[size:]
	}
	w.held = bytes.Clone(text)
	if _, err := w.to.Write(shown.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes the held bytes: the beginning of a character or of a colour, which has no end.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.held) == 0 {
		return nil
	}
	w.held = nil
	_, err := io.WriteString(w.to, hidden)
	return err
}

// next returns the size of the first colour or character of a text. isWhole is false if more bytes may
// belong to it.
func next(text []byte) (size int, isWhole bool) {
	if text[0] == introducer[0] {
		for _, colour := range Colours {
			sequence := introducer + colour + "m"
			if bytes.HasPrefix(text, []byte(sequence)) {
				return len(sequence), true
			}
			if len(text) < len(sequence) && sequence[:len(text)] == string(text) {
				return 0, false
			}
		}
		return 1, true
	}
	if !utf8.FullRune(text) {
		return 0, false
	}
	_, size = utf8.DecodeRune(text)
	return size, true
}

// isShown reports whether a colour or a character may be written.
func isShown(part []byte) bool {
	r, size := utf8.DecodeRune(part)
	switch {
	case size < len(part): // a colour
		return true
	case r == utf8.RuneError && size == 1:
		return false
	case r == '\n', r == '\t':
		return true
	}
	return !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r)
}
