// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os"
	"strings"
)

// setting is one bound variable. It is also the [flag.Value] of its flag, which only remembers the
// text.
type setting struct {
	name   string // flag without dashes, or the variable's name when there is no flag
	flag   string // with dashes, or empty
	env    string
	group  string
	kind   string // placeholder in the help text; empty for a switch
	def    string
	usage  string
	isBool bool
	secret bool
	hidden bool     // described beside another setting rather than on its own
	file   *setting // the setting that names a file with this one's value
	// isList means that an empty file has the value of a list without an item.
	isList bool
	// refusesEmpty means that a variable that is set but empty has an empty text, and is not unset.
	refusesEmpty bool

	set   func(text string) error
	given *string // the text from the command line, or nil if it has none
}

// String is part of [flag.Value].
func (b *setting) String() string { return "" }

// Set is part of [flag.Value].
func (b *setting) Set(text string) error {
	b.given = &text
	return nil
}

// IsBoolFlag reports to package flag that --name alone is enough.
func (b *setting) IsBoolFlag() bool { return b.isBool }

// label names the setting in an error.
func (b *setting) label() string {
	if b.flag == "" {
		return b.env
	}
	return b.flag + " (" + b.env + ")"
}

// resolve finds the text of a setting, command line first, and passes it to the bound variable.
func (s *Set) resolve(b *setting) error {
	if b.set == nil {
		return nil // read by the setting it belongs to
	}
	text, found, err := s.text(b)
	if err != nil || !found {
		return err
	}
	if err := b.set(text); err != nil {
		return b.invalid(text, err)
	}
	return nil
}

func (b *setting) invalid(text string, err error) error {
	if b.secret {
		return fmt.Errorf("%s: invalid value: %w", b.label(), err)
	}
	return fmt.Errorf("%s: invalid value %q: %w", b.label(), text, err)
}

func (s *Set) text(b *setting) (text string, found bool, err error) {
	text, found, err = choose(b, b.given, b.fileGiven())
	if found || err != nil {
		return text, found, err
	}
	return choose(b, s.environment(b), s.environment(b.file))
}

func (b *setting) fileGiven() *string {
	if b.file == nil {
		return nil
	}
	return b.file.given
}

// environment returns the variable's text, or nil if the variable is unset or counts as unset, or
// the setting has none.
func (s *Set) environment(b *setting) *string {
	if b == nil {
		return nil
	}
	text, found := s.lookupEnv(b.env)
	if !found || text == "" && !b.refusesEmpty {
		return nil
	}
	return &text
}

// choose returns the value, or reads the file that was given instead. It is an error if both are
// given at the same level.
func choose(b *setting, value, path *string) (text string, found bool, err error) {
	switch {
	case value != nil && path != nil:
		return "", false, fmt.Errorf("%s: given twice, also by %s", b.label(), b.file.label())
	case value != nil:
		return *value, true, nil
	case path != nil:
		text, err := readValue(*path)
		if err == nil && text == "" && !b.isList {
			err = fmt.Errorf("read value: %s is empty", *path)
		}
		if err != nil {
			return "", false, fmt.Errorf("%s: %w", b.file.label(), err)
		}
		return text, true, nil
	}
	return "", false, nil
}

func readValue(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read value: %w", err)
	}
	return strings.TrimRight(string(content), "\r\n"), nil
}
