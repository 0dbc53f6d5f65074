// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package fingerprint sums objects up, so that two states of an object are compared without keeping either.
//
// There are two kinds of sums. Desired covers what a manifest says. Live covers what the cluster has of the fields that
// one field manager has applied, and which fields those are: what others write elsewhere in the object, be it a default,
// an autoscaler's number of replicas or a status, does not change it, and whoever takes one of the manager's fields,
// or removes it, does.
package fingerprint

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Sum is a truncated SHA-256. The zero Sum means unknown, and nothing has it.
type Sum [16]byte

// IsZero tells whether the sum is unknown.
func (s Sum) IsZero() bool { return s == Sum{} }

// String implements fmt.Stringer.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// Joined returns the sum of both; where other is zero, it is s itself.
func (s Sum) Joined(other Sum) Sum {
	if other.IsZero() {
		return s
	}
	full := sha256.Sum256(append(s[:], other[:]...))
	return Sum(full[:len(Sum{})])
}

// Text sums up text. That of no text is zero.
func Text(text []byte) Sum {
	if len(text) == 0 {
		return Sum{}
	}
	full := sha256.Sum256(text)
	return Sum(full[:len(Sum{})])
}

// bookkeeping are the fields of metadata that only the API server writes, or that it refuses in an apply.
var bookkeeping = [...]string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields", "resourceVersion",
	"selfLink", "uid",
}

// Desired sums up what a manifest says: everything but the status and what the API server keeps in the metadata. The order
// of keys does not count, and 1.0 is the same number as 1.
func Desired(o *unstructured.Unstructured) Sum {
	h := newHasher()
	h.some(o.Object, func(key string, value any) {
		switch fields, ok := value.(map[string]any); {
		case key == "status":
		case key == "metadata" && ok:
			h.text('k', key)
			h.some(fields, func(key string, value any) {
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

// some adds those of the fields that add chooses, in order.
func (h *hasher) some(fields map[string]any, add func(key string, value any)) {
	h.head('o', 0)
	start := h.push(fields)
	for i, end := start, len(h.keys); i < end; i++ {
		add(h.keys[i], fields[h.keys[i]])
	}
	h.pop(start)
	h.close()
}
