// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package policywire

import (
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/syncpolicy"
)

// The values of enums, the default first. An unspecified one means the default, which is not
// written.

func driftModes() map[typev1.DriftMode]syncpolicy.DriftMode {
	return map[typev1.DriftMode]syncpolicy.DriftMode{
		typev1.DriftMode_DRIFT_MODE_UNSPECIFIED: syncpolicy.DriftCorrect,
		typev1.DriftMode_DRIFT_MODE_CORRECT:     syncpolicy.DriftCorrect,
		typev1.DriftMode_DRIFT_MODE_REPORT:      syncpolicy.DriftReport,
		typev1.DriftMode_DRIFT_MODE_OFF:         syncpolicy.DriftOff,
	}
}

func conflictActions() map[typev1.ConflictAction]syncpolicy.ConflictAction {
	return map[typev1.ConflictAction]syncpolicy.ConflictAction{
		typev1.ConflictAction_CONFLICT_ACTION_UNSPECIFIED: syncpolicy.ConflictReport,
		typev1.ConflictAction_CONFLICT_ACTION_REPORT:      syncpolicy.ConflictReport,
		typev1.ConflictAction_CONFLICT_ACTION_FORCE:       syncpolicy.ConflictForce,
		typev1.ConflictAction_CONFLICT_ACTION_YIELD:       syncpolicy.ConflictYield,
	}
}

func adoptions() map[typev1.Adoption]syncpolicy.Adoption {
	return map[typev1.Adoption]syncpolicy.Adoption{
		typev1.Adoption_ADOPTION_UNSPECIFIED: syncpolicy.AdoptAlways,
		typev1.Adoption_ADOPTION_ALWAYS:      syncpolicy.AdoptAlways,
		typev1.Adoption_ADOPTION_NEVER:       syncpolicy.AdoptNever,
	}
}

func propagations() map[typev1.DeletePropagation]syncpolicy.Propagation {
	return map[typev1.DeletePropagation]syncpolicy.Propagation{
		typev1.DeletePropagation_DELETE_PROPAGATION_UNSPECIFIED: syncpolicy.DeleteForeground,
		typev1.DeletePropagation_DELETE_PROPAGATION_FOREGROUND:  syncpolicy.DeleteForeground,
		typev1.DeletePropagation_DELETE_PROPAGATION_BACKGROUND:  syncpolicy.DeleteBackground,
		typev1.DeletePropagation_DELETE_PROPAGATION_ORPHAN:      syncpolicy.DeleteOrphan,
	}
}

// PolicyMessage returns what the policy is on the wire; nil where it says nothing.
func PolicyMessage(p syncpolicy.Policy) *typev1.SyncPolicy {
	if p.IsZero() {
		return nil
	}
	return &typev1.SyncPolicy{
		Drift:          number(driftModes(), p.Drift),
		Ignore:         list(p.Ignore, ignoreMessage),
		Conflicts:      list(p.Conflicts, conflictMessage),
		Adoption:       number(adoptions(), p.Adoption),
		Recreate:       p.Recreate,
		Deletion:       deletionMessage(p.Deletion),
		DependsOn:      list(p.DependsOn, dependencyMessage),
		Windows:        list(p.Windows, windowMessage),
		Tests:          testsMessage(p.Tests),
		ServiceAccount: p.ServiceAccount,
		HealthRules:    list(p.HealthRules, healthMessage),
	}
}

// SettingsMessage returns what the settings are on the wire; nil where they say nothing.
func SettingsMessage(s syncpolicy.AgentSettings) *typev1.AgentSettings {
	if s.IsZero() {
		return nil
	}
	return &typev1.AgentSettings{
		HealthRules:           list(s.HealthRules, healthMessage),
		DefaultServiceAccount: s.DefaultServiceAccount,
		LockDown:              s.LockDown,
		RefreshInterval:       span(s.RefreshInterval),
		Workers:               int32(s.Workers),
		LogLevel:              s.LogLevel,
	}
}

// number finds the value on the wire: the lowest that is written, so the default is unspecified.
func number[E ~int32, T comparable](values map[E]T, value T) E {
	var found E
	if values[found] == value {
		return found
	}
	for candidate, meaning := range values {
		if meaning == value {
			return candidate
		}
	}
	return found
}

func choice[E ~int32, T any](values map[E]T, number E) T { return values[number] }

func ignoreMessage(r syncpolicy.IgnoreRule) *typev1.IgnoreRule {
	m := &typev1.IgnoreRule{Pointers: texts(r.Pointers), Managers: texts(r.Managers)}
	if s := r.Objects; s != (syncpolicy.Selector{}) {
		m.Objects = &typev1.ObjectSelector{Group: s.Group, Kind: s.Kind, Namespace: s.Namespace, Name: s.Name, Labels: s.Labels}
	}
	return m
}

// conflictMessage writes the action in any case: a rule without one says nothing to a reader.
func conflictMessage(r syncpolicy.ConflictRule) *typev1.ConflictRule {
	m := &typev1.ConflictRule{Manager: r.Manager, Action: number(conflictActions(), r.Action)}
	if m.GetAction() == typev1.ConflictAction_CONFLICT_ACTION_UNSPECIFIED {
		m.Action = typev1.ConflictAction_CONFLICT_ACTION_REPORT
	}
	return m
}

func deletionMessage(d syncpolicy.Deletion) *typev1.Deletion {
	if d == (syncpolicy.Deletion{}) {
		return nil
	}
	return &typev1.Deletion{
		Propagation: number(propagations(), d.Propagation), Timeout: span(d.Timeout), Detach: d.Detach,
		Namespaces: d.Namespaces, Definitions: d.Definitions, VolumeClaims: d.VolumeClaims,
	}
}

func dependencyMessage(d syncpolicy.Dependency) *typev1.Dependency {
	m := &typev1.Dependency{Service: d.Service, Condition: d.Condition}
	if o := d.Object; o != nil {
		m.Object = &typev1.DependencyObject{ApiVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
	}
	return m
}

func windowMessage(w syncpolicy.Window) *typev1.SyncWindow {
	return &typev1.SyncWindow{Schedule: w.Schedule, Duration: span(w.Duration), TimeZone: w.TimeZone, Deny: w.Deny, Strict: w.Strict}
}

func testsMessage(t *syncpolicy.Tests) *typev1.Tests {
	if t == nil {
		return nil
	}
	return &typev1.Tests{Path: t.Path, Timeout: span(t.Timeout), Disabled: t.Disabled}
}

func healthMessage(r syncpolicy.HealthRule) *typev1.HealthRule {
	return &typev1.HealthRule{
		Group: r.Group, Kind: r.Kind, Healthy: r.Healthy, Progressing: r.Progressing, Degraded: r.Degraded, Message: r.Message,
	}
}
