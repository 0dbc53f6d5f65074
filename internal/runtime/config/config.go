// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package config reads the settings of a program from flags and environment variables.
//
// A package that has settings declares a small Config struct and binds its fields itself:
//
//	func (c *Config) Bind(s *config.Set) {
//		s.Group("Polling")
//		s.Duration(&c.PollInterval, "gitcache-poll-interval", 2*time.Minute, "how often a repository is polled")
//	}
//
// One name gives both spellings: the flag --gitcache-poll-interval and the variable
// LEAT_GITCACHE_POLL_INTERVAL. A flag beats a variable, a variable beats the default, and a
// variable that is set but empty counts as unset. Only the lists of [Set.Allow] refuse to be empty.
//
// This package is the only one that reads the environment.
package config

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
)

// EnvPrefix begins the name of every environment variable that is Leat's own.
const EnvPrefix = "LEAT_"

// ErrHelp is the error of [Set.Parse] when the arguments ask for --help (or -h).
var ErrHelp = errors.New("help requested")

// ErrVersion is the error of [Set.Parse] when the arguments ask for --version.
var ErrVersion = errors.New("version requested")

// Set is the settings of one program. It is filled by Bind methods, then parsed once. A Set is not
// safe for concurrent use; the bound variables may be read freely after [Set.Parse] has returned.
type Set struct {
	program   string
	lookupEnv func(string) (string, bool)
	group     string
	settings  []*setting
	byName    map[string]*setting
	checks    []func() error
	bindErrs  []error
	// completes is true for a Set that sets defaults only where a variable is zero; see [Complete].
	completes bool
}

// New returns an empty Set. lookupEnv has the contract of [os.LookupEnv], which [FromOS] passes;
// tests pass a map.
func New(program string, lookupEnv func(string) (string, bool)) *Set {
	return &Set{program: program, lookupEnv: lookupEnv, group: "Settings", byName: make(map[string]*setting)}
}

// Complete sets each zero variable that bind binds to the default of its setting, for a Config that
// was written as a literal. Switches stay as they are: false may have been meant.
func Complete(bind func(*Set)) {
	s := New("", func(string) (string, bool) { return "", false })
	s.completes = true
	bind(s)
}

// preset sets a variable to its default.
func preset[T comparable](s *Set, p *T, def T) {
	if s.completes {
		def = cmp.Or(*p, def)
	}
	*p = def
}

// FromOS returns an empty Set that reads the environment of the process.
func FromOS(program string) *Set {
	return New(program, os.LookupEnv)
}

// Group puts the settings that are bound after it under a title in the help text and in the
// documentation.
func (s *Set) Group(title string) {
	s.group = title
}

// Check adds a rule that [Set.Parse] runs once every value is in place, for conditions that span
// several values.
func (s *Set) Check(rule func() error) {
	s.checks = append(s.checks, rule)
}

// String binds a text.
func (s *Set) String(p *string, name, def, usage string) {
	preset(s, p, def)
	bindValue(s, p, setting{name: name, kind: "string", def: def, usage: usage}, parseText[string])
}

// Choice binds a text that must be one of the allowed ones.
func (s *Set) Choice(p *string, name, def, usage string, allowed ...string) {
	preset(s, p, def)
	usage += " (" + strings.Join(allowed, ", ") + ")"
	bindValue(s, p, setting{name: name, kind: "string", def: def, usage: usage}, func(text string) (string, error) {
		if !slices.Contains(allowed, text) {
			return "", fmt.Errorf("want one of %s", strings.Join(allowed, ", "))
		}
		return text, nil
	})
}

// Duration binds a span of time, zero or more, written with units: 500ms, 90s, 2m30s.
func (s *Set) Duration(p *time.Duration, name string, def time.Duration, usage string) {
	preset(s, p, def)
	bindValue(s, p, setting{name: name, kind: "duration", def: formatDuration(def), usage: usage}, parseDuration)
}

// Bool binds a switch. As a flag it needs no value: --name means --name=true.
func (s *Set) Bool(p *bool, name string, def bool, usage string) {
	if !s.completes {
		*p = def
	}
	bindValue(s, p, setting{name: name, isBool: true, def: fmt.Sprint(def), usage: usage}, parseBool)
}

// Int binds a whole number, zero or more.
func (s *Set) Int(p *int, name string, def int, usage string) {
	preset(s, p, def)
	bindValue(s, p, setting{name: name, kind: "number", def: fmt.Sprint(def), usage: usage}, parseInt)
}

// Size binds a number of bytes, written with a unit: 64KiB, 512MiB, 10GiB.
func (s *Set) Size(p *Bytes, name string, def Bytes, usage string) {
	preset(s, p, def)
	bindValue(s, p, setting{name: name, kind: "size", def: def.String(), usage: usage}, ParseBytes)
}

// Strings binds a list, written with commas between its items; blanks around an item are dropped.
func (s *Set) Strings(p *[]string, name string, def []string, usage string) {
	if !s.completes || len(*p) == 0 {
		*p = def
	}
	bindValue(s, p, setting{name: name, kind: "list", def: strings.Join(def, ","), usage: usage}, parseList)
}

// Allow binds a list of allowed values, written like a list of Strings. Without it the variable
// stays nil, which means that everything is allowed. A flag or a variable that is set without an
// item is therefore an error: it must not have the meaning of one that is unset.
func (s *Set) Allow(p *[]string, name, usage string) {
	if !s.completes {
		*p = nil
	}
	bindValue(s, p, setting{name: name, kind: "list", usage: usage, refusesEmpty: true}, func(text string) ([]string, error) {
		items, err := parseList(text)
		if err == nil && len(items) == 0 {
			err = errors.New("want at least one item; unset it to allow everything")
		}
		return items, err
	})
}

// Secret binds a text that must not be shown. It can also be read from a file; see [Set.File].
func (s *Set) Secret(p *secret.Text, name string, def secret.Text, usage string) {
	preset(s, p, def)
	bindValue(s, p, setting{name: name, kind: "secret", usage: usage, secret: true}, parseText[secret.Text])
	s.File(name)
}

// Secrets binds secrets that are separated by commas. It differs from Secret in that the file may be
// empty: a list without an item is valid.
func (s *Set) Secrets(p *secret.Text, name, usage string) {
	preset(s, p, "")
	bindValue(s, p, setting{name: name, kind: "secret", usage: usage, secret: true, isList: true}, parseText[secret.Text])
	s.File(name)
}

// File gives a bound setting a second spelling, --NAME-file or LEAT_NAME_FILE, which names a file
// that holds the value. Line ends at the end of the file are dropped. An empty file is an error,
// except for a list of secrets. File is for texts that contain a secret, such as a URL with a
// password, and for texts that are made together with secrets.
func (s *Set) File(name string) {
	of := s.byName[name]
	if of == nil {
		s.bindErrs = append(s.bindErrs, fmt.Errorf("bind %s-file: --%s is not bound", name, name))
		return
	}
	of.file = &setting{name: name + "-file", kind: "path", usage: "file that holds --" + name, hidden: true}
	s.bind(of.file)
}

// Env binds an environment variable that keeps its own name and has no flag, such as the standard
// OTEL_ ones.
func (s *Set) Env(p *string, variable, usage string) {
	preset(s, p, "")
	bindValue(s, p, setting{name: variable, env: variable, kind: "string", usage: usage}, parseText[string])
}

// bindValue binds a variable whose text parse reads.
func bindValue[T any](s *Set, p *T, b setting, parse func(text string) (T, error)) {
	b.set = func(text string) error {
		parsed, err := parse(text)
		if err == nil {
			*p = parsed
		}
		return err
	}
	s.bind(&b)
}

func (s *Set) bind(b *setting) {
	b.group = s.group
	if b.env == "" {
		b.env = EnvName(b.name)
		b.flag = "--" + b.name
	}
	if s.byName[b.name] != nil {
		s.bindErrs = append(s.bindErrs, fmt.Errorf("bind %s: bound twice", b.label()))
		return
	}
	s.byName[b.name] = b
	s.settings = append(s.settings, b)
}

// Parse reads args (without the program's name) and the environment into the bound variables. It
// reports every wrong setting at once, each with its flag, its variable and what would be valid,
// and never the value of a secret. Arguments that are not flags are an error. It returns [ErrHelp]
// or [ErrVersion] when the arguments ask for those.
func (s *Set) Parse(args []string) error {
	if len(s.bindErrs) > 0 {
		return errors.Join(s.bindErrs...)
	}
	if err := s.parseFlags(args); err != nil {
		return err
	}
	var errs []error
	for _, b := range s.settings {
		if err := s.resolve(b); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, rule := range s.checks {
		errs = append(errs, rule())
	}
	return errors.Join(errs...)
}

// parseFlags only records the given texts. Values are validated later, so that flags and variables
// fail with the same words.
func (s *Set) parseFlags(args []string) error {
	flags := flag.NewFlagSet(s.program, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	version := flags.Bool("version", false, "")
	for _, b := range s.settings {
		if b.flag != "" {
			flags.Var(b, b.name, "")
		}
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return ErrHelp
	case err != nil:
		return fmt.Errorf("%w; --help lists the flags", err)
	case *version:
		return ErrVersion
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q; --help lists the flags", flags.Arg(0))
	}
	return nil
}

// EnvName returns the environment variable of a setting: "redis-url" gives LEAT_REDIS_URL.
func EnvName(name string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// Missing is the error for a setting that has no default and was not given.
func Missing(name string) error {
	return fmt.Errorf("--%s (%s) is required", name, EnvName(name))
}
