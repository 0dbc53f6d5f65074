// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"time"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
)

// Exception holds people's decisions about one derived service, beside its global service: at
// night, one cluster is paused, and the guard is answered for each cluster. It is stored by the
// service's uid, so it stays when the service is derived again, and goes with the global service or
// the cluster. Its JSON is its stored form.
type Exception struct {
	// Paused pauses the service. It cannot resume a service that its global service pauses.
	Paused bool `json:"paused,omitempty"`
	// PausedUntil is when Paused ends. Zero: it does not.
	PausedUntil time.Time `json:"pausedUntil,omitzero"`
	// PruneConfirmation comes before the global service's. Empty: that one counts.
	PruneConfirmation string `json:"pruneConfirmation,omitempty"`
	// By, At and Reason are of the latest decision.
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at,omitzero"`
	Reason string    `json:"reason,omitempty"`
}

func (e *Exception) pause() syncpolicy.Pause {
	return syncpolicy.Pause{IsSet: e.Paused, Until: e.PausedUntil}
}

// equal reports whether two exceptions are the same; either may be nil.
func (e *Exception) equal(other *Exception) bool {
	if e == nil || other == nil {
		return e == other
	}
	return e.pause().Equal(other.pause()) && e.PruneConfirmation == other.PruneConfirmation && e.By == other.By && e.At.Equal(other.At) && e.Reason == other.Reason
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
	options = options.WithPause(options.Pause().Or(e.pause()))
	if e.PruneConfirmation != "" {
		options.PruneConfirmation = e.PruneConfirmation
	}
	s.Spec.Options = &options
}

// pauseOfGlobal returns the pause of the service without its exception.
func (s *Service) pauseOfGlobal() syncpolicy.Pause {
	plain := *s
	plain.Except(nil)
	return plain.Spec.Wanted().Pause()
}
