// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"

	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// How many items a page holds.
const (
	defaultPage = 500
	maxPage     = 1000
)

// cursor is the place of an item in the order of all replicas' items: by cluster, the newest first.
// Recordings are in the order of their beginning alone, so that their cluster is left out.
type cursor struct {
	Cluster string `json:"c,omitempty"`
	At      int64  `json:"t"` // nanoseconds
	ID      string `json:"i"`
	Replica string `json:"r"`
}

func (c cursor) compare(other cursor) int {
	return cmp.Or(cmp.Compare(c.Cluster, other.Cluster), cmp.Compare(other.At, c.At), cmp.Compare(other.ID, c.ID),
		cmp.Compare(c.Replica, other.Replica))
}

func (c cursor) token() string {
	encoded, _ := json.Marshal(c) // strings and a number always encode
	return base64.RawURLEncoding.EncodeToString(encoded)
}

func parsePage(page *typev1.Page) (size int, after cursor, err error) {
	size = int(page.GetSize())
	switch {
	case size < 0:
		return 0, cursor{}, rpcerr.Field("page.size", "must not be negative")
	case size == 0:
		size = defaultPage
	}
	size = min(size, maxPage)
	if page.GetToken() == "" {
		return size, cursor{}, nil
	}
	encoded, err := base64.RawURLEncoding.DecodeString(page.GetToken())
	if err != nil || json.Unmarshal(encoded, &after) != nil || after.ID == "" {
		return 0, cursor{}, rpcerr.Field("page.token", "is not a next_page_token of this call")
	}
	return size, after, nil
}

// cut sorts items and returns the ones of one page, after a place. The token is empty on the last
// page.
func cut[T any](all part[T], size int, after cursor, place func(T) cursor) (items []T, token string) {
	items = slices.SortedFunc(slices.Values(all.items), func(a, b T) int { return place(a).compare(place(b)) })
	if after != (cursor{}) {
		items = slices.DeleteFunc(items, func(item T) bool { return place(item).compare(after) <= 0 })
	}
	more := all.more
	if len(items) > size {
		items, more = items[:size], true
	}
	if more && len(items) > 0 {
		token = place(items[len(items)-1]).token()
	}
	return items, token
}
