// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// MaxEndAhead bounds how far ahead people may set the end of an exception. A pause for longer is
// one that people forget.
const MaxEndAhead = 90 * 24 * time.Hour

// end is a field of a document with the time at which an exception ends by itself.
type end struct {
	field string
	at    time.Time
}

// temporary is an object with exceptions that may end.
type temporary interface {
	// ends returns the ends that are set, in no order.
	ends() []end
}

func endsOf(object Object) []end {
	if t, ok := object.(temporary); ok {
		return t.ends()
	}
	return nil
}

// checkEnds checks the ends that an edit sets or changes; current is nil for a new object. An end
// that stays is fine however old it is, so that a document can be applied again.
//
// A person who updates or creates an object means a time to come. Apply takes documents, which may
// be older than their ends: one in Git stays there when its pause has ended, and has to mean the
// same in a hub that reads it for the first time.
func checkEnds(expected presence, current, next Object) error {
	var had []end
	if current != nil {
		had = endsOf(current)
	}
	for _, set := range endsOf(next) {
		isKept := slices.ContainsFunc(had, func(old end) bool { return old.at.Equal(set.at) })
		if isKept || expected == mayExist && set.at.Before(Now()) {
			continue
		}
		if err := CheckEnd(set.field, set.at); err != nil {
			return err
		}
	}
	return nil
}

// CheckEnd checks an end that a person sets now. The error is a *fielderr.Error.
func CheckEnd(field string, end time.Time) error {
	switch at := Now(); {
	case end.Sub(at) > MaxEndAhead:
		return fielderr.New(field, "is more than %d days ahead; name an earlier time, or none", MaxEndAhead/(24*time.Hour))
	case !end.After(at):
		return fielderr.New(field, "has passed: it is %s now, by the hub's clock; name a time in the future", at.Format(time.RFC3339))
	}
	return nil
}

func (s *Service) ends() []end { return endsIn("spec", s.Spec.Wanted()) }

func (g *GlobalService) ends() []end {
	all := endsIn(templateField, g.Spec.Template.Spec.Wanted())
	all = append(all, endOf("spec.paused_until", g.Spec.PausedUntil)...)
	for i, override := range g.Spec.Overrides {
		field := fielderr.Indexed("spec.overrides", i)
		all = append(all, endOf(field+".paused_until", override.Patch.PausedUntil)...)
		if policy := override.Patch.Policy; policy != nil {
			all = append(all, endsOfRules(field, policy.Ignore)...)
		}
	}
	return all
}

func (f *FleetSource) ends() []end { return endOf("spec.suspended_until", f.Spec.SuspendedUntil) }

// endsIn returns the ends in options, which are at that path of their document.
func endsIn(path string, o syncpolicy.Options) []end {
	return append(endOf(path+".paused_until", o.PausedUntil), endsOfRules(path, o.Policy.Ignore)...)
}

// endsOfRules returns the ends of the rules of a policy in what is at that path.
func endsOfRules(path string, rules []syncpolicy.IgnoreRule) (all []end) {
	for i, rule := range rules {
		all = append(all, endOf(fielderr.Indexed(path+".policy.ignore", i)+".until", rule.Until)...)
	}
	return all
}

// endOf returns the end that is at that path, if it is set.
func endOf(path string, at time.Time) []end {
	if at.IsZero() {
		return nil
	}
	return []end{{field: path, at: at}}
}

// AsOf returns the spec as it counts at a time: see [syncpolicy.Options.AsOf]. It is the same spec, with
// the same options, unless an exception of it has an end.
func (s ServiceSpec) AsOf(at time.Time) ServiceSpec {
	if s.Options != nil && s.Options.HasEnd() {
		s.Options = new(s.Options.AsOf(at))
	}
	return s
}

// NextEnd returns the first time after the given one at which AsOf returns something else. Zero: it
// always returns the same.
func (s ServiceSpec) NextEnd(at time.Time) time.Time {
	if s.Options == nil {
		return time.Time{}
	}
	return s.Options.NextEnd(at)
}

// LastEnd returns the last time, up to the given one, since which AsOf returns the same. Zero: it has
// always returned that.
func (s ServiceSpec) LastEnd(at time.Time) time.Time {
	if s.Options == nil {
		return time.Time{}
	}
	return s.Options.LastEnd(at)
}

// AsOf returns the service with its spec as it counts at a time.
func (s *Service) AsOf(at time.Time) *Service {
	if s.Spec.Options == nil || !s.Spec.Options.HasEnd() {
		return s
	}
	counting := *s
	counting.Spec = s.Spec.AsOf(at)
	return &counting
}
