// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"fmt"
	"maps"
	"time"

	"github.com/leatdev/leat/internal/contract/configref"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Place names an entry: a back end by its name, and a path there.
type Place struct{ Backend, Path string }

// String returns the place as references begin.
func (p Place) String() string { return catalog.Reference{Backend: p.Backend, Path: p.Path}.String() }

// Value is the value that a service receives for a reference.
type Value = configref.Value[secret.Text]

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

// Resolve decides what a service is given for its references: see package configref.
func Resolve(r Request) Outcome {
	groups := map[Place]map[string]configref.Reference{}
	var order []Place
	out := Outcome{Values: map[string]Value{}}
	for _, key := range sortedKeys(r.References) {
		text := r.References[key]
		reference, err := catalog.ParseReference(text)
		if err != nil { // written by a later version of the hub
			out.wait(reason.ConfigMissing, fmt.Sprintf("%s: %v", key, err))
			continue
		}
		place := Place{reference.Backend, reference.Path}
		if groups[place] == nil {
			groups[place] = map[string]configref.Reference{}
			order = append(order, place)
		}
		groups[place][key] = configref.Reference{Text: text, Field: reference.Key, IsOptional: reference.Optional}
	}
	for _, place := range order {
		r.resolveEntry(&out, place, groups[place])
	}
	if total := configref.Bytes(out.Values); total > catalog.MaxConfigBytes {
		return r.keepAll(fmt.Sprintf("the values have %d bytes; at most %d are allowed", total, catalog.MaxConfigBytes))
	}
	return out
}

// resolveEntry decides about the references into one entry.
func (r Request) resolveEntry(out *Outcome, place Place, references map[string]configref.Reference) {
	state := r.Entries[place]
	given := configref.Resolve(references, r.source(place, state), r.Given)
	maps.Copy(out.Values, given.Values)
	why := given.Why
	if why == nil {
		if state.IsOverdue {
			out.note(weightStale, reason.ConfigStale,
				fmt.Sprintf("%s: the answer of %s stays in use: %s", place, stamp(state.ReadAt), state.Failure))
		}
		return
	}
	for _, key := range given.Kept {
		out.note(weightMissing, why.Reason, fmt.Sprintf("%s: %s: %s; the value from before stays in use", key, references[key].Text, why.Text))
	}
	for _, key := range given.Lacking {
		out.wait(why.Reason, fmt.Sprintf("%s: %s: %s", key, references[key].Text, why.Text))
	}
}

// source returns an entry as references lead into it.
func (r Request) source(place Place, state State) (source configref.Source[secret.Text]) {
	backend, ok := r.Backends[place.Backend]
	missing := func(text string) *configref.Refusal {
		return &configref.Refusal{Reason: reason.ConfigMissing, Text: text}
	}
	switch {
	case !ok:
		source.Refusal = missing("there is no such back end")
	case !backend.Spec.OpenTo(r.Project):
		source.Refusal = missing("the back end is not open to this project")
	case !backend.Spec.Allows(place.Path):
		source.Refusal = missing("the back end does not allow this path")
	case state.IsRefused:
		source.Refusal = missing(state.Failure)
		source.Refusal.IsAbsent = state.IsAbsent
	case state.Last == nil && state.Failure != "":
		source.Refusal = missing("the back end has never given it: " + state.Failure)
	case state.Last == nil:
		source.Refusal = missing("the back end has not been asked yet")
	}
	if source.Refusal != nil {
		return source
	}
	source.IsPublic = backend.Spec.Public
	if limit := backend.Spec.MaxStale; limit > 0 && r.Now.Sub(state.ReadAt) > limit {
		source.Late = &configref.Refusal{
			Reason: reason.ConfigStale, Text: fmt.Sprintf("the last answer is of %s, which is older than the back end's max_stale", stamp(state.ReadAt)),
		}
	}
	source.Value = func(key string, reference configref.Reference) (secret.Text, *configref.Refusal) {
		if err := state.Last.notText(reference.Field); err != nil {
			return "", missing(err.Error())
		}
		value, ok := configref.Field(state.Last.Fields, reference.Field)
		if !ok {
			why := missing(fmt.Sprintf("the entry has no key %q", reference.Field))
			why.IsOfField = true
			return "", why
		}
		if err := catalog.CheckConfigValue(key, value.Reveal()); err != nil {
			return "", missing("the value " + err.Error())
		}
		return value, nil
	}
	return source
}

// keepAll leaves the service what it had.
func (r Request) keepAll(text string) Outcome {
	out := Outcome{Values: map[string]Value{}}
	for key, reference := range r.References {
		if had, ok := configref.Had(r.Given, key, reference); ok {
			out.Values[key] = had
		} else {
			out.Waits = true
		}
	}
	out.note(weightMissing, reason.ConfigMissing, text)
	return out
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
	return configref.Field(s.Last.Fields, key)
}
