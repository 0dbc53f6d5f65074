// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package configref decides what a service is given for references of its configuration. The hub
// decides so about references to back ends, and the agent about references to objects of its cluster.
//
// The references into one source are given together or not at all, because the values of a source
// have to be of one version: a user name of yesterday does not go with the password of today. If one
// of them cannot be given, the service keeps what it had by exactly these references. It lacks those
// by which it never had a value, unless they may be missing and are.
package configref

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/leatdev/leat/internal/contract/reason"
)

// Bounds of what references lead to.
const (
	// MaxValueBytes bounds one value, and MaxBytes the keys and values of a configuration together.
	MaxValueBytes = 64 << 10
	MaxBytes      = 512 << 10
)

// Reference leads to a value of a source.
type Reference struct {
	// Text is the reference as it is written.
	Text string
	// Field is the key in the source. Empty: all of them, as JSON.
	Field string
	// IsOptional lets the value be missing.
	IsOptional bool
}

// Value is the value of a reference for a service. Hubs and agents store its JSON, sealed, with
// plain text: a secret.Text would be redacted.
type Value[T ~string] struct {
	// Reference is the text of the reference that led to it.
	Reference string `json:"reference"`
	Text      T      `json:"text"`
	// IsPublic means that anybody may see it.
	IsPublic bool `json:"public,omitempty"`
}

// Refusal is why a reference, and with it all references into its source, cannot be given.
type Refusal struct {
	Reason reason.Reason
	// Text is for people.
	Text string
	// IsAbsent satisfies references whose value may be missing.
	IsAbsent bool
	// IsOfField means that the source does not have the field. It does not refuse a reference whose
	// value may be missing, and by which the service had none.
	IsOfField bool
}

// Source is one place that references lead into, as it is known.
type Source[T ~string] struct {
	// Refusal is why nothing of it can be given, and Late why nothing can be given to a service that
	// lacks the value of one of the references. Nil: it can.
	Refusal, Late *Refusal
	// Value returns what a reference of a key leads to, or why it leads nowhere. It is not called
	// after a Refusal.
	Value func(key string, r Reference) (T, *Refusal)
	// IsPublic means that anybody may see its values.
	IsPublic bool
}

// Outcome holds the values of a service for the references into one source.
type Outcome[T ~string] struct {
	Values map[string]Value[T]
	// Why is nil if the source gives the values.
	Why *Refusal
	// Kept are the keys with values from before, and Lacking the keys without a value that need one.
	// Both are sorted.
	Kept, Lacking []string
}

// Resolve decides about the references into one source, by key. had holds the earlier values of the
// service, for any references.
func Resolve[T ~string](references map[string]Reference, source Source[T], had map[string]Value[T]) Outcome[T] {
	values, why := take(references, source, had)
	if why == nil {
		return Outcome[T]{Values: values}
	}
	out := Outcome[T]{Values: map[string]Value[T]{}, Why: why}
	for _, key := range slices.Sorted(maps.Keys(references)) {
		value, isHad := Had(had, key, references[key].Text)
		switch {
		case isHad:
			out.Values[key], out.Kept = value, append(out.Kept, key)
		case !references[key].IsOptional || !why.IsAbsent:
			out.Lacking = append(out.Lacking, key)
		}
	}
	return out
}

// take returns the values of a source, or why it refuses them.
func take[T ~string](references map[string]Reference, source Source[T], had map[string]Value[T]) (map[string]Value[T], *Refusal) {
	if source.Refusal != nil {
		return nil, source.Refusal
	}
	values, isLate := map[string]Value[T]{}, false
	for _, key := range slices.Sorted(maps.Keys(references)) {
		reference := references[key]
		_, isHad := Had(had, key, reference.Text)
		isLate = isLate || !isHad
		text, why := source.Value(key, reference)
		switch {
		case why == nil:
			values[key] = Value[T]{Reference: reference.Text, Text: text, IsPublic: source.IsPublic}
		case !why.IsOfField || !reference.IsOptional || isHad:
			return nil, why
		}
	}
	if isLate && source.Late != nil {
		return nil, source.Late
	}
	return values, nil
}

// Had returns what was given for a key by exactly this text of a reference.
func Had[T ~string](given map[string]Value[T], key, text string) (Value[T], bool) {
	value, ok := given[key]
	return value, ok && value.Reference == text
}

// Bytes returns the length of the keys and values together.
func Bytes[T ~string](values map[string]Value[T]) (total int) {
	for key, value := range values {
		total += len(key) + len(value.Text)
	}
	return total
}

// Field returns a field of a source, or all fields as JSON if the name is empty.
func Field[T ~string](fields map[string]T, name string) (T, bool) {
	if name != "" {
		text, ok := fields[name]
		return text, ok
	}
	plain := make(map[string]string, len(fields))
	for key, text := range fields {
		plain[key] = string(text)
	}
	text, err := json.Marshal(plain)
	return T(text), err == nil
}
