// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package policywire

import (
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/enumname"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
)

// PolicyMessage returns what the policy is on the wire; nil for the zero policy.
func PolicyMessage(p syncpolicy.Policy) *typev1.SyncPolicy {
	if p.IsZero() {
		return nil
	}
	return &typev1.SyncPolicy{
		Drift:          enumname.Value[typev1.DriftMode](string(p.Drift)),
		Ignore:         list(p.Ignore, ignoreMessage),
		Conflicts:      list(p.Conflicts, conflictMessage),
		Adoption:       enumname.Value[typev1.Adoption](string(p.Adoption)),
		Recreate:       p.Recreate,
		Deletion:       deletionMessage(p.Deletion),
		DependsOn:      list(p.DependsOn, dependencyMessage),
		Windows:        list(p.Windows, windowMessage),
		Tests:          testsMessage(p.Tests),
		ServiceAccount: p.ServiceAccount,
		HealthRules:    list(p.HealthRules, healthMessage),
		Limits:         limitsMessage(p.Limits),
	}
}

func limitsMessage(l *syncpolicy.Limits) *typev1.ServiceLimits {
	if l == nil {
		return nil
	}
	return &typev1.ServiceLimits{
		Namespaces: AllowListMessage(l.Namespaces), ClusterScopedKinds: AllowListMessage(l.ClusterScopedKinds), ServiceAccounts: AllowListMessage(l.ServiceAccounts),
		ClusterAnnotations: AllowListMessage(l.ClusterAnnotations),
	}
}

// AllowListMessage returns the message of a list, or nil for a nil one.
func AllowListMessage(l syncpolicy.AllowList) *typev1.AllowList {
	if l == nil {
		return nil
	}
	return &typev1.AllowList{Allow: l}
}

// SettingsMessage returns what the settings are on the wire; nil for zero settings.
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
		Metrics:               s.Metrics,
	}
}

func ignoreMessage(r syncpolicy.IgnoreRule) *typev1.IgnoreRule {
	m := &typev1.IgnoreRule{Pointers: texts(r.Pointers), Managers: texts(r.Managers), Until: EndMessage(r.Until)}
	if s := r.Objects; s != (syncpolicy.Selector{}) {
		m.Objects = &typev1.ObjectSelector{Group: s.Group, Kind: s.Kind, Namespace: s.Namespace, Name: s.Name, Labels: s.Labels}
	}
	return m
}

// conflictMessage writes the action in any case: a rule without one has no meaning for a reader.
func conflictMessage(r syncpolicy.ConflictRule) *typev1.ConflictRule {
	m := &typev1.ConflictRule{Manager: r.Manager, Action: enumname.Value[typev1.ConflictAction](string(r.Action))}
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
		Propagation: enumname.Value[typev1.DeletePropagation](string(d.Propagation)), Timeout: span(d.Timeout), Detach: d.Detach,
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

// WindowMessages returns the messages of windows.
func WindowMessages(windows []syncpolicy.Window) []*typev1.SyncWindow {
	return list(windows, windowMessage)
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
