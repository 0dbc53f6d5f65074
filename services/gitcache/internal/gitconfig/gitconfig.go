// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package gitconfig reads files in the syntax of git config in commits, such as .gitmodules and
// .lfsconfig. It follows no includes and reads nothing but the text.
package gitconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrSyntax is matched by every error of [Parse].
var ErrSyntax = errors.New("not the syntax of git config")

// Setting is one line of a file.
type Setting struct {
	Section    string // lower case
	Subsection string // as written; empty: the section has none
	Key        string // lower case
	Value      string
}

// Parse returns the settings in their order; of several with one name the last counts. The error
// matches [ErrSyntax].
func Parse(text string) ([]Setting, error) {
	p := &parser{rest: strings.TrimPrefix(strings.ReplaceAll(text, "\r\n", "\n"), "\ufeff"), line: 1}
	for {
		p.skip()
		if p.rest == "" {
			return p.settings, nil
		}
		var err error
		if p.rest[0] == '[' {
			err = p.header()
		} else {
			err = p.setting()
		}
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrSyntax, p.line, err)
		}
	}
}

// Last returns the last value of a setting, or "" if it has none.
func Last(settings []Setting, section, subsection, key string) string {
	for _, s := range slices.Backward(settings) {
		if s.Section == section && s.Subsection == subsection && s.Key == key {
			return s.Value
		}
	}
	return ""
}

// parser takes text from the front of rest.
type parser struct {
	rest                string
	line                int
	section, subsection string
	settings            []Setting
}

func (p *parser) next() byte {
	c := p.rest[0]
	p.rest = p.rest[1:]
	if c == '\n' {
		p.line++
	}
	return c
}

// skip takes white space and comments.
func (p *parser) skip() {
	for p.rest != "" {
		switch p.rest[0] {
		case ' ', '\t', '\n', '\r', '\v', '\f':
			p.next()
		case '#', ';':
			p.comment()
		default:
			return
		}
	}
}

func (p *parser) comment() {
	if end := strings.IndexByte(p.rest, '\n'); end >= 0 {
		p.rest = p.rest[end:]
		return
	}
	p.rest = ""
}

func (p *parser) blanks() { p.rest = strings.TrimLeft(p.rest, " \t") }

// word takes letters, digits, and the bytes in more.
func (p *parser) word(more string) string {
	n := 0
	for n < len(p.rest) && (isAlphanumeric(p.rest[n]) || strings.IndexByte(more, p.rest[n]) >= 0) {
		n++
	}
	w := p.rest[:n]
	p.rest = p.rest[n:]
	return w
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// header takes [section], [section "subsection"] and the old [section.subsection].
func (p *parser) header() error {
	p.next()
	name := strings.ToLower(p.word("-."))
	if name == "" {
		return errors.New("a section has no name")
	}
	p.section, p.subsection, _ = strings.Cut(name, ".")
	p.blanks()
	if strings.HasPrefix(p.rest, `"`) {
		p.next()
		sub, err := p.quoted()
		if err != nil {
			return err
		}
		p.subsection = sub
	}
	if !strings.HasPrefix(p.rest, "]") {
		return errors.New("a section's name does not end")
	}
	p.next()
	return nil
}

func (p *parser) quoted() (string, error) {
	var name strings.Builder
	for p.rest != "" && p.rest[0] != '\n' {
		switch c := p.next(); {
		case c == '"':
			return name.String(), nil
		case c == '\\' && p.rest != "" && p.rest[0] != '\n': // any following character is literal
			name.WriteByte(p.next())
		default:
			name.WriteByte(c)
		}
	}
	return "", errors.New("a quoted name does not end")
}

func (p *parser) setting() error {
	if p.section == "" {
		return errors.New("a setting stands before any section")
	}
	key := strings.ToLower(p.word("-"))
	if key == "" || key[0] < 'a' || key[0] > 'z' {
		return errors.New("a setting has no name")
	}
	p.blanks()
	value := "true" // a name alone is a switch
	if strings.HasPrefix(p.rest, "=") {
		p.next()
		var err error
		if value, err = p.value(); err != nil {
			return err
		}
	} else if p.rest != "" && strings.IndexByte("\n#;", p.rest[0]) < 0 {
		return errors.New("a setting's name is followed by something else than =")
	}
	p.settings = append(p.settings, Setting{Section: p.section, Subsection: p.subsection, Key: key, Value: value})
	return nil
}

// value takes the rest of the line, and further lines where it ends with a backslash.
func (p *parser) value() (string, error) {
	p.blanks()
	var value strings.Builder
	inQuotes, kept := false, 0 // white space after kept counts only if something follows
	for p.rest != "" && p.rest[0] != '\n' {
		switch c := p.next(); {
		case c == '"':
			inQuotes = !inQuotes
			kept = value.Len()
		case c == '\\':
			if err := p.escape(&value); err != nil {
				return "", err
			}
			kept = value.Len()
		case !inQuotes && (c == '#' || c == ';'):
			p.comment()
		default:
			value.WriteByte(c)
			if inQuotes || (c != ' ' && c != '\t') {
				kept = value.Len()
			}
		}
	}
	if inQuotes {
		return "", errors.New("quotes are not closed")
	}
	return value.String()[:kept], nil
}

func (p *parser) escape(value *strings.Builder) error {
	if p.rest == "" {
		return errors.New("the last line goes on")
	}
	switch c := p.next(); c {
	case '\n':
	case 'n':
		value.WriteByte('\n')
	case 't':
		value.WriteByte('\t')
	case 'b':
		value.WriteByte('\b')
	case '"', '\\':
		value.WriteByte(c)
	default:
		return fmt.Errorf("nothing is written as \\%c", c)
	}
	return nil
}
