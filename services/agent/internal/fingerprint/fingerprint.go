// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package fingerprint computes sums of objects, so that two states of an object can be compared
// without keeping either.
//
// There are two kinds of sums. Desired covers a manifest. Live covers the fields that one field
// manager has applied: which fields those are, and their values in the cluster. Other fields do not
// change it, be it a default, an autoscaler's number of replicas or a status. It changes when
// another manager removes one of the manager's fields, takes it over, or changes its value.
package fingerprint

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Sum is a truncated SHA-256. The zero Sum means unknown, and no object has it.
type Sum [16]byte

// IsZero reports whether the sum is unknown.
func (s Sum) IsZero() bool { return s == Sum{} }

// String implements fmt.Stringer.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// Joined returns the sum of both. If other is zero, that is s itself.
func (s Sum) Joined(other Sum) Sum {
	if other.IsZero() {
		return s
	}
	full := sha256.Sum256(append(s[:], other[:]...))
	return Sum(full[:len(Sum{})])
}

// Text returns the sum of text, which is zero for an empty text.
func Text(text []byte) Sum {
	if len(text) == 0 {
		return Sum{}
	}
	full := sha256.Sum256(text)
	return Sum(full[:len(Sum{})])
}

// bookkeeping are the fields of metadata that only the API server writes, or that it rejects in an
// apply.
var bookkeeping = [...]string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields", "resourceVersion",
	"selfLink", "uid",
}

// Desired returns the sum of a manifest: everything but the status and the metadata that the API
// server keeps. The order of keys does not count, and 1.0 is the same number as 1.
func Desired(o *unstructured.Unstructured) Sum {
	h := newHasher()
	h.eachField(o.Object, func(key string, value any) {
		switch fields, ok := value.(map[string]any); {
		case key == "status":
		case key == "metadata" && ok:
			h.text('k', key)
			h.eachField(fields, func(key string, value any) {
				if !slices.Contains(bookkeeping[:], key) {
					h.text('k', key)
					h.value(value)
				}
			})
		default:
			h.text('k', key)
			h.value(value)
		}
	})
	return h.sum()
}

// eachField calls add for the fields of a map in the order of their keys.
func (h *hasher) eachField(fields map[string]any, add func(key string, value any)) {
	h.head('o', 0)
	start := h.push(fields)
	for i, end := start, len(h.keys); i < end; i++ {
		add(h.keys[i], fields[h.keys[i]])
	}
	h.pop(start)
	h.close()
}
