// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"encoding/hex"
	"strings"
	"unique"
)

// compact is an Object without its key, in the memory that it needs.
type compact struct {
	// version is the API version. Behind a zero byte stands the UID where that is no UUID.
	version string
	uuid    [16]byte // all zero: there is no UID, or it stands behind the version
	wave    int32
	wish    int8 // a Wish
	agreed  bool
	counted bool
}

// oddUID separates a UID that is no UUID from the version before it; neither can hold it.
const oddUID = "\x00"

func compactOf(o Object) compact {
	c := compact{version: unique.Make(o.Version).Value(), wave: int32(o.Wave), wish: int8(o.Wish), agreed: o.Agreed, counted: o.Counted}
	if uuid, ok := parseUUID(o.UID); ok {
		c.uuid = uuid
	} else if o.UID != "" {
		c.version += oddUID + o.UID
	}
	return c
}

func (c *compact) object(k Key) Object {
	version, uid, odd := strings.Cut(c.version, oddUID)
	if !odd && c.uuid != [16]byte{} {
		uid = formatUUID(c.uuid)
	}
	return Object{
		Ref: Ref{Key: k, Version: version}, UID: uid, Wave: int(c.wave), Wish: Wish(c.wish), Agreed: c.agreed, Counted: c.counted,
	}
}

// uuidParts is where the digits of a UUID stand in its text.
var uuidParts = [...][2]int{{0, 8}, {9, 13}, {14, 18}, {19, 23}, {24, 36}}

// parseUUID reads a UUID in the one notation that formatUUID writes. The one of zeros alone is none.
func parseUUID(text string) (uuid [16]byte, ok bool) {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return uuid, false
	}
	var digits [32]byte
	at := 0
	for _, part := range uuidParts {
		at += copy(digits[at:], text[part[0]:part[1]])
	}
	if _, err := hex.Decode(uuid[:], digits[:]); err != nil || uuid == ([16]byte{}) || formatUUID(uuid) != text {
		return [16]byte{}, false
	}
	return uuid, true
}

func formatUUID(uuid [16]byte) string {
	var digits [32]byte
	hex.Encode(digits[:], uuid[:])
	var text [36]byte
	at := 0
	for i, part := range uuidParts {
		if i > 0 {
			text[part[0]-1] = '-'
		}
		at += copy(text[part[0]:part[1]], digits[at:])
	}
	return string(text[:])
}
