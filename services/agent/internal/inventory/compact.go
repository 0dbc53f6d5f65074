// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"encoding/hex"
	"strings"
	"unique"
)

// compact is an Object without its key, in as little memory as possible.
type compact struct {
	// version is the API version, followed by a zero byte and the UID if that is not a UUID.
	version string
	uuid    [16]byte // all zero: the UID is empty, or part of version
	wave    int32
	wish    int8 // a Wish
	agreed  bool
	counted bool
}

// oddUID separates the version from a UID that is not a UUID; neither can contain it.
const oddUID = "\x00"

func compactOf(o Object) compact {
	c := compact{
		version: unique.Make(o.Version).Value(), wave: int32(o.Wave), wish: int8(o.Wish),
		agreed: o.Agreed, counted: o.Counted,
	}
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

// uuidParts are the positions of a UUID's digits in its text.
var uuidParts = [...][2]int{{0, 8}, {9, 13}, {14, 18}, {19, 23}, {24, 36}}

// parseUUID parses a UUID in the one notation that formatUUID writes. It rejects the UUID of zeros,
// which stands for no UUID.
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
