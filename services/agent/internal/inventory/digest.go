// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
)

// Content is a digest of a stored record. A record with the same content need not be stored again.
type Content [sha256.Size]byte

// Content returns the digest of the record.
func (r Record) Content() (c Content, err error) {
	head, err := json.Marshal(r.head())
	if err != nil {
		return Content{}, fmt.Errorf("encode inventory of %s: %w", r.Service, err)
	}
	h := sha256.New()
	_, _ = h.Write(head) // a hash never fails
	for _, o := range r.Objects.Objects() {
		_, _ = fmt.Fprintf(h, "%#v\n", o) // every field: String omits some
	}
	h.Sum(c[:0])
	return c, nil
}
