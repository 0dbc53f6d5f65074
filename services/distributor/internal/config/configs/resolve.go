// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"fmt"
	"time"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Place names an entry: a back end by its name, and a path there.
type Place struct{ Backend, Path string }

// String returns the place as references begin.
func (p Place) String() string { return catalog.Reference{Backend: p.Backend, Path: p.Path}.String() }

// Value is the value that a service receives for a reference.
type Value struct {
	// Reference is the text of the reference that led to it.
	Reference string
	Text      secret.Text
	// IsPublic means that anybody may see it.
	IsPublic bool
}

// Request is the input of Resolve: the references of one service, and the known entries.
type Request struct {
	// References are texts by key.
	References map[string]string
	// Project is the service's.
	Project string
	// Backends are by name. One that is missing does not exist.
	Backends map[string]*catalog.ConfigBackend
	// Entries are the entries of the references. One that is missing was never read.
	Entries map[Place]State
	// Given holds the service's earlier values.
	Given map[string]Value
	Now   time.Time
}

// Outcome holds the values that a service receives.
type Outcome struct {
	// Values are by key.
	Values map[string]Value
	// Problem is the problem; nil: none. One that stops the service comes first.
	Problem *catalog.Problem
	// Waits means that a value is missing which the service never had.
	Waits bool

	weight weight
}

// weight orders problems: a heavier one hides a lighter one.
type weight int

const (
	weightStale   weight = iota + 1 // an old answer is in use
	weightMissing                   // a value is gone, and the one from before is in use
	weightWaits                     // the service waits
)

// Resolve decides what a service is given for its references.
//
// The references into one entry succeed or fail together, because a service's values of an entry
// have to be of one version: a user name of yesterday does not go with the password of today. If
// one of them cannot be given, the service keeps what it had by exactly these references. For
// references by which it never had anything it waits, unless they may be missing and are.
func Resolve(r Request) Outcome {
	groups := map[Place]map[string]catalog.Reference{}
	var order []Place
	out := Outcome{Values: map[string]Value{}}
	for _, key := range sortedKeys(r.References) {
		reference, err := catalog.ParseReference(r.References[key])
		if err != nil { // written by a later version of the hub
			out.wait(reason.ConfigMissing, fmt.Sprintf("%s: %v", key, err))
			continue
		}
		place := Place{reference.Backend, reference.Path}
		if groups[place] == nil {
			groups[place] = map[string]catalog.Reference{}
			order = append(order, place)
		}
		groups[place][key] = reference
	}
	for _, place := range order {
		r.resolveEntry(&out, place, groups[place])
	}
	if total := out.bytes(); total > catalog.MaxConfigBytes {
		return r.keepAll(fmt.Sprintf("the values have %d bytes; at most %d are allowed", total, catalog.MaxConfigBytes))
	}
	return out
}

// refusal is why the references into an entry cannot be given.
type refusal struct {
	reason reason.Reason
	text   string
	// isAbsent means that a reference that lets its value be missing is satisfied.
	isAbsent bool
}

// resolveEntry decides about the references into one entry.
func (r Request) resolveEntry(out *Outcome, place Place, references map[string]catalog.Reference) {
	state := r.Entries[place]
	why := r.refusal(place, state)
	if why == nil {
		var fresh map[string]Value
		if fresh, why = r.take(references, state); why == nil {
			for key, value := range fresh {
				out.Values[key] = value
			}
			if state.IsOverdue {
				out.note(weightStale, reason.ConfigStale,
					fmt.Sprintf("%s: the answer of %s stays in use: %s", place, stamp(state.ReadAt), state.Failure))
			}
			return
		}
	}
	for _, key := range sortedKeys(references) {
		reference := references[key]
		had, ok := r.had(key)
		switch {
		case ok:
			out.Values[key] = had
			out.note(weightMissing, why.reason, fmt.Sprintf("%s: %s: %s; the value from before stays in use", key, reference, why.text))
		case !reference.Optional || !why.isAbsent:
			out.wait(why.reason, fmt.Sprintf("%s: %s: %s", key, reference, why.text))
		}
	}
}

// refusal returns why an entry cannot be given at all, or nil.
func (r Request) refusal(place Place, state State) *refusal {
	backend, ok := r.Backends[place.Backend]
	switch {
	case !ok:
		return &refusal{reason: reason.ConfigMissing, text: "there is no such back end"}
	case !backend.Spec.OpenTo(r.Project):
		return &refusal{reason: reason.ConfigMissing, text: "the back end is not open to this project"}
	case !backend.Spec.Allows(place.Path):
		return &refusal{reason: reason.ConfigMissing, text: "the back end does not allow this path"}
	case state.IsRefused:
		return &refusal{reason: reason.ConfigMissing, text: state.Failure, isAbsent: state.IsAbsent}
	case state.Last == nil && state.Failure != "":
		return &refusal{reason: reason.ConfigMissing, text: "the back end has never given it: " + state.Failure}
	case state.Last == nil:
		return &refusal{reason: reason.ConfigMissing, text: "the back end has not been asked yet"}
	}
	return nil
}

// take returns the values of an entry, or why that is not possible for one of them.
func (r Request) take(references map[string]catalog.Reference, state State) (map[string]Value, *refusal) {
	fresh, isNew := map[string]Value{}, false
	for _, key := range sortedKeys(references) {
		reference := references[key]
		_, hadBefore := r.had(key)
		isNew = isNew || !hadBefore
		if err := state.Last.notText(reference.Key); err != nil {
			return nil, &refusal{reason: reason.ConfigMissing, text: err.Error()}
		}
		value, ok := state.Last.value(reference.Key)
		if !ok && reference.Optional && !hadBefore {
			continue
		}
		if !ok {
			return nil, &refusal{reason: reason.ConfigMissing, text: fmt.Sprintf("the entry has no key %q", reference.Key)}
		}
		if err := catalog.CheckConfigValue(key, value.Reveal()); err != nil {
			return nil, &refusal{reason: reason.ConfigMissing, text: "the value " + err.Error()}
		}
		fresh[key] = Value{Reference: r.References[key], Text: value, IsPublic: r.backendOf(reference).Spec.Public}
	}
	limit := time.Duration(0)
	for _, reference := range references {
		limit = r.backendOf(reference).Spec.MaxStale // the same for all of them
	}
	if isNew && limit > 0 && r.Now.Sub(state.ReadAt) > limit {
		return nil, &refusal{reason: reason.ConfigStale, text: fmt.Sprintf("the last answer is of %s, which is older than the back end's max_stale", stamp(state.ReadAt))}
	}
	return fresh, nil
}

func (r Request) backendOf(reference catalog.Reference) *catalog.ConfigBackend {
	return r.Backends[reference.Backend]
}

// had returns what the service was given before by the reference that the key has now.
func (r Request) had(key string) (Value, bool) {
	had, ok := r.Given[key]
	return had, ok && had.Reference == r.References[key]
}

// keepAll leaves the service what it had.
func (r Request) keepAll(text string) Outcome {
	out := Outcome{Values: map[string]Value{}}
	for key := range r.References {
		if had, ok := r.had(key); ok {
			out.Values[key] = had
		} else {
			out.Waits = true
		}
	}
	out.note(weightMissing, reason.ConfigMissing, text)
	return out
}

func (o *Outcome) bytes() (total int) {
	for key, value := range o.Values {
		total += len(key) + len(value.Text)
	}
	return total
}

func (o *Outcome) wait(why reason.Reason, text string) {
	o.Waits = true
	o.note(weightWaits, why, text)
}

// note keeps the first of the heaviest problems.
func (o *Outcome) note(w weight, why reason.Reason, text string) {
	if w > o.weight {
		o.weight, o.Problem = w, &catalog.Problem{Reason: why, Message: text}
	}
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// Value returns what a key of the last good answer stands for; "": the whole entry, as JSON.
func (s State) Value(key string) (secret.Text, bool) {
	if s.Last == nil || s.Last.notText(key) != nil {
		return "", false
	}
	return s.Last.value(key)
}
