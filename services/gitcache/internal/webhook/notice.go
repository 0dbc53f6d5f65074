// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// kind is what a delivery is about.
type kind int

const (
	kindOther kind = iota // something that moves no refs
	kindPing              // a test of the connection
	kindRefs              // refs moved, appeared or vanished
)

// notice is a delivery in Leat's words.
type notice struct {
	kind kind
	// urls are all that the delivery calls the repository by, as they stand there.
	urls []string
	// path is the end of the repository's path, for a provider that may send no URL at all; empty
	// otherwise.
	path string
	// delivery is the provider's id of the delivery; empty where there is none.
	delivery string
}

// errNoRepository means that a delivery about refs names no repository.
var errNoRepository = errors.New("no repository is named")

// refs returns a notice that refs of the repository of those URLs moved.
func refs(urls ...string) (notice, error) {
	urls = slices.DeleteFunc(urls, func(u string) bool { return address(u) == "" })
	if len(urls) == 0 {
		return notice{}, errNoRepository
	}
	return notice{kind: kindRefs, urls: urls}, nil
}

// concerns reports whether a repository of that URL is the one that the delivery names.
func (n notice) concerns(repository string) bool {
	wanted := address(repository)
	if wanted == "" {
		return false
	}
	if n.path != "" && strings.HasSuffix(wanted, "/"+n.path) {
		return true
	}
	return slices.ContainsFunc(n.urls, func(u string) bool { return address(u) == wanted })
}

// target names the repository for a limit; every delivery about it has the same.
func (n notice) target() string {
	if len(n.urls) == 0 {
		return n.path
	}
	return address(n.urls[0])
}

// decode reads JSON, also where a form carries it in a field named payload.
func decode(header http.Header, body []byte) (payload, error) {
	if media, _, err := mime.ParseMediaType(header.Get("Content-Type")); err == nil && media == "application/x-www-form-urlencoded" {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, fmt.Errorf("decode form: %w", err)
		}
		body = []byte(form.Get("payload"))
	}
	var p payload
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, fmt.Errorf("decode payload: %w", err)
	}
	return p, nil
}

// payload is the object that a delivery consists of. Only the fields that a provider reads are
// decoded: the others may be large.
type payload map[string]json.RawMessage

// text returns the first text of a field, or "" where it has none.
func (p payload) text(field string) string {
	for _, text := range p.texts(field) {
		return text
	}
	return ""
}

// texts returns the texts of a field that are not empty. Dots separate the names of nested fields,
// and "*" stands for all elements of an array.
func (p payload) texts(field string) []string {
	name, rest, isNested := strings.Cut(field, ".")
	if !isNested {
		var text string
		if json.Unmarshal(p[name], &text) != nil || text == "" {
			return nil
		}
		return []string{text}
	}
	var inner []payload
	if after, isList := strings.CutPrefix(rest, "*."); isList {
		rest = after
		_ = json.Unmarshal(p[name], &inner) // what is of another form has no such field
	} else {
		inner = make([]payload, 1)
		_ = json.Unmarshal(p[name], &inner[0])
	}
	var all []string
	for _, below := range inner {
		all = append(all, below.texts(rest)...)
	}
	return all
}
