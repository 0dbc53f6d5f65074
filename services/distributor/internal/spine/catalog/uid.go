// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
	"unique"

	"github.com/google/uuid"
)

// UID is the uid of an object in little memory, for what exists in millions: neither the uids that the hub makes up nor
// UUIDs, which derived objects have, have a text of their own. UIDs are equal if their texts are. The zero value is the
// empty uid.
type UID struct {
	// id is a UUID, or all digits but the last of a uid that crypto/rand.Text has made.
	id uuid.UUID
	// text is that last digit, or the whole text of any other uid that is not a UUID as String writes one. A UUID
	// leaves it empty.
	text unique.Handle[string]
}

const (
	uuidLength = 36
	// randomLength is the length of crypto/rand.Text. Its digits have 5 bits each, two bits more than fit into an id.
	randomLength = 26
	digits       = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	digitBits    = 5
	// isRandom is set in the id of a random uid, so that no such id is the empty one.
	isRandom = 1 << 63
)

// lastDigits are the digits as texts. They never change.
var lastDigits = func() (texts [len(digits)]unique.Handle[string]) {
	for i := range digits {
		texts[i] = unique.Make(digits[i : i+1])
	}
	return texts
}()

// UIDOf returns the uid with that text.
func UIDOf(text string) UID {
	switch len(text) {
	case 0:
		return UID{}
	case randomLength:
		if id, ok := randomUID(text); ok {
			return id
		}
	case uuidLength:
		if id, err := uuid.Parse(text); err == nil && !strings.ContainsAny(text, "ABCDEF") && id != uuid.Nil {
			return UID{id: id}
		}
	}
	return UID{text: unique.Make(text)}
}

// randomUID returns the uid with a text of 26 bytes, if all of them are digits.
func randomUID(text string) (_ UID, ok bool) {
	var high, low, digit uint64
	for i := range randomLength {
		switch c := text[i]; {
		case c >= 'A' && c <= 'Z':
			digit = uint64(c - 'A')
		case c >= '2' && c <= '7':
			digit = uint64(c-'2') + 26
		default:
			return UID{}, false
		}
		if i < randomLength-1 {
			high, low = high<<digitBits|low>>(64-digitBits), low<<digitBits|digit
		}
	}
	u := UID{text: lastDigits[digit]}
	binary.BigEndian.PutUint64(u.id[:8], high|isRandom)
	binary.BigEndian.PutUint64(u.id[8:], low)
	return u, true
}

// appendRandom appends the text of a uid of randomUID.
func (u UID) appendRandom(to []byte) []byte {
	high, low := binary.BigEndian.Uint64(u.id[:8])&^isRandom, binary.BigEndian.Uint64(u.id[8:])
	var text [randomLength]byte
	text[randomLength-1] = u.text.Value()[0]
	for i := randomLength - 2; i >= 0; i-- {
		text[i] = digits[low%uint64(len(digits))]
		high, low = high>>digitBits, high<<(64-digitBits)|low>>digitBits
	}
	return append(to, text[:]...)
}

// hasText and hasID report which fields are set: only a random uid has both.
func (u UID) hasText() bool { return u.text != unique.Handle[string]{} }
func (u UID) hasID() bool   { return u.id != uuid.Nil }

// String returns the text, and makes it if the uid is random or a UUID.
func (u UID) String() string {
	switch {
	case u.hasText() && u.hasID():
		return string(u.appendRandom(nil))
	case u.hasText():
		return u.text.Value()
	case u.hasID():
		return u.id.String()
	default:
		return ""
	}
}

// AppendText implements [encoding.TextAppender] with the text of String, and never fails.
func (u UID) AppendText(to []byte) ([]byte, error) {
	switch {
	case !u.hasID():
		return append(to, u.String()...), nil
	case u.hasText():
		return u.appendRandom(to), nil
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
