// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package attestation

import (
	"maps"
	"strings"
	"time"
)

const (
	// WantedFor is how long a ref is asked about by polls after it was last resolved.
	WantedFor = 30 * 24 * time.Hour
	// maxPause bounds the time between two questions about an artifact that is not signed.
	maxPause = time.Hour
	// maxWhy bounds the reason that is kept of a bad answer.
	maxWhy = 600
)

// Ledger is the state of the signatures in one repository. It is kept with the mirror, and is a
// value: its methods return another one.
type Ledger struct {
	// Policy is the fingerprint of the policy that all verdicts are of.
	Policy string `json:"policy,omitempty"`
	// Verdicts are answers by subject; see [Judge].
	Verdicts map[string]Verdict `json:"verdicts,omitempty"`
	// Wanted has the full names of refs that were resolved, with the time when that was last noted.
	Wanted map[string]time.Time `json:"wanted,omitempty"`
	// Good has what a ref delivered last that is held back now, by full name. It outlives changes of
	// the policy, so that a ref does not lose its last good artifact because a key was added.
	Good map[string]string `json:"good,omitempty"`
}

// Verdict is the answer to one question.
type Verdict struct {
	// Why is why the artifact is not delivered, as a phrase that follows its digest. Empty: it is.
	Why string `json:"why,omitempty"`
	// Version is the version of the signed chart, if the signature has it.
	Version string `json:"version,omitempty"`
	// First and Asked are when the upstream was asked for the first and for the last time.
	First time.Time `json:"first,omitzero"`
	Asked time.Time `json:"asked,omitzero"`
}

// IsGood reports whether a key of the policy signed the artifact.
func (v Verdict) IsGood() bool { return v.Why == "" }

// dueAt returns when to ask again after a bad answer. The pause grows with the time that the signature
// has been missing for: at first every poll asks, and then ever fewer do.
func (v Verdict) dueAt() time.Time { return v.Asked.Add(min(v.Asked.Sub(v.First)/2, maxPause)) }

// replace returns the verdict after an answer.
func (v Verdict) replace(answer Verdict, now time.Time) Verdict {
	next := Verdict{Why: answer.Why, Version: answer.Version, First: v.First, Asked: now}
	if len(next.Why) > maxWhy {
		next.Why = strings.ToValidUTF8(next.Why[:maxWhy], "")
	}
	if next.First.IsZero() {
		next.First = now
	}
	return next
}

// under returns the ledger for a policy. Verdicts of another policy are forgotten.
func (l Ledger) under(policy string) Ledger {
	next := Ledger{Policy: policy, Verdicts: map[string]Verdict{}, Wanted: maps.Clone(l.Wanted), Good: maps.Clone(l.Good)}
	if l.Policy == policy {
		maps.Copy(next.Verdicts, l.Verdicts)
	}
	if next.Wanted == nil {
		next.Wanted = map[string]time.Time{}
	}
	if next.Good == nil {
		next.Good = map[string]string{}
	}
	return next
}

// Want notes that refs are resolved now.
func (l Ledger) Want(names []string, now time.Time) Ledger {
	next := l.under(l.Policy)
	for _, name := range names {
		next.Wanted[name] = now
	}
	return next
}

// isWanted reports whether polls ask about a ref.
func (l Ledger) isWanted(name string, now time.Time) bool {
	at, ok := l.Wanted[name]
	return ok && now.Sub(at) <= WantedFor
}
