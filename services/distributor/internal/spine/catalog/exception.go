// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"time"
)

// Exception holds people's decisions about one derived service, beside its global service: at
// night, one cluster is paused, and the guard is answered for each cluster. It is stored by the
// service's uid, so it stays when the service is derived again, and goes with the global service or
// the cluster. Its JSON is its stored form.
type Exception struct {
	// Paused pauses the service. It cannot resume a service that its global service pauses.
	Paused bool `json:"paused,omitempty"`
	// PruneConfirmation comes before the global service's. Empty: that one counts.
	PruneConfirmation string `json:"pruneConfirmation,omitempty"`
	// By, At and Reason are of the latest decision.
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at,omitzero"`
	Reason string    `json:"reason,omitempty"`
}

// equal reports whether two exceptions are the same; either may be nil.
func (e *Exception) equal(other *Exception) bool {
	if e == nil || other == nil {
		return e == other
	}
	return e.Paused == other.Paused && e.PruneConfirmation == other.PruneConfirmation && e.By == other.By && e.At.Equal(other.At) && e.Reason == other.Reason
}

// SameException reports whether two services have the same exception.
func SameException(a, b *Service) bool { return a.Exception.equal(b.Exception) }

// Except replaces the exception of a derived service, which belongs to the caller alone. Nil removes
// the exception.
func (s *Service) Except(e *Exception) {
	if s.Exception != nil {
		s.Spec.Options = s.DerivedOptions
	}
	s.Exception, s.DerivedOptions = e, s.Spec.Options
	if e == nil || !e.Paused && e.PruneConfirmation == "" {
		return
	}
	options := s.Spec.Wanted()
	options.Paused = options.Paused || e.Paused
	if e.PruneConfirmation != "" {
		options.PruneConfirmation = e.PruneConfirmation
	}
	s.Spec.Options = &options
}

// isPausedByGlobal reports whether the service is paused regardless of its exception.
func (s *Service) isPausedByGlobal() bool {
	plain := *s
	plain.Except(nil)
	return plain.Spec.Wanted().Paused
}
