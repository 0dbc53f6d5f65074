// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package syncpolicy

import (
	"slices"
	"time"

	"github.com/leatdev/leat/internal/kit/fielderr"
)

// Pause is whether people keep a service as it is, and until when. No clock changes the value: At
// reports whether it counts at a time. A service with the zero Pause is not paused.
type Pause struct {
	IsSet bool
	// Until is when it ends by itself. Zero: it does not.
	Until time.Time
}

// At reports whether the pause counts at a time.
func (p Pause) At(at time.Time) bool { return p.IsSet && (p.Until.IsZero() || at.Before(p.Until)) }

// Or returns the pause of a service that two people pause: the later end counts. It is the same in
// every order, and an ended pause takes nothing away from another one.
func (p Pause) Or(other Pause) Pause {
	switch {
	case !p.IsSet:
		return other
	case !other.IsSet:
		return p
	case p.Until.IsZero() || other.Until.IsZero():
		return Pause{IsSet: true}
	case other.Until.After(p.Until):
		return other
	}
	return p
}

// Equal reports whether two pauses are the same, in the same words.
func (p Pause) Equal(other Pause) bool { return p.IsSet == other.IsSet && p.Until.Equal(other.Until) }

// Validate checks everything that needs no clock. The error is a *fielderr.Error about the field
// that holds the end, whose name is that of the pause's own field with "_until".
func (p Pause) Validate(field string) error {
	if !p.IsSet && !p.Until.IsZero() {
		return fielderr.New(field+"_until", "is set without %s; set both, or none", field)
	}
	return nil
}

// Pause returns the pause in the options.
func (o Options) Pause() Pause { return Pause{IsSet: o.Paused, Until: o.PausedUntil} }

// WithPause returns the options with another pause.
func (o Options) WithPause(p Pause) Options {
	o.Paused, o.PausedUntil = p.IsSet, p.Until
	return o
}

// AsOf returns the options as they count at a time: what has ended is gone, and nothing has an end.
// Plans hold options in this form, so an agent needs no clock, and an end that has not come changes
// no digest.
func (o Options) AsOf(at time.Time) Options {
	o = o.WithPause(Pause{IsSet: o.Pause().At(at)})
	if !slices.ContainsFunc(o.Policy.Ignore, IgnoreRule.ends) {
		return o
	}
	var rules []IgnoreRule
	for _, rule := range o.Policy.Ignore {
		if rule.ends() && !at.Before(rule.Until) {
			continue
		}
		rule.Until = time.Time{}
		rules = append(rules, rule)
	}
	o.Policy.Ignore = rules
	return o
}

// ends reports whether the rule ends by itself.
func (r IgnoreRule) ends() bool { return !r.Until.IsZero() }

// HasEnd reports whether AsOf returns other options at some times.
func (o Options) HasEnd() bool {
	return !o.PausedUntil.IsZero() || slices.ContainsFunc(o.Policy.Ignore, IgnoreRule.ends)
}

// NextEnd returns the first time after the given one at which AsOf returns something else. Zero: it
// always returns the same.
func (o Options) NextEnd(at time.Time) (next time.Time) {
	for end := range o.ends {
		if end.After(at) && (next.IsZero() || end.Before(next)) {
			next = end
		}
	}
	return next
}

// LastEnd returns the last time, up to the given one, since which AsOf returns the same. Zero: it has
// always returned that.
func (o Options) LastEnd(at time.Time) (last time.Time) {
	for end := range o.ends {
		if !end.After(at) && end.After(last) {
			last = end
		}
	}
	return last
}

// ends yields the ends that are set, in no order.
func (o Options) ends(yield func(time.Time) bool) {
	if !o.PausedUntil.IsZero() && !yield(o.PausedUntil) {
		return
	}
	for _, rule := range o.Policy.Ignore {
		if rule.ends() && !yield(rule.Until) {
			return
		}
	}
}
