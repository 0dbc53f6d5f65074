// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package syncpolicy

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/kit/fielderr"
)

// Bounds of what agents are told.
const (
	minRefresh = time.Minute
	maxRefresh = 7 * 24 * time.Hour
	maxWorkers = 256
)

// IsZero reports whether everything is left to its default.
func (p Policy) IsZero() bool { return reflect.ValueOf(p).IsZero() }

// IsZero reports whether everything is left to its default.
func (s AgentSettings) IsZero() bool { return reflect.ValueOf(s).IsZero() }

// Equal reports whether two settings are the same.
func (s AgentSettings) Equal(other AgentSettings) bool { return reflect.DeepEqual(s, other) }

// Validate checks all fields. The error is a *fielderr.Error.
func (s AgentSettings) Validate() error {
	if s.RefreshInterval != 0 {
		if err := between("refresh_interval", s.RefreshInterval, minRefresh, maxRefresh); err != nil {
			return err
		}
	}
	if s.Workers < 0 || s.Workers > maxWorkers {
		return fielderr.New("workers", "is %d; it must be between 0 and %d", s.Workers, maxWorkers)
	}
	return cmp.Or(
		fielderr.Each("health_rules", "elements", s.HealthRules, maxSettingsRules, validateHealth),
		validateAccount("default_service_account", s.DefaultServiceAccount),
		known("log_level", s.LogLevel, "", "debug", "info", "warn", "error"),
		validateService("metrics", s.Metrics),
	)
}

// Over returns what a cluster is told whose own settings are s, in a fleet with the given ones: its
// own come first, field by field, and health rules are joined. Settings that the fleet locks down,
// a cluster cannot open.
func (s AgentSettings) Over(fleet AgentSettings) AgentSettings {
	return AgentSettings{
		HealthRules:           slices.Concat(s.HealthRules, fleet.HealthRules),
		DefaultServiceAccount: cmp.Or(s.DefaultServiceAccount, fleet.DefaultServiceAccount),
		LockDown:              s.LockDown || fleet.LockDown,
		RefreshInterval:       cmp.Or(s.RefreshInterval, fleet.RefreshInterval),
		Workers:               cmp.Or(s.Workers, fleet.Workers),
		LogLevel:              cmp.Or(s.LogLevel, fleet.LogLevel),
		Metrics:               cmp.Or(s.Metrics, fleet.Metrics),
	}
}
