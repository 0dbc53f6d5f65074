// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package ignore implements ignore rules: the syntax of gitignore(5), with the meaning that the git
// command gives it.
//
// Like Git it treats paths as bytes, is case-sensitive, and has no invalid rules: a malformed
// pattern matches nothing. Its tests compare it with the git command. It exists because other
// matchers, such as go-git's, differ from Git in negated and named character classes, in the
// backtracking of "**", and in names with leading blanks or escaped characters.
//
// A verdict is about one path. Everything below an ignored folder is also ignored, and cannot be
// brought back. The caller is responsible for that: it walks downwards and does not enter ignored
// folders.
package ignore

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Verdict is the result of matching a path against rules.
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

// CheckLine returns an error for a line of [ParseLines] that can only be a mistake. Its errors are
// phrases that follow the line.
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

// add adds a line, unless it can match nothing.
func (r *Rules) add(line string) {
	line, _, _ = strings.Cut(line, "\x00") // a path cannot contain NUL; Git takes it for the end of the line
	if p, ok := compile(trimSpaces(line)); ok {
		r.patterns = append(r.patterns, p)
	}
}

// trimSpaces removes the spaces at the end of a line, except one that a backslash protects.
func trimSpaces(line string) string {
	end := 0 // of the kept part
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			i++ // an escaped byte stays
		}
		end = min(i+1, len(line))
	}
	return line[:end]
}

// Match returns the verdict of the last pattern that matches a path, which is relative to the
// folder of the rules.
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

// Chain holds the rules that apply in a folder: its own before the rules of the folders above it. A
// nil Chain has no rules.
type Chain struct {
	above  *Chain
	folder string // with a slash at the end, or the root, ""
	rules  *Rules
}

// With returns the chain of a folder below the folder of c, which has the given rules of its own.
// The root is "".
func (c *Chain) With(folder string, rules *Rules) *Chain {
	if folder != "" {
		folder += "/"
	}
	return &Chain{above: c, folder: folder, rules: rules}
}

// Ignores reports whether a path below the chain's folder is ignored. It does not check the folders
// above that path.
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
