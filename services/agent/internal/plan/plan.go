// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan holds what the hub asks of one cluster, as values.
package plan

import (
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/inventory"
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
	// Facts are the hub's facts about the cluster.
	Facts Facts
	// RemovalsHeldSince is when the hub was restored from a backup, if the cluster was not released
	// since: nothing is removed that this plan lacks. Zero: removals are not held.
	RemovalsHeldSince time.Time
}

// Facts are the hub's facts about the cluster, for renderers. The maps must not be changed.
type Facts struct {
	// Name is the cluster's.
	Name string
	// Labels and Annotations come from the cluster's document in the hub.
	Labels, Annotations map[string]string
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
	// Trigger is what brought the latest change. It is embedded because inventories hold its fields beside the others.
	Trigger
}

// Trigger is what brought a change, as the hub tells it. It is comparable.
type Trigger struct {
	// Traceparent is a W3C trace context. Empty: not traced.
	Traceparent string
	// FetchBegan is when the hub began the fetch that brought the change, on its clock. Zero: none did.
	FetchBegan time.Time `json:",omitzero"`
	// Fetch is how long that took.
	Fetch time.Duration `json:",omitempty"`
}

// Bundle is the content of one source.
type Bundle struct {
	// Digest identifies the content.
	Digest digest.Digest
	// Commit is where the content comes from, and Version the tag that the source's ref selected,
	// for people. Version is empty if it is not a tag, and from hubs that do not report it.
	Commit  string
	Version string `json:",omitempty"`
	// Repository and Path name the source, for messages.
	Repository, Path string
	// Subpath is the folder of the manifests inside the bundle. Empty: its root.
	Subpath string
	// Mount is the folder of the service's tree where the content lies: a clean path. Empty: the
	// tree's root.
	Mount string `json:",omitempty"`
}

// Spec controls how a service's manifests are applied. The hub has filled in every default.
type Spec = syncpolicy.Options

// Inputs returns what a run of s works on.
func (s Service) Inputs() inventory.Applied {
	in := inventory.Applied{SpecDigest: s.SpecDigest, ConfigDigest: s.ConfigDigest, SyncRequest: s.SyncRequest}
	for _, b := range s.Bundles {
		in.Digests = append(in.Digests, b.Digest.String())
		in.Commits = append(in.Commits, b.Commit)
		in.Versions = append(in.Versions, b.Version)
	}
	if !slices.ContainsFunc(in.Versions, func(version string) bool { return version != "" }) {
		in.Versions = nil
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
