// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package ignore understands ignore rules: the syntax of gitignore(5), with the meaning that the
// git command gives it.
//
// Like Git it takes paths as bytes, tells upper from lower case, and knows no invalid rule: a
// pattern that makes no sense matches nothing. Its tests hold it against the git command. It is
// written again because the matchers at hand, go-git's among them, differ from Git: in negated and
// named character classes, in "**" that has to try again, and in names with leading blanks or
// escaped signs.
//
// A verdict is about one path. That what lies below an ignored folder is ignored as well, and
// cannot be brought back, is for the caller to see to: it walks downwards and does not enter such a
// folder.
package ignore

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Verdict is what rules say of a path.
type Verdict int

// The verdicts.
const (
	Undecided Verdict = iota // no pattern matches
	Ignored
	Kept // the last pattern that matches begins with "!"
)

// Rules are patterns in order. They are immutable, and may be used concurrently.
type Rules struct{ patterns []pattern }

// Parse reads the rules of an ignore file.
func Parse(text []byte) *Rules {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	r := &Rules{}
	for line := range strings.SplitSeq(string(text), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		r.add(strings.TrimSuffix(line, "\r"))
	}
	return r
}

// ParseLines returns rules from one pattern a line. Unlike in a file a leading "#" has no meaning
// of its own.
func ParseLines(lines []string) *Rules {
	r := &Rules{}
	for _, line := range lines {
		r.add(line)
	}
	return r
}

// MaxLineBytes is the longest line that [CheckLine] accepts.
const MaxLineBytes = 1024

// CheckLine refuses a line for [ParseLines] that can only be a mistake. Its errors are phrases that
// follow the line.
func CheckLine(line string) error {
	switch {
	case len(line) > MaxLineBytes:
		return fmt.Errorf("has %d bytes; at most %d are allowed", len(line), MaxLineBytes)
	case strings.ContainsAny(line, "\x00\n\r"):
		return errors.New("is more than one line")
	case strings.HasPrefix(line, "#"):
		return errors.New(`is a comment; a name that begins with # is written \#`)
	case len(ParseLines([]string{line}).patterns) == 0:
		return errors.New("can match nothing")
	}
	return nil
}

// add takes in a line, unless it can match nothing.
func (r *Rules) add(line string) {
	line, _, _ = strings.Cut(line, "\x00") // no path holds one; Git takes it for the line's end
	if p, ok := compile(trimSpaces(line)); ok {
		r.patterns = append(r.patterns, p)
	}
}

// trimSpaces removes the spaces at the end of a line, but one that a backslash protects.
func trimSpaces(line string) string {
	end := 0 // of what stays
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			i++ // whatever it is, it stays
		}
		end = min(i+1, len(line))
	}
	return line[:end]
}

// Match returns the verdict on a path, relative to the folder of the rules: that of the last
// pattern that matches it.
func (r *Rules) Match(path string, folder bool) Verdict {
	name := path[strings.LastIndexByte(path, '/')+1:]
	for i := len(r.patterns) - 1; i >= 0; i-- {
		if p := &r.patterns[i]; p.match(path, name, folder) {
			if p.negated {
				return Kept
			}
			return Ignored
		}
	}
	return Undecided
}

// Chain is the rules that apply in a folder: its own before those of the folders above it. A nil
// Chain has none.
type Chain struct {
	above  *Chain
	folder string // with a slash at the end, or the root, ""
	rules  *Rules
}

// With returns the chain of a folder, below that of c, that has rules of its own. The root is "".
func (c *Chain) With(folder string, rules *Rules) *Chain {
	if folder != "" {
		folder += "/"
	}
	return &Chain{above: c, folder: folder, rules: rules}
}

// Ignores reports whether a path below the chain's folder is ignored; it says nothing about the
// folders above that path.
func (c *Chain) Ignores(path string, folder bool) bool {
	for ; c != nil; c = c.above {
		switch c.rules.Match(strings.TrimPrefix(path, c.folder), folder) {
		case Ignored:
			return true
		case Kept:
			return false
		case Undecided:
		}
	}
	return false
}
