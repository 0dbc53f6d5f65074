// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"crypto/sha256"
	"fmt"
	"unicode/utf8"
)

// How many bytes of a field that a caller writes are recorded, as they are encoded. A longer field is cut, and the record says how long it
// was and has its SHA-256: otherwise each request could fill the log with as much as a request line and its headers hold.
const (
	maxLong  = 2 << 10 // a URI, a user agent
	maxShort = 512     // names, none of which Kubernetes has longer than 253 bytes
)

// bounded returns the request with its fields cut that the caller chose.
func (r Request) bounded() Request {
	for _, field := range []*string{&r.URI, &r.UserAgent} {
		*field = cut(*field, maxLong)
	}
	a := &r.Attributes
	for _, field := range []*string{
		&r.Cluster, &r.Method, &r.SourceAddress, &a.Verb, &a.APIGroup, &a.APIVersion, &a.Resource, &a.Subresource, &a.Namespace, &a.Name,
	} {
		*field = cut(*field, maxShort)
	}
	return r
}

// maxEscaped is the most bytes that one byte of text becomes in JSON, as \u003c.
const maxEscaped = 6

// cut returns the text, or its beginning and what was left out.
func cut(text string, limit int) string {
	if len(text)*maxEscaped <= limit {
		return text
	}
	size := 0
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		cost := n
		if r < ' ' || r == utf8.RuneError || r == '<' || r == '>' || r == '&' || r == '"' || r == '\\' || r == '\u2028' || r == '\u2029' {
			cost = maxEscaped
		}
		if size += cost; size > limit {
			return fmt.Sprintf("%s…(cut: %d bytes, sha256 %x)", text[:i], len(text), sha256.Sum256([]byte(text)))
		}
		i += n
	}
	return text
}
