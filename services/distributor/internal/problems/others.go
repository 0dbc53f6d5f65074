// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package problems

import (
	"fmt"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/amount"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Release is the latest rollout of a policy.
type Release struct {
	Number int64
	State  rollout.State
	// Why is why it is not running.
	Why string
	// WaitsFor is the decision that a person has to make; empty: none. Since is since when, or when
	// the rollout ended. Zero: not known.
	WaitsFor string
	Since    time.Time
}

// ReleaseOf sums a rollout up.
func ReleaseOf(number int64, run *rollout.Header) Release {
	r := Release{Number: number, State: run.State, Why: run.Says(func(f rollout.Failure) string { return objectname.Display(f.Name) }), Since: run.EndedAt}
	if run.State == rollout.Running && run.Blocked.By == rollout.ByPerson {
		r.WaitsFor = run.Blocked.Why
		if run.Cursor < len(run.Waves) {
			r.Since = run.Waves[run.Cursor].AskedAt
		}
	}
	return r
}

// byPerson begins the reasons of rollouts that a person took back.
const byPerson = string(rollout.Rollback) + " by "

// OfRollout returns the problem of the latest rollout of a policy. One that went back stays a
// problem until the next one begins: the sources hold content that the services do not have.
func OfRollout(policy *catalog.RolloutPolicy, latest Release) []Item {
	item := itemOf(policy, reason.RolloutStopped, latest.Since)
	name := fmt.Sprintf("rollout %d", latest.Number)
	switch {
	case latest.WaitsFor != "":
		item.Severity, item.WaitsForPerson, item.Message = Degraded, true, name+" waits for a person: "+latest.WaitsFor
	case latest.State == rollout.Halted:
		item.Severity, item.Message = Failed, name+" stopped and waits for a person: "+latest.Why
	case latest.State == rollout.Paused:
		item.Severity, item.Message = Warning, name+" is paused: "+latest.Why
	case latest.State == rollout.RollingBack, latest.State == rollout.RolledBack:
		item.Severity = Failed
		if strings.HasPrefix(latest.Why, byPerson) {
			item.Severity = Warning
		}
		item.Message = name + " went back: " + latest.Why
		if latest.State == rollout.RollingBack {
			item.Message = name + " goes back: " + latest.Why
		}
	default:
		return nil
	}
	return []Item{item}
}

// OfSize returns the problem of the number of services that a policy covers: a rollout has
// rollout.MaxMembers at most.
func OfSize(policy *catalog.RolloutPolicy, services int) []Item {
	message := TooLarge(services)
	if message == "" {
		return nil
	}
	item := itemOf(policy, reason.RolloutTooLarge, time.Time{})
	item.Severity, item.Message = Degraded, message
	return []Item{item}
}

// TooLarge reports that a policy covers more services than a rollout can have; "" if it does not.
func TooLarge(services int) string {
	if services <= rollout.MaxMembers {
		return ""
	}
	return fmt.Sprintf("the policy covers %d services, and one rollout can have %d; no other rollout begins, and services keep what they have; divide them among several policies",
		services, rollout.MaxMembers)
}

// OfFleetSource returns the problem of a fleet source, given the problem of its latest look, and
// how many removals wait for a person.
func OfFleetSource(source *catalog.FleetSource, problem *catalog.Problem, held int) []Item {
	var items []Item
	hasHeld := false
	if problem != nil {
		item := itemOf(source, problem.Reason, problem.Since)
		item.Severity, item.Message = Failed, problem.Message
		switch {
		case catalog.Passes(problem.Reason):
			item.Severity = Waiting
		case problem.Reason == reason.FleetSourceHeld, problem.Reason == reason.FleetSourceConflict:
			item.Severity = Degraded
		}
		hasHeld = problem.Reason == reason.FleetSourceHeld
		item.WaitsForPerson = hasHeld
		items = append(items, item)
	}
	if held > 0 && !hasHeld {
		item := itemOf(source, reason.FleetSourceHeld, time.Time{})
		item.Severity, item.WaitsForPerson, item.Message = Degraded, true, fmt.Sprintf("would remove %s, which is more than its guard allows", amount.Of(held, "object"))
		items = append(items, item)
	}
	return items
}

// OfImagePolicy returns the problem of an image policy, given the one of its latest look. A suspended policy has none.
func OfImagePolicy(policy *catalog.ImagePolicy, problem *catalog.Problem) []Item {
	if problem == nil || policy.Spec.Suspended {
		return nil
	}
	item := itemOf(policy, problem.Reason, problem.Since)
	item.Severity, item.Message = Degraded, problem.Message
	if catalog.Passes(problem.Reason) || problem.Reason == reason.PushOutdated {
		item.Severity = Waiting
	}
	return []Item{item}
}

// OfBackend returns the problem of a back end of configurations, given the problem of its reads,
// how many of its paths fail, and when it was last read.
func OfBackend(backend *catalog.ConfigBackend, problem *catalog.Problem, failing, paths int, readAt time.Time) []Item {
	if problem == nil {
		return nil
	}
	item := itemOf(backend, problem.Reason, problem.Since)
	item.Severity = Degraded // the last values stay in use
	if readAt.IsZero() {
		item.Severity = Failed
	}
	item.Message = fmt.Sprintf("cannot read %d of %s: %s", failing, amount.Of(paths, "path"), problem.Message)
	return []Item{item}
}

// OfNotifier returns the problem of a notifier: messages that were given up, or that its receiver
// does not take now.
func OfNotifier(notifier *catalog.Notifier, dead, waiting int, lastError string, lastErrorAt time.Time) []Item {
	item := itemOf(notifier, noReason, lastErrorAt)
	switch {
	case notifier.Spec.Suspended:
		return nil
	case dead > 0:
		item.Severity = Degraded
		item.Message = fmt.Sprintf("has given %s up (%s); leat notifier dead-letters lists them, and leat notifier resend sends them again", amount.Of(dead, "message"), lastError)
	case waiting > 0 && lastError != "":
		item.Severity = Waiting
		item.Message = fmt.Sprintf("%s not sent yet, because the receiver did not take the last one: %s", amount.Of(waiting, "message"), lastError)
	default:
		return nil
	}
	return []Item{item}
}

// OfGlobal returns the problem of a global service apart from its services.
func OfGlobal(global *catalog.GlobalService, problem *catalog.Problem) []Item {
	if problem == nil {
		return nil
	}
	item := itemOf(global, problem.Reason, problem.Since)
	item.Severity, item.Message, item.Filter = Warning, problem.Message, fmt.Sprintf("reason=%s", problem.Reason)
	switch problem.Reason {
	case reason.DerivationPending:
		item.Severity = Waiting
	case reason.RemovalHeld:
		item.Severity, item.WaitsForPerson = Degraded, true
	default:
	}
	return []Item{item}
}

// ofPin returns that a person has pinned a service. It is a warning, because nothing failed.
func ofPin(service *catalog.Service, pin *catalog.Pin) Item {
	item := itemOf(service, noReason, pin.At)
	item.Severity, item.Cluster, item.Filter = Warning, service.Spec.Cluster, "pinned=true"
	end := "leat rollback service/NAME --release"
	if !pin.Until.IsZero() {
		end = pin.Until.UTC().Format(time.RFC3339)
	}
	item.Message = fmt.Sprintf("is pinned to revision %d of its history; what is new waits until %s", pin.Revision, end)
	return item
}

func itemOf(object catalog.Object, why reason.Reason, since time.Time) Item {
	key := object.Key()
	_, name := objectname.Split(key.Name)
	return Item{Kind: key.Kind, Path: key.Name, Reason: why, Since: since, names: []string{objectname.Display(key.Name), name}}
}
