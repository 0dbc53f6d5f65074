// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ignore

import "strings"

// special are the bytes that end the literal prefix of a pattern.
const special = `*?[\`

// pattern is one compiled line.
type pattern struct {
	negated    bool
	folderOnly bool
	nameOnly   bool // is matched against the last element of a path, at any depth
	prefix     string
	rest       []token // the part after prefix; empty if prefix is the whole pattern
}

// compile parses a line without the spaces at its end. ok is false for a line that can match
// nothing.
func compile(line string) (p pattern, ok bool) {
	line, p.negated = strings.CutPrefix(line, "!")
	line, p.folderOnly = strings.CutSuffix(line, "/")
	p.nameOnly = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return p, false
	}
	literal := strings.IndexAny(line, special)
	if literal < 0 {
		literal = len(line)
	}
	p.prefix = line[:literal]
	p.rest, ok = tokenize(line[literal:])
	return p, ok
}

// match reports whether the pattern matches a path whose last element is name.
func (p *pattern) match(path, name string, folder bool) bool {
	if p.folderOnly && !folder {
		return false
	}
	if p.nameOnly {
		path = name
	}
	if p.rest == nil {
		return path == p.prefix
	}
	path, ok := strings.CutPrefix(path, p.prefix)
	return ok && run(p.rest, path)
}

// kind is the kind of input that a token matches.
type kind uint8

const (
	literal  kind = iota // one byte
	anyByte              // one byte except a slash
	class                // one byte of a set
	star                 // any bytes except slashes
	deep                 // any bytes
	skip                 // "**/", with skipping: nothing, or any bytes up to a slash
	skipping             // always follows skip
)

type token struct {
	kind kind
	byte byte
	set  *set
}

// tokenize parses a pattern from its first special byte on. ok is false for a pattern that can
// match nothing.
func tokenize(text string) (tokens []token, ok bool) {
	for i := 0; i < len(text); {
		switch text[i] {
		case '\\':
			if i+1 == len(text) {
				return nil, false
			}
			tokens = append(tokens, token{kind: literal, byte: text[i+1]})
			i += 2
		case '?':
			tokens = append(tokens, token{kind: anyByte})
			i++
		case '[':
			members, length, ok := parseSet(text[i:])
			if !ok {
				return nil, false
			}
			tokens = append(tokens, token{kind: class, set: members})
			i += length
		case '*':
			more, length := stars(text, i)
			tokens = append(tokens, more...)
			i += length
		default:
			tokens = append(tokens, token{kind: literal, byte: text[i]})
			i++
		}
	}
	return tokens, true
}

// stars parses the asterisks at i, and returns how many bytes of text they take. Two or more have a
// special meaning if they are a whole element. For Git, an element begins after a slash, and also
// where the literal prefix of the pattern ends, even in the middle of a name.
func stars(text string, i int) (tokens []token, length int) {
	rest := strings.TrimLeft(text[i:], "*")
	length = len(text) - i - len(rest)
	whole := length > 1 && (i == 0 || text[i-1] == '/')
	switch {
	case whole && strings.HasPrefix(rest, "/"):
		return []token{{kind: skip}, {kind: skipping}}, length + 1
	case whole && (rest == "" || strings.HasPrefix(rest, `\/`)):
		return []token{{kind: deep}}, length
	default:
		return []token{{kind: star}}, length
	}
}

// inPlace is the largest number of tokens that run handles without allocating.
const inPlace = 63

// run reports whether the tokens match all of text. It follows all paths through the pattern in
// parallel, so that matching takes at most the length of the pattern times the length of the text.
func run(tokens []token, text string) bool {
	var places [2][inPlace + 1]bool
	now, next := places[0][:], places[1][:]
	if len(tokens) > inPlace {
		now, next = make([]bool, len(tokens)+1), make([]bool, len(tokens)+1)
	}
	now, next = now[:len(tokens)+1], next[:len(tokens)+1]
	now[0] = true
	for i := range len(text) {
		enter(tokens, now)
		if !step(tokens, now, next, text[i]) {
			return false
		}
		now, next = next, now
		clear(next)
	}
	enter(tokens, now)
	return now[len(tokens)]
}

// enter adds the positions that are reached without reading a byte.
func enter(tokens []token, at []bool) {
	for i, t := range tokens {
		if !at[i] {
			continue
		}
		switch t.kind {
		case star, deep:
			at[i+1] = true
		case skip:
			at[i+1], at[i+2] = true, true
		case literal, anyByte, class, skipping:
		}
	}
}

// step sets the positions that are reached by reading b, and reports whether there are any.
func step(tokens []token, now, next []bool, b byte) bool {
	alive := false
	for i, t := range tokens {
		if !now[i] {
			continue
		}
		stay, on := t.read(b)
		next[i] = next[i] || stay
		next[i+1] = next[i+1] || on
		alive = alive || stay || on
	}
	return alive
}

// read reports whether a token can consume b and stay, and whether it can consume b and be done.
func (t token) read(b byte) (stay, on bool) {
	switch t.kind {
	case literal:
		return false, b == t.byte
	case anyByte:
		return false, b != '/'
	case class:
		return false, t.set.has(b)
	case star:
		return b != '/', false
	case deep:
		return true, false
	case skipping:
		return true, b == '/'
	case skip:
	}
	return false, false
}
