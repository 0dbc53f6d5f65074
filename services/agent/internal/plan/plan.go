// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan holds what the hub asks of one cluster, as values.
package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/render"
)

// Plan is everything that the cluster should run.
type Plan struct {
	// Version identifies the plan's content.
	Version string
	// Time is when the hub made the plan, on the hub's clock. Zero: unknown.
	Time time.Time
	// Services are the services. Their names are unique.
	Services []Service
	// Settings are the hub's settings for the agent itself.
	Settings syncpolicy.AgentSettings
}

// Service is one service of a plan. It is an immutable value.
type Service struct {
	// Name is unique in the plan.
	Name string
	// UID distinguishes the service from an earlier one of the same name.
	UID string
	// SpecDigest changes with the spec.
	SpecDigest string
	// ConfigDigest changes with the configuration. Empty: the service has no configuration.
	ConfigDigest string
	// Bundles are the sources. Empty: the hub has not resolved them yet, and the agent changes
	// nothing.
	Bundles []Bundle
	// Spec controls how the manifests are applied.
	Spec Spec
	// SyncRequest changes when a person requests a sync.
	SyncRequest string
	// Refused is why this agent cannot reconcile the service as its spec asks, and so leaves it
	// unchanged. Nil: it can.
	Refused *reason.Problem
	// Traceparent is the W3C trace context of the latest change's cause. Empty: not traced.
	Traceparent string
}

// Bundle is the content of one source.
type Bundle struct {
	// Digest identifies the content.
	Digest digest.Digest
	// Commit is where the content comes from, for people.
	Commit string
	// Repository and Path name the source, for messages.
	Repository, Path string
	// Subpath is the folder of the manifests inside the bundle. Empty: its root.
	Subpath string
}

// Spec controls how a service's manifests are applied.
type Spec struct {
	// Namespace is the namespace of objects that name none. Empty: "default".
	Namespace string
	// CreateNamespace creates that namespace if it does not exist.
	CreateNamespace bool
	// Prune deletes objects that left the manifests.
	Prune bool
	// HealthTimeout is how long objects may take to become healthy. Zero: 10 min.
	HealthTimeout time.Duration
	// Paused leaves the service unchanged.
	Paused bool
	// ForceConflicts takes fields from other field managers.
	ForceConflicts bool
	// Renderer turns files into objects.
	Renderer render.Renderer
	// PruneConfirmation is the digest of the objects that the guard kept and whose deletion a person
	// confirmed. Empty: none.
	PruneConfirmation string
	// Policy controls how objects are kept.
	Policy syncpolicy.Policy
	// DryRun reports what would change, and changes nothing.
	DryRun bool
}

const (
	defaultNamespace     = "default"
	defaultHealthTimeout = 10 * time.Minute
	defaultTestsTimeout  = 5 * time.Minute
)

// NamespaceOrDefault returns the namespace of objects that name none.
func (s Spec) NamespaceOrDefault() string {
	return cmp.Or(s.Namespace, defaultNamespace)
}

// HealthTimeoutOrDefault returns how long objects may take to become healthy.
func (s Spec) HealthTimeoutOrDefault() time.Duration {
	return orDefault(s.HealthTimeout, defaultHealthTimeout)
}

// TestsTimeoutOrDefault returns how long all tests together may take.
func (s Spec) TestsTimeoutOrDefault() time.Duration {
	if s.Policy.Tests == nil {
		return defaultTestsTimeout
	}
	return orDefault(s.Policy.Tests.Timeout, defaultTestsTimeout)
}

// HasTestsDisabled reports whether the policy turns the service's tests off.
func (s Spec) HasTestsDisabled() bool {
	return s.Policy.Tests != nil && s.Policy.Tests.Disabled
}

// ServicesNeeded returns the names of the services that the service depends on, each once.
func (s Spec) ServicesNeeded() []string {
	var names []string
	for _, d := range s.Policy.DependsOn {
		if d.Service != "" && !slices.Contains(names, d.Service) {
			names = append(names, d.Service)
		}
	}
	return names
}

// Inputs returns what a run of s works on.
func (s Service) Inputs() inventory.Applied {
	in := inventory.Applied{SpecDigest: s.SpecDigest, ConfigDigest: s.ConfigDigest, SyncRequest: s.SyncRequest}
	for _, b := range s.Bundles {
		in.Digests = append(in.Digests, b.Digest.String())
		in.Commits = append(in.Commits, b.Commit)
	}
	return in
}

// Origin names the source for people.
func (b Bundle) Origin() string {
	switch {
	case b.Repository == "":
		return "the source"
	case b.Path == "" || b.Path == ".":
		return b.Repository
	default:
		return b.Repository + ":" + b.Path
	}
}

// orDefault returns d, or fallback unless d is positive.
func orDefault(d, fallback time.Duration) time.Duration {
	if d <= 0 {
		return fallback
	}
	return d
}
