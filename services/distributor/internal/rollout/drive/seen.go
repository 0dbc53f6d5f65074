// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Seen is a replica's view of a service under a policy.
type Seen struct {
	// Service is with its spec as it counts now: without a pause that has ended.
	Service *catalog.Service
	// Ended is when something of its spec, or of the one that it is held at, last ended by itself. Zero:
	// nothing has. Specs count as of then.
	Ended         time.Time
	ClusterUID    string
	ClusterLabels map[string]string
	// Spec is the staged part of its own spec.
	Spec *catalog.StagedSpec
	// Live is the content of its sources that were ever resolved, and of the sources of the spec that
	// it is held at.
	Live []catalog.HeldSource
	// Held is its content instead. Nil: nothing is held.
	Held *catalog.Admission
	// Config names its own configuration, empty if that cannot be staged: see [catalog.StagedConfig].
	// ConfigWaits is true while a value of it was never read.
	Config      string
	ConfigWaits bool
	// ConfigDigest is the digest in its plan, of the configuration that it is held at.
	ConfigDigest string
	// Limits are the limits of its project, which agents' reports cover.
	Limits *syncpolicy.Limits
	// HasSets is true if its configuration has layers or references that other services may share.
	HasSets bool
	// IsDeriving is true if the services of its global service may be of different states of that.
	IsDeriving bool
	// Report is the agent's. Nil: it has not reported.
	Report *catalog.ServiceReport
	// IsOnline is true if the cluster can be seen and the service is neither paused nor a dry run.
	IsOnline bool
}

// Sight is a replica's view of the fleet.
type Sight struct {
	// Policies are by precedence.
	Policies []*catalog.RolloutPolicy
	// Members are the services that a policy decides about, by its uid.
	Members map[string][]Seen
	// Changes are those since the last look, by the policy's uid. Of a policy without them
	// anything may have changed.
	Changes map[string]Changes
	// Uncovered are services that are held and no policy covers, and deleted ones.
	Uncovered []*catalog.Admission
}

// Changes are the changes in the view of a policy's services.
type Changes struct {
	// Seen are the indexes of the members that are new, or of which something else is seen now.
	Seen []int
	// Gone are the uids of services that the policy covered and does not cover any more.
	Gone []string
}

// heldOf returns what rollouts admitted of a service's sources.
func (s Seen) heldOf() []catalog.HeldSource { return s.Held.Release().Content }

// isNewcomer reports whether no rollout decides about the service yet.
func (s Seen) isNewcomer() bool { return s.Held == nil || s.Held.Content == nil }

// isTakenOver reports whether the service is held at a whole release. One that an earlier version took over
// is held at content alone, or without a configuration, and has its own until it is taken over once more.
func (s Seen) isTakenOver() bool { return !s.isNewcomer() && s.Held.Spec != nil && s.Held.Config != "" }

// isHeld reports whether a person keeps the service from changing, so that its silence shows nothing.
func (s Seen) isHeld() bool {
	own := s.Service.Spec.Wanted()
	return own.Paused || own.DryRun
}

// isMember reports whether a service takes part in rollouts: its agent has reported on it, it is held at a
// release, and no person has pinned it.
func (s Seen) isMember() bool {
	return s.Report != nil && s.isTakenOver() && s.Held.Pin == nil && len(s.Held.Content) == len(s.Held.Spec.Sources)
}

// writtenUID returns the uid of the object that people edit to change the service.
func (s Seen) writtenUID() string {
	if s.Service.Derived != nil {
		return s.Service.Derived.GlobalUID
	}
	return s.Service.UID
}

// digestsOf returns the digests of content as agents report them.
func digestsOf(content []catalog.HeldSource) []string {
	digests := make([]string, len(content))
	for i, held := range content {
		digests[i] = held.Snapshot.Digest.String()
	}
	return digests
}

// find returns what content holds of a source, or nil.
func find(content []catalog.HeldSource, source catalog.Source) *catalog.HeldSource {
	i := slices.IndexFunc(content, func(h catalog.HeldSource) bool { return h.Source == source })
	if i < 0 {
		return nil
	}
	return &content[i]
}
