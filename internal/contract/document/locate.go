// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"regexp"
	"strconv"
	"strings"
)

// Locate returns the position of a field in the files that the request was made from. path is the
// hub's path, such as "documents[2].spec.poll_interval". The result names the field in the spelling
// of documents. ok is false if the path does not lead into documents.
func Locate(documents []*Document, path string) (at Position, field string, ok bool) {
	match := documentPath.FindStringSubmatch(path)
	if match == nil {
		return Position{}, "", false
	}
	index, err := strconv.Atoi(match[1])
	if err != nil || index >= len(documents) {
		return Position{}, "", false
	}
	d := documents[index]
	field = spelled(strings.TrimPrefix(match[2], strings.ToLower(d.Kind)+"."))
	return d.position(field), field, true
}

var (
	documentPath = regexp.MustCompile(`^documents\[(\d+)\]\.?(.*)$`)
	snakeLetter  = regexp.MustCompile(`\[[^\]]*\]|_[a-z0-9]`) // or a key, whose spelling is kept
	lastSegment  = regexp.MustCompile(`(\.[^.\[]*|\[[^\]]*\]|^[^.\[]+)$`)
)

// spelled converts the protocol's spelling of a path into the spelling of documents.
func spelled(path string) string {
	path = strings.NewReplacer(`["`, "[", `"]`, "]").Replace(path)
	return snakeLetter.ReplaceAllStringFunc(path, func(s string) string {
		if s[0] == '[' {
			return s
		}
		return strings.ToUpper(s[1:])
	})
}

// position returns the position of a field or, if it was omitted, of its closest parent.
func (d *Document) position(field string) Position {
	for {
		if at, ok := d.fields[field]; ok {
			return at
		}
		shorter := lastSegment.ReplaceAllString(field, "")
		if shorter == field {
			return d.Start
		}
		field = shorter
	}
}
