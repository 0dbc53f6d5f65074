// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ignore

import "strings"

// set is a set of bytes, one bit each.
type set [256 / 64]uint64

func (s *set) has(b byte) bool { return s[b/64]&(1<<(b%64)) != 0 }

func (s *set) add(from, to byte) {
	for b := int(from); b <= int(to); b++ {
		s[b/64] |= 1 << (b % 64)
	}
}

func (s *set) remove(b byte) { s[b/64] &^= 1 << (b % 64) }

func (s *set) invert() {
	for i := range s {
		s[i] = ^s[i]
	}
}

// parseSet parses a bracket expression at the beginning of text, and returns how many bytes of text
// it takes. ok is false if the expression does not end, or names an unknown class. No set contains
// a slash.
func parseSet(text string) (members *set, length int, ok bool) {
	members = &set{}
	i := 1
	negated := i < len(text) && (text[i] == '!' || text[i] == '^')
	if negated {
		i++
	}
	var before byte // what a range may begin with; 0 if nothing
	for first := true; ; first = false {
		if i >= len(text) {
			return nil, 0, false
		}
		if text[i] == ']' && !first {
			break
		}
		n := 0
		if before, n = members.item(text[i:], before); n == 0 {
			return nil, 0, false
		}
		i += n
	}
	if negated {
		members.invert()
	}
	members.remove('/')
	return members, i + 1, true
}

// item adds what the beginning of text, inside of the brackets, denotes: a byte, the rest of a
// range whose first byte came before, or a named class. It returns the byte with which a following
// range begins, and how many bytes it read, or 0 if the text is malformed.
func (s *set) item(text string, before byte) (last byte, length int) {
	switch {
	case text[0] == '-' && before != 0 && len(text) > 1 && text[1] != ']':
		to, n := one(text[1:])
		if n > 0 {
			s.add(before, to)
			n++
		}
		return 0, n
	case strings.HasPrefix(text, "[:"):
		name, _, closed := strings.Cut(text[2:], "]")
		if !closed {
			return 0, 0
		}
		if inner, named := strings.CutSuffix(name, ":"); named {
			if !s.addClass(inner) {
				return 0, 0
			}
			return 0, len("[:") + len(name) + len("]")
		}
	}
	b, n := one(text)
	if n > 0 {
		s.add(b, b)
	}
	return b, n
}

// one reads a byte, which may follow a backslash.
func one(text string) (b byte, length int) {
	if text[0] != '\\' {
		return text[0], 1
	}
	if len(text) == 1 {
		return 0, 0
	}
	return text[1], 2
}

// addClass adds a named class of ASCII characters.
func (s *set) addClass(name string) bool {
	for _, r := range classes[name] {
		s.add(r[0], r[1])
	}
	_, ok := classes[name]
	return ok
}

// classes are ranges of bytes by class name. They never change.
var classes = map[string][][2]byte{
	"alnum":  {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}},
	"alpha":  {{'A', 'Z'}, {'a', 'z'}},
	"blank":  {{' ', ' '}, {'\t', '\t'}},
	"cntrl":  {{0, 0x1f}, {0x7f, 0x7f}},
	"digit":  {{'0', '9'}},
	"graph":  {{'!', '~'}},
	"lower":  {{'a', 'z'}},
	"print":  {{' ', '~'}},
	"punct":  {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}},
	"space":  {{'\t', '\n'}, {'\r', '\r'}, {' ', ' '}}, // as in Git: no form feed, no vertical tab
	"upper":  {{'A', 'Z'}},
	"xdigit": {{'0', '9'}, {'A', 'F'}, {'a', 'f'}},
}
