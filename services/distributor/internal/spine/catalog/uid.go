// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/hex"
	"strings"
	"unique"

	"github.com/google/uuid"
)

// UID is the uid of an object in little memory, for what exists in millions: a UUID has no text of its own. UIDs are
// equal if their texts are. The zero value is the empty uid.
type UID struct {
	id uuid.UUID
	// text holds a uid that is not a UUID as String writes one. A UUID leaves it empty.
	text unique.Handle[string]
}

// UIDOf returns the uid with that text.
func UIDOf(text string) UID {
	const length = 36
	switch id, err := uuid.Parse(text); {
	case text == "":
		return UID{}
	case err != nil || len(text) != length || strings.ContainsAny(text, "ABCDEF") || id == uuid.Nil:
		return UID{text: unique.Make(text)}
	default:
		return UID{id: id}
	}
}

// String returns the text, and makes it if the uid is a UUID.
func (u UID) String() string {
	switch {
	case u.text != unique.Handle[string]{}:
		return u.text.Value()
	case u.id == uuid.Nil:
		return ""
	default:
		return u.id.String()
	}
}

// AppendText implements [encoding.TextAppender] with the text of String, and never fails.
func (u UID) AppendText(to []byte) ([]byte, error) {
	if u.id == uuid.Nil {
		return append(to, u.String()...), nil
	}
	start := 0
	for i, end := range []int{4, 6, 8, 10, 16} { // the groups of RFC 9562
		if i > 0 {
			to = append(to, '-')
		}
		to = hex.AppendEncode(to, u.id[start:end])
		start = end
	}
	return to, nil
}

// Equal is ==, for what compares deeply.
func (u UID) Equal(other UID) bool { return u == other }
