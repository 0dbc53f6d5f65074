// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"crypto/sha256"
	"fmt"
	"unicode/utf8"
)

// These constants limit how many encoded bytes of a field that the caller chose are recorded. A
// longer field is cut, and the record then has its length and SHA-256. Otherwise each request could
// add as much to the log as a request line and its headers can hold.
const (
	maxLong  = 2 << 10 // a URI, a user agent
	maxShort = 512     // names; in Kubernetes they have at most 253 bytes
)

// Bounded returns the request with the fields cut that the caller chose.
func (r Request) Bounded() Request {
	for _, field := range []*string{&r.URI, &r.UserAgent} {
		*field = Cut(*field, maxLong)
	}
	a := &r.Attributes
	for _, field := range []*string{
		&r.Cluster, &r.Method, &r.SourceAddress, &a.Verb, &a.APIGroup, &a.APIVersion, &a.Resource, &a.Subresource, &a.Namespace, &a.Name,
	} {
		*field = Cut(*field, maxShort)
	}
	return r
}

// maxEscaped is the largest number of bytes that JSON needs for one byte of text, as in \u003c.
const maxEscaped = 6

// Cut returns the text if it fits, or its beginning and a description of the rest.
func Cut(text string, limit int) string {
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
