// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/window"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// Admit decides whether the unit works on the newest entry, or on the applied one. missing returns
// the dependencies that are not ready. Admit reports whether Desired has changed, so that a run
// under the previous one must end. A closing gate does not end an active run.
func (s *State) Admit(now time.Time, isRunning bool, missing func() []string) (changed bool) {
	if s.Order != Follow {
		s.Gate.Bar, s.Gate.IsFrozen, s.Gate.Until = nil, false, time.Time{}
		return false
	}
	s.freeze(now)
	s.Gate.Bar = s.bar(now, missing)
	switch {
	case s.Gate.Bar == nil:
		changed = s.workOn(s.Newest)
	case !isRunning:
		changed = s.workOn(s.fallback())
	}
	if s.IsCurrent() && len(s.Desired.Bundles) > 0 {
		s.Kept = s.Desired
	}
	return changed
}

// HasChange reports whether the newest entry, once admitted, changes the cluster beyond correcting
// drift.
func (s *State) HasChange() bool {
	n := s.Newest
	return s.Order == Follow && len(n.Bundles) > 0 && !n.Spec.Paused && !n.Spec.DryRun &&
		(s.Attempt.IsRequested || s.Stored.IsTouched || !n.Inputs().SameInputs(s.Stored.Applied))
}

// bar returns why the newest entry may not be applied now, or nil.
func (s *State) bar(now time.Time, missing func() []string) *reason.Problem {
	if !s.HasChange() {
		return nil
	}
	if problem := s.closedWindow(now); problem != nil {
		return problem
	}
	if !s.Stored.IsTouched && s.Newest.Inputs().SameContent(s.Stored.Applied) {
		return nil // only the request is new
	}
	const maxNamed = 3
	all := missing()
	switch {
	case len(all) == 0:
		return nil
	case len(all) > maxNamed:
		all = append(all[:maxNamed], fmt.Sprintf("and %d more", len(all)-maxNamed))
	}
	return reason.Errorf(reason.DependencyNotReady, "a change waits: %s", strings.Join(all, "; "))
}

// freeze sets whether a strict window denies everything, and when that ends.
func (s *State) freeze(now time.Time) {
	g := &s.Gate
	g.IsFrozen, g.Until = !g.calendar.Open(now, window.Correction), time.Time{}
	if g.IsFrozen {
		g.Until, _ = g.calendar.Next(now, window.Correction)
	}
}

// closedWindow returns the problem that the service's windows are closed, and sets when to check
// again. It returns nil if a window is open.
func (s *State) closedWindow(now time.Time) *reason.Problem {
	g, occasion := &s.Gate, window.Change
	if g.requested.SameInputs(s.Newest.Inputs()) {
		occasion = window.Request
	}
	if g.unreadable != nil && occasion == window.Change {
		return reason.Errorf(reason.SyncWindowClosed,
			"the service's windows cannot be read, so a change waits until somebody syncs the service: %v", g.unreadable)
	}
	if g.calendar.Open(now, occasion) {
		return nil
	}
	opening, opens := g.calendar.Next(now, occasion)
	g.Until = earliest(g.Until, opening)
	if !opens {
		return reason.Errorf(reason.SyncWindowClosed, "no window of the service opens in the foreseeable future; correct its windows")
	}
	return reason.Errorf(reason.SyncWindowClosed, "a change waits for the service's next window, which opens at %s",
		opening.UTC().Format("2006-01-02 15:04 MST"))
}

// workOn sets the entry that the unit works on, and reports whether it has changed. That does not
// bring the retry after a failure forward.
func (s *State) workOn(entry plan.Service) (changed bool) {
	if entry.UID == s.Desired.UID && entry.Inputs().SameInputs(s.Desired.Inputs()) {
		s.Desired = entry
		return false
	}
	failed, retryAt := s.Attempt.Failed, s.Attempt.RetryAt
	wasLeftAlone := s.Desired.Spec.Paused || s.Desired.Spec.DryRun
	s.resetAttempt()
	s.Attempt.Failed, s.Attempt.RetryAt = failed, retryAt
	s.Desired = entry
	s.Attempt.IsDirty = wasLeftAlone && !s.isLeftAlone() // changes by others in the meantime are examined
	return true
}

// fallback returns the applied entry. It has no bundles, and so the service is left alone, if the
// cluster holds a partly applied change, or if an older agent has applied it.
func (s *State) fallback() plan.Service {
	isKept := s.Kept.Name != "" && s.Kept.UID == s.Newest.UID
	if isKept && !s.Stored.IsTouched && s.Kept.Inputs().SameInputs(s.Stored.Applied) {
		return s.Kept
	}
	return plan.Service{Name: s.Name, UID: s.Newest.UID}
}
