// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"maps"
	"path"
	"slices"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/notice"
)

// Class is the meaning of an object's state for notifiers.
type Class string

// The classes. Unknown means that the hub cannot tell now: nothing changes by it.
const (
	Unknown      Class = ""
	Failed       Class = "failed"
	Degraded     Class = "degraded"
	Healthy      Class = "healthy"
	Pending      Class = "pending"
	Paused       Class = "paused"
	Connected    Class = "connected"
	Disconnected Class = "disconnected"
	Failing      Class = "failing"
	Fetched      Class = "fetched"
	// Waits is of what a person has to decide about, and Well of what services follow from and is fine.
	Waits Class = "waits"
	Well  Class = "well"
	// Opened and Ended are of requests for access. Neither is a failure.
	Opened Class = "opened"
	Ended  Class = "ended"
)

// isBad reports whether the class is a failure, from which there is a recovery.
func (c Class) isBad() bool {
	return c == Failed || c == Degraded || c == Disconnected || c == Failing || c == Waits
}

// isGood reports whether the class ends a failure.
func (c Class) isGood() bool { return c == Healthy || c == Connected || c == Fetched || c == Well }

// Commit is a commit that a service is to be made of.
type Commit struct{ Repository, ID string }

// Seen is the hub's present view of one object.
type Seen struct {
	// ID names the object and never another one that has its name later.
	ID   string
	UID  string
	Kind catalog.Kind
	// Name is the object's, without its project.
	Name string
	// Project is the object's, and Readers are projects whose services read a repository.
	Project string
	Readers []string
	// Labels are the labels of the object's cluster, which is in LabelProject.
	Labels       map[string]string
	LabelProject string
	CreatedAt    time.Time
	Class        Class
	// Applied names the content that a service has applied. Empty: it has not.
	Applied string
	Commits []Commit
	// Event has its subject. Its id, kind and time are empty.
	Event notice.Event
}

// State is the memory of an object. Its JSON is stored.
type State struct {
	Class Class `json:"class"`
	// Bad means that the object has failed and was not well since.
	Bad     bool   `json:"bad,omitempty"`
	Applied string `json:"applied,omitempty"`
	// Held are failures that have not lasted long enough for a notifier, by its uid.
	Held map[string]Held `json:"held,omitempty"`
}

// Held is a failure that is told when it is due, unless the object recovers before.
type Held struct {
	Event notice.Event `json:"event"`
	Due   time.Time    `json:"due"`
}

// Told is an event for one notifier. Commit is the one whose status changes, for a notifier of
// statuses.
type Told struct {
	Notifier *catalog.Notifier
	Event    notice.Event
	Commit   Commit
}

// Baseline returns the memory of an object without a message.
func Baseline(seen Seen) State {
	return State{Class: seen.Class, Bad: seen.Class.isBad(), Applied: seen.Applied}
}

// Step compares an object with the memory of it. It returns what to remember now, and the events to
// tell. The zero last is an object that is new. newID makes the ids of events.
func Step(last State, seen Seen, at time.Time, notifiers []*catalog.Notifier, newID func() string) (State, []Told) {
	next := last
	kinds := changes(last, seen)
	if seen.Class != Unknown {
		next.Class = seen.Class
		next.Bad = seen.Class.isBad() || last.Bad && !seen.Class.isGood()
	}
	if seen.Applied != "" {
		next.Applied = seen.Applied
	}
	if len(kinds) == 0 && len(last.Held) == 0 {
		return next, nil
	}
	next.Held = nil
	var told []Told
	for _, n := range notifiers {
		held, isHeld := last.Held[n.UID]
		if n.Spec.Suspended || !isHeld && len(kinds) == 0 || !Covers(n, seen) {
			continue
		}
		if isHeld && seen.Class.isGood() {
			kinds := slices.DeleteFunc(slices.Clone(kinds), isRecovery)
			told = append(told, tellAll(n, seen, kinds, at, newID)...)
			continue
		}
		for _, kind := range kinds {
			switch {
			case !n.Spec.Subscribes(kind):
			case isFailure(kind) && n.Spec.After > 0:
				due := at.Add(n.Spec.After)
				if isHeld {
					due = held.Due
				}
				held, isHeld = Held{Event: eventOf(seen, kind, at, newID), Due: due}, true
			default:
				told = append(told, tellAll(n, seen, []notice.Kind{kind}, at, newID)...)
			}
		}
		switch {
		case isHeld && !at.Before(held.Due):
			told = append(told, tell(n, seen, held.Event)...)
		case isHeld:
			if next.Held == nil {
				next.Held = map[string]Held{}
			}
			next.Held[n.UID] = held
		}
	}
	return next, told
}

// changes returns the kinds of events that lead from a state to the present view.
func changes(last State, seen Seen) []notice.Kind {
	var kinds []notice.Kind
	if seen.Kind == catalog.KindService && seen.Applied != "" && seen.Applied != last.Applied {
		kinds = append(kinds, notice.ServiceApplied)
	}
	if seen.Class == last.Class {
		return kinds
	}
	if events, ok := standingEvents[seen.Kind]; ok {
		return events.of(last, seen)
	}
	switch seen.Class {
	case Failed:
		kinds = append(kinds, notice.ServiceFailed)
	case Degraded:
		kinds = append(kinds, notice.ServiceDegraded)
	case Healthy:
		if kinds = append(kinds, notice.ServiceHealthy); last.Bad {
			kinds = append(kinds, notice.ServiceRecovered)
		}
	case Pending:
		kinds = append(kinds, notice.ServicePending)
	case Connected:
		kinds = append(kinds, notice.ClusterConnected)
	case Disconnected:
		kinds = append(kinds, notice.ClusterDisconnected)
	case Failing:
		kinds = append(kinds, notice.RepositoryFailing)
	case Fetched:
		if last.Bad {
			kinds = append(kinds, notice.RepositoryRecovered)
		}
	case Opened:
		kinds = append(kinds, notice.AccessRequestOpened)
	case Ended:
		kinds = append(kinds, notice.AccessRequestEnded)
	case Unknown, Paused, Waits, Well:
	}
	return kinds
}

func isFailure(kind notice.Kind) bool {
	for _, events := range standingEvents {
		if kind == events.failing || kind == events.waiting {
			return true
		}
	}
	return slices.Contains([]notice.Kind{notice.ServiceFailed, notice.ServiceDegraded, notice.ClusterDisconnected, notice.RepositoryFailing}, kind)
}

func isRecovery(kind notice.Kind) bool {
	for _, events := range standingEvents {
		if kind == events.recovered {
			return true
		}
	}
	return slices.Contains([]notice.Kind{notice.ServiceRecovered, notice.ClusterConnected, notice.RepositoryRecovered}, kind)
}

func eventOf(seen Seen, kind notice.Kind, at time.Time, newID func() string) notice.Event {
	e := seen.Event.Bounded()
	e.ID, e.Kind, e.Time = newID(), kind, at
	return e
}

func tellAll(n *catalog.Notifier, seen Seen, kinds []notice.Kind, at time.Time, newID func() string) []Told {
	var told []Told
	for _, kind := range kinds {
		if n.Spec.Subscribes(kind) {
			told = append(told, tell(n, seen, eventOf(seen, kind, at, newID))...)
		}
	}
	return told
}

// tell returns the event for a notifier: once, or once for each commit whose status it changes.
func tell(n *catalog.Notifier, seen Seen, e notice.Event) []Told {
	sink := n.Spec.Sink.Commit
	if sink == nil {
		return []Told{{Notifier: n, Event: e}}
	}
	var told []Told
	for _, commit := range seen.Commits {
		if slices.Contains(sink.Repositories, commit.Repository) {
			told = append(told, Told{Notifier: n, Event: e, Commit: commit})
		}
	}
	return told
}

// Covers reports whether a notifier sees an object, and is to be told of it.
func Covers(n *catalog.Notifier, seen Seen) bool {
	s, own := n.Spec, n.Project()
	isSeen := own == "" || seen.Project == own || slices.Contains(seen.Readers, own)
	switch {
	case !seen.Kind.InProject() && own != "": // it is the hub's
		return false
	case seen.Kind == catalog.KindNotifier && seen.UID == n.UID: // it could not report it
		return false
	case !isSeen, len(s.Projects) > 0 && !slices.Contains(s.Projects, seen.Project):
		return false
	case len(s.Services) > 0 && !isNamed(s.Services, seen):
		return false
	case len(s.ClusterLabels) > 0 && (own != "" && seen.LabelProject != own || !hasLabels(seen.Labels, s.ClusterLabels)):
		return false
	case s.Sink.Commit != nil:
		return slices.ContainsFunc(seen.Commits, func(c Commit) bool { return slices.Contains(s.Sink.Commit.Repositories, c.Repository) })
	}
	return true
}

func isNamed(patterns []string, seen Seen) bool {
	if seen.Kind != catalog.KindService {
		return false
	}
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, seen.Name)
		return ok && err == nil
	})
}

func hasLabels(labels, wanted map[string]string) bool {
	for key, value := range maps.All(wanted) {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}
