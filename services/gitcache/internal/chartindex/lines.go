// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chartindex

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxHead bounds the bytes held of one line.
const maxHead = 64 << 10

// lineKind is the kind of a line by its beginning alone. Inside of a quoted text it may be
// something else.
type lineKind int

const (
	lineBlank lineKind = iota
	lineComment
	lineMark      // begins or ends a document
	lineDirective // begins with "%"
	lineTab       // its first character other than a space is a tab
	lineContent
)

// lines reads a part of a source, line by line.
type lines struct {
	reader *bufio.Reader
	err    error // nil at the end

	// Of the line read last:
	at, end int64  // offsets in the source, of its first byte and after its break
	head    []byte // its beginning with its break, valid until the next line
	isLong  bool   // head is not all of it
	column  int    // how many spaces it begins with
	kind    lineKind
}

func newLines(s Source, part span) *lines {
	return &lines{reader: bufio.NewReaderSize(io.NewSectionReader(s, part.from, part.to-part.from), maxHead), at: part.from, end: part.from}
}

// next reads the next line. It returns false at the end, and on an error.
func (l *lines) next() bool {
	l.at = l.end
	head, err := l.reader.ReadSlice('\n')
	l.end += int64(len(head))
	if l.isLong = errors.Is(err, bufio.ErrBufferFull); l.isLong {
		head = bytes.Clone(head)
		for errors.Is(err, bufio.ErrBufferFull) {
			var more []byte
			more, err = l.reader.ReadSlice('\n')
			l.end += int64(len(more))
		}
	}
	if err != nil && err != io.EOF {
		l.err = err
		return false
	}
	if l.at == 0 {
		head = bytes.TrimPrefix(head, []byte(byteOrderMark))
	}
	l.head = head
	l.classify()
	return l.end > l.at
}

func (l *lines) classify() {
	text := bytes.TrimLeft(l.head, " ")
	l.column = len(l.head) - len(text)
	text = bytes.TrimRight(text, "\r\n")
	switch {
	case len(bytes.TrimLeft(text, " \t")) == 0 && !l.isLong:
		l.kind = lineBlank
	case len(text) == 0 || text[0] == '\t': // or a long line that begins with nothing but spaces
		l.kind = lineTab
	case text[0] == '#':
		l.kind = lineComment
	case l.column == 0 && isMark(text):
		l.kind = lineMark
	case l.column == 0 && text[0] == '%':
		l.kind = lineDirective
	default:
		l.kind = lineContent
	}
}

// isMark reports whether a line begins or ends a document.
func isMark(text []byte) bool {
	if !bytes.HasPrefix(text, []byte("---")) && !bytes.HasPrefix(text, []byte("...")) {
		return false
	}
	return len(text) == 3 || text[3] == ' ' || text[3] == '\t'
}

// isItem reports whether a line of content begins an item of a list.
func (l *lines) isItem() bool {
	text := l.head[l.column:]
	return text[0] == '-' && (len(text) == 1 || bytes.IndexByte([]byte(" \t\r\n"), text[1]) >= 0)
}

// isEntries reports whether a line is the key of the entries, and has no value.
func (l *lines) isEntries() bool {
	if l.kind != lineContent || l.column > 0 || l.isLong {
		return false
	}
	for _, key := range []string{"entries:", `"entries":`, `'entries':`} {
		if value, ok := bytes.CutPrefix(l.head, []byte(key)); ok {
			rest := bytes.TrimSpace(value)
			return len(rest) == 0 || rest[0] == '#' && (value[0] == ' ' || value[0] == '\t')
		}
	}
	return false
}
