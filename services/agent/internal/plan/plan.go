// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"time"

	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/render"
)

// Plan is everything that the cluster should run.
type Plan struct {
	// Version names the plan's content.
	Version string
	// Time is when the hub made it, on the hub's clock. Zero: unknown.
	Time time.Time
	// Services are the services, each name once.
	Services []Service
	// Settings are what the hub says to the agent itself.
	Settings syncpolicy.AgentSettings
}

// Service is one service of a plan. It is a value; nobody changes its slices.
type Service struct {
	// Name is unique in the plan.
	Name string
	// UID tells a service from an earlier one of the same name.
	UID string
	// SpecDigest changes with the spec.
	SpecDigest string
	// ConfigDigest changes with the configuration. Empty: there is none.
	ConfigDigest string
	// Bundles are the sources. Empty: they are not resolved yet, and the service is left alone.
	Bundles []Bundle
	// Spec says how to apply.
	Spec Spec
	// SyncRequest changes when a person asks for a sync.
	SyncRequest string
	// Refused says why the service cannot be kept as it was asked for, and so is left as it is. Nil: it can.
	Refused *Problem
	// Traceparent is the W3C trace context of what caused the latest change. Empty: not traced.
	Traceparent string
}

// Bundle is the content of one source.
type Bundle struct {
	// Digest names the content.
	Digest digest.Digest
	// Commit is where the content comes from, for people to see.
	Commit string
	// Repository and Path name the source, for messages.
	Repository, Path string
	// Subpath is the folder of the manifests inside the bundle. Empty: its root.
	Subpath string
}

// Spec says how a service's manifests are applied.
type Spec struct {
	// Namespace is for objects that name none. Empty: "default".
	Namespace string
	// CreateNamespace makes that namespace when it is missing.
	CreateNamespace bool
	// Prune deletes objects that left the manifests.
	Prune bool
	// HealthTimeout is how long objects may take to become healthy. Zero: 10 min.
	HealthTimeout time.Duration
	// Paused leaves the service as it is.
	Paused bool
	// ForceConflicts takes fields from other field managers.
	ForceConflicts bool
	// Renderer makes the objects.
	Renderer render.Renderer
	// PruneConfirmation is the digest of the objects that the guard kept and a person agreed to part with. Empty: none.
	PruneConfirmation string
	// Policy says how objects are kept.
	Policy syncpolicy.Policy
	// DryRun reports what would change, and changes nothing.
	DryRun bool
}

const (
	defaultNamespace     = "default"
	defaultHealthTimeout = 10 * time.Minute
)

func (s Spec) namespace() string {
	if s.Namespace == "" {
		return defaultNamespace
	}
	return s.Namespace
}

func (s Spec) healthTimeout() time.Duration {
	if s.HealthTimeout <= 0 {
		return defaultHealthTimeout
	}
	return s.HealthTimeout
}

// inputs are what a run of s works on.
func (s Service) inputs() inventory.Applied {
	in := inventory.Applied{SpecDigest: s.SpecDigest, ConfigDigest: s.ConfigDigest, SyncRequest: s.SyncRequest}
	for _, b := range s.Bundles {
		in.Digests = append(in.Digests, b.Digest.String())
		in.Commits = append(in.Commits, b.Commit)
	}
	return in
}

// inputsOf is a without what its run was like.
func inputsOf(a inventory.Applied) inventory.Applied {
	a.At, a.Took = time.Time{}, 0
	return a
}

// sameInputs tells whether a second run would do what the first did. Commits do not count: one that does not touch the
// folder changes nothing.
func sameInputs(a, b inventory.Applied) bool {
	return a.SpecDigest == b.SpecDigest && a.ConfigDigest == b.ConfigDigest && a.SyncRequest == b.SyncRequest &&
		slices.Equal(a.Digests, b.Digests)
}
