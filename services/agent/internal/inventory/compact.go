// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"strings"
	"unique"

	"github.com/google/uuid"
)

// compact is an Object without its key, in as little memory as possible.
type compact struct {
	// version is the API version, followed by a zero byte and the UID if that is not a UUID.
	version string
	id      uuid.UUID // all zero: the UID is empty, or part of version
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
	if id, ok := parseUUID(o.UID); ok && id != uuid.Nil {
		c.id = id
	} else if o.UID != "" {
		c.version += oddUID + o.UID
	}
	return c
}

func (c *compact) object(k Key) Object {
	version, uid, odd := strings.Cut(c.version, oddUID)
	if !odd && c.id != uuid.Nil {
		uid = c.id.String()
	}
	return Object{
		Ref: Ref{Key: k, Version: version}, UID: uid, Wave: int(c.wave), Wish: Wish(c.wish), Agreed: c.agreed, Counted: c.counted,
	}
}

// parseUUID parses a UUID in its canonical notation, which [uuid.UUID.String] writes. Any other text
// would not be the same after it was written.
func parseUUID(text string) (uuid.UUID, bool) {
	id, err := uuid.Parse(text)
	return id, err == nil && id.String() == text
}
