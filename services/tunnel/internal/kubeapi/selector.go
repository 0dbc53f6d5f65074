// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// readList reads the parameters of a list. Malformed pairs are left out, as API servers leave them
// out; a parameter that cannot be read leaves no name.
func (a *Attributes) readList(query string) {
	values, _ := url.ParseQuery(query)
	a.Verb = VerbList
	if isTrue(values["watch"]) {
		a.Verb = VerbWatch
	}
	if !isNumber(values["timeoutSeconds"]) || !isNumber(values["limit"]) {
		return
	}
	if name, ok := exactName(values.Get("fieldSelector")); ok && isSegment(name) {
		a.Name = name
	}
}

// isTrue reads a boolean parameter. To the Kubernetes API everything is true but these words; it
// reads the first value of several.
func isTrue(values []string) bool {
	return len(values) > 0 && values[0] != "0" && !strings.EqualFold(values[0], "false")
}

// isNumber reports whether a parameter can be read as a number, which one that is not there can.
func isNumber(values []string) bool {
	if len(values) == 0 {
		return true
	}
	_, err := strconv.ParseInt(values[0], 10, 64)
	return err == nil
}

// isSegment reports whether a name can be part of a path.
func isSegment(name string) bool {
	return name != "." && name != ".." && !strings.ContainsAny(name, "/%")
}

// exactName returns the one name that a field selector asks for. API servers sort the terms and
// take the first that fits, and read nothing out of a selector with a mistake in any of them.
func exactName(selector string) (name string, ok bool) {
	terms := splitTerms(selector)
	slices.Sort(terms)
	for _, term := range terms {
		if term == "" {
			continue
		}
		field, value, equal, valid := splitTerm(term)
		if !valid {
			return "", false
		}
		if equal && field == "metadata.name" && !ok {
			name, ok = value, true
		}
	}
	return name, ok
}

// splitTerms splits at the commas that no backslash precedes.
func splitTerms(selector string) []string {
	var terms []string
	begin, escaped := 0, false
	for i, c := range []byte(selector) {
		switch {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
		case c == ',':
			terms = append(terms, selector[begin:i])
			begin = i + 1
		}
	}
	return append(terms, selector[begin:])
}

// splitTerm splits at the first operator: =, == or !=.
func splitTerm(term string) (field, value string, equal, valid bool) {
	at := strings.IndexByte(term, '=')
	if at < 0 {
		return "", "", false, false
	}
	field, value, equal = term[:at], term[at+1:], true
	switch {
	case strings.HasSuffix(field, "!"):
		field, equal = strings.TrimSuffix(field, "!"), false
	case strings.HasPrefix(value, "="):
		value = value[1:]
	}
	value, valid = unescape(value)
	return field, value, equal, valid
}

// unescape resolves the three escapes of values: \\, \, and \=.
func unescape(value string) (string, bool) {
	if !strings.ContainsAny(value, `\,=`) {
		return value, true
	}
	var plain strings.Builder
	escaped := false
	for _, c := range value {
		switch {
		case escaped && !strings.ContainsRune(`\,=`, c), !escaped && (c == ',' || c == '='):
			return "", false
		case !escaped && c == '\\':
			escaped = true
		default:
			plain.WriteRune(c)
			escaped = false
		}
	}
	return plain.String(), !escaped
}
