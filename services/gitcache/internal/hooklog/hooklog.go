// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package hooklog has the record of webhooks, by which people see whether the webhook that they have
// set up arrives, and why one was refused. Senders never see it: they learn nothing about
// repositories.
//
// A record holds nothing of a body that is not proven, and never a secret. The newest records of a
// repository are kept, those that made it fetch apart from all others: a sender without the secret
// cannot push them out.
package hooklog

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// Kept is how many records of a repository are kept of each half: of the deliveries that made it
	// fetch, and of all others.
	Kept = 10
	// Life is how long a repository's records are kept after the last one.
	Life = 30 * 24 * time.Hour

	maxRefs    = 4
	maxRefSize = 200
)

// Outcome is what became of a delivery. Its text is the stored form.
type Outcome string

// The outcomes.
const (
	Accepted  Outcome = "accepted"   // the repository is fetched
	Ping      Outcome = "ping"       // a test of the connection
	Ignored   Outcome = "ignored"    // proven, but not about refs
	Unmatched Outcome = "unmatched"  // proven, but about the URL of another repository
	Replayed  Outcome = "replayed"   // proven, and received before
	Malformed Outcome = "malformed"  // proven, but not what the provider sends
	NoProof   Outcome = "no_proof"   // it carries no proof: its sender knows no secret
	WrongKey  Outcome = "wrong_key"  // proven by another secret
	NoSecret  Outcome = "no_secret"  // the repository has no secret, and the hub neither
	TooLarge  Outcome = "too_large"  // larger than the bound on bodies
	Limited   Outcome = "limited"    // one of too many
	BrokenOff Outcome = "broken_off" // its sender did not send all of it
)

// Record is one delivery.
type Record struct {
	Time time.Time `json:"time"`
	// Provider is the provider's name in the address, such as github.
	Provider string  `json:"provider"`
	Outcome  Outcome `json:"outcome"`
	// Refs are branches and tags that a proven delivery names. gitcache does not rely on them.
	Refs []string `json:"refs,omitempty"`
}

// Refs returns the first of the refs that a sender names, each of a bounded length.
func Refs(named []string) []string {
	var refs []string
	for _, ref := range named {
		ref = strings.ToValidUTF8(ref, "�")
		if ref == "" || slices.Contains(refs, ref) {
			continue
		}
		if len(refs) == maxRefs {
			break
		}
		for len(ref) > maxRefSize {
			_, last := utf8.DecodeLastRuneInString(ref)
			ref = ref[:len(ref)-last]
		}
		refs = append(refs, ref)
	}
	return refs
}

// Merge returns the records of both halves, the newest first.
func Merge(halves ...[]Record) []Record {
	all := slices.Concat(halves...)
	slices.SortStableFunc(all, func(a, b Record) int { return cmp.Compare(b.Time.UnixNano(), a.Time.UnixNano()) })
	return all
}
