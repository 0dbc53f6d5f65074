// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// token is one term as it was written.
type token struct {
	field, operator string
	values          []value
	// at is where it begins, in characters from 1.
	at int
}

// value is one that a term compares with.
type value struct {
	text     string
	isQuoted bool
	at       int
}

// isPattern reports whether * and ? of the value stand for other text.
func (v value) isPattern() bool { return !v.isQuoted && strings.ContainsAny(v.text, "*?") }

func (t token) errorf(format string, args ...any) error {
	return &Error{Position: t.at, Message: fmt.Sprintf(format, args...)}
}

func (t token) valueErrorf(i int, format string, args ...any) error {
	return &Error{Position: t.values[i].at, Message: fmt.Sprintf(format, args...)}
}

// String returns the term in its one spelling.
func (t token) String() string {
	written := make([]string, len(t.values))
	for i, v := range t.values {
		if written[i] = v.text; v.isQuoted || v.text == "" || strings.ContainsFunc(v.text, isSpecial) {
			written[i] = quoted(v.text)
		}
	}
	return t.field + t.operator + strings.Join(written, ",")
}

// isSpecial reports whether a character means something outside of quotes, except * and ?.
func isSpecial(r rune) bool {
	return unicode.IsSpace(r) || strings.ContainsRune(`"\,=~<>!`, r)
}

// Quote returns a value in the form that means itself in a filter.
func Quote(text string) string {
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return isSpecial(r) || r == '*' || r == '?' }) {
		return text
	}
	return quoted(text)
}

func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// reader walks over the characters of a filter.
type reader struct {
	rest []rune
	at   int
}

func (r *reader) peek() rune {
	if len(r.rest) == 0 {
		return 0
	}
	return r.rest[0]
}

func (r *reader) next() rune {
	c := r.rest[0]
	r.rest, r.at = r.rest[1:], r.at+1
	return c
}

func (r *reader) isEnd() bool { return len(r.rest) == 0 }

// split reads the terms of a filter.
func split(text string) ([]token, error) {
	if len(text) > MaxBytes {
		return nil, &Error{Position: 1, Message: fmt.Sprintf("a filter has at most %d bytes, and this one has %d", MaxBytes, len(text))}
	}
	if !utf8.ValidString(text) {
		return nil, &Error{Position: 1, Message: "is not valid UTF-8"}
	}
	r := &reader{rest: []rune(text), at: 1}
	for i, c := range r.rest {
		if unicode.IsControl(c) && !unicode.IsSpace(c) {
			return nil, &Error{Position: i + 1, Message: "a filter holds no control characters"}
		}
	}
	var tokens []token
	for {
		for !r.isEnd() && unicode.IsSpace(r.peek()) {
			r.next()
		}
		if r.isEnd() {
			return tokens, nil
		}
		t, err := r.term()
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, t)
	}
}

// term reads one term. Outside of a term is a space.
func (r *reader) term() (token, error) {
	t := token{at: r.at}
	if r.peek() != '"' {
		t.field = r.word(isSpecial)
		if t.operator = r.operator(); t.operator == "" && !r.isEnd() && !unicode.IsSpace(r.peek()) {
			return t, &Error{Position: r.at, Message: fmt.Sprintf("%q means nothing here; put a text with it in double quotes", string(r.peek()))}
		}
		if t.operator == "" {
			t.values, t.field = []value{{text: t.field, at: t.at}}, ""
			return t, t.checkValues()
		}
		if t.field == "" {
			return t, t.errorf("a field's name is missing before %s", t.operator)
		}
	}
	for {
		v, err := r.value()
		if err != nil {
			return t, err
		}
		t.values = append(t.values, v)
		if t.operator == "" || r.peek() != ',' {
			break
		}
		r.next()
	}
	if !r.isEnd() && !unicode.IsSpace(r.peek()) {
		return t, &Error{Position: r.at, Message: fmt.Sprintf("%q means nothing here; put a value with it in double quotes", string(r.peek()))}
	}
	return t, t.checkValues()
}

func (t token) checkValues() error {
	for i, v := range t.values {
		switch {
		case v.text == "" && !v.isQuoted:
			return t.valueErrorf(i, `a value is missing after %s%s; "" is the empty one`, t.field, t.operator)
		case len(v.text) > maxValue:
			return t.valueErrorf(i, "a value has at most %d bytes", maxValue)
		case v.text == "" && (t.operator == "" || strings.HasSuffix(t.operator, "~")):
			return t.valueErrorf(i, "an empty text is in everything")
		}
	}
	return nil
}

// word reads up to a character at which it stops.
func (r *reader) word(stop func(rune) bool) string {
	var b strings.Builder
	for !r.isEnd() && !stop(r.peek()) {
		b.WriteRune(r.next())
	}
	return b.String()
}

// operator reads an operator; empty: none follows.
func (r *reader) operator() string {
	for _, operator := range []string{"!=", "!~", "=", "~", "<", ">"} {
		if strings.HasPrefix(string(r.rest[:min(len(r.rest), len(operator))]), operator) {
			for range operator {
				r.next()
			}
			return operator
		}
	}
	return ""
}

// value reads a value, in quotes or without.
func (r *reader) value() (value, error) {
	v := value{at: r.at}
	if r.peek() != '"' {
		v.text = r.word(func(c rune) bool { return unicode.IsSpace(c) || c == ',' || c == '"' })
		return v, nil
	}
	r.next()
	v.isQuoted = true
	var b strings.Builder
	for {
		if r.isEnd() {
			return v, &Error{Position: v.at, Message: "a double quote has no end"}
		}
		c := r.next()
		if c == '"' {
			v.text = b.String()
			return v, nil
		}
		if c == '\\' && !r.isEnd() {
			c = r.next()
		}
		b.WriteRune(c)
	}
}
