// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxNesting bounds defaults within defaults.
const maxNesting = 8

// maxMissing bounds the names that an error about missing variables lists.
const maxMissing = 20

var errTooLarge = errors.New("grows too large by its variables; all texts of a service together may grow by 16 MiB")

// expansion is one text whose expressions are being replaced:
//
//	${NAME}           the variable's value; missing if the variable has no value
//	${NAME:-default}  its value, or the default where it is missing or empty; ${NAME:=default} means the same
//	$${               a literal "${"
//
// Values are not scanned, so they cannot contain expressions of their own; defaults can. Any other
// text that begins with "${" is an error: the object with a shell script that must stay as it is
// needs an annotation.
type expansion struct {
	lookUp func(name string) (value string, secret, known bool)
	room   int // bytes that may still be added

	missing []string // the first maxMissing names of variables without value and default
	secrets []string // names of secrets that were used
}

// expand returns the text with its expressions replaced. Whole reports that the text is one single
// expression.
func (x *expansion) expand(text string) (expanded string, whole bool, err error) {
	if strings.HasPrefix(text, "${") {
		value, rest, err := x.expression(text, 1)
		if err != nil || rest == "" {
			return value, rest == "", err
		}
		after, _, err := x.text(rest, 0)
		return value + after, false, err
	}
	expanded, _, err = x.text(text, 0)
	return expanded, false, err
}

// text replaces expressions up to the end of s or, inside a default, up to the brace that closes
// it.
func (x *expansion) text(s string, depth int) (expanded, rest string, err error) {
	var out strings.Builder
	for s != "" {
		switch {
		case strings.HasPrefix(s, "$${"):
			out.WriteString("${")
			s = s[len("$${"):]
		case strings.HasPrefix(s, "${"):
			value, rest, err := x.expression(s, depth+1)
			if err != nil {
				return "", "", err
			}
			out.WriteString(value)
			s = rest
		case s[0] == '}' && depth > 0:
			return out.String(), s, nil
		default:
			end := 1 + strings.IndexAny(s[1:], "$}")
			if end == 0 {
				end = len(s)
			}
			out.WriteString(s[:end])
			s = s[end:]
		}
	}
	return out.String(), "", nil
}

// expression evaluates the expression at the beginning of s.
func (x *expansion) expression(s string, depth int) (value, rest string, err error) {
	if depth > maxNesting {
		return "", "", fmt.Errorf("%s: defaults are nested too deeply", Excerpt(s))
	}
	name := variableName(s[len("${"):])
	rest = s[len("${")+len(name):]
	switch {
	case name == "":
	case strings.HasPrefix(rest, "}"):
		value, err := x.value(name)
		return value, rest[1:], err
	case strings.HasPrefix(rest, ":-"), strings.HasPrefix(rest, ":="):
		value, rest, err := x.valueOr(name, rest[2:], depth)
		if err == nil && !strings.HasPrefix(rest, "}") {
			break
		}
		return value, strings.TrimPrefix(rest, "}"), err
	}
	return "", "", fmt.Errorf("%s is not a variable: write ${NAME} or ${NAME:-default}, $${ for a ${ that stays, or leave the object as it is "+
		"with the annotation %s: %s", Excerpt(s), SubstituteAnnotation, substituteDisabled)
}

// value returns the value of a variable without a default.
func (x *expansion) value(name string) (string, error) {
	value, secret, known := x.lookUp(name)
	if !known && len(x.missing) < maxMissing && !slices.Contains(x.missing, name) {
		x.missing = append(x.missing, name)
	}
	return x.put(name, value, secret)
}

func (x *expansion) put(name, value string, secret bool) (string, error) {
	if x.room -= len(value); x.room < 0 {
		return "", errTooLarge
	}
	if secret {
		x.secrets = append(x.secrets, name)
	}
	return value, nil
}

// valueOr returns the value of a variable with a default, which s begins with. An unused default
// has no effect on the missing names and the secrets.
func (x *expansion) valueOr(name, s string, depth int) (value, rest string, err error) {
	missing, secrets := x.missing, x.secrets
	otherwise, rest, err := x.text(s, depth)
	if err != nil {
		return "", "", err
	}
	value, secret, known := x.lookUp(name)
	if !known || value == "" {
		return otherwise, rest, nil
	}
	x.missing, x.secrets = missing, secrets
	value, err = x.put(name, value, secret)
	return value, rest, err
}

// variableName returns the name that s begins with, or "".
func variableName(s string) string {
	end := strings.IndexFunc(s, func(r rune) bool {
		return r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	if end < 0 {
		end = len(s)
	}
	if end == 0 || s[0] >= '0' && s[0] <= '9' {
		return ""
	}
	return s[:end]
}

// Excerpt returns the beginning of a manifest's text, for a message.
func Excerpt(s string) string {
	const enough = 40
	if line, _, cut := strings.Cut(s, "\n"); cut {
		s = line + "…"
	}
	runes := 0
	for i := range s {
		if runes == enough {
			return s[:i] + "…"
		}
		runes++
	}
	return s
}
