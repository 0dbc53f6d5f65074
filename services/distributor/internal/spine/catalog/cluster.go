// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"net"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/check"
)

// Cluster is a Kubernetes cluster with one agent.
type Cluster struct {
	Metadata
	Spec ClusterSpec
	// Agent describes its agent. Edits leave it alone.
	Agent Agent
	// RemovalsHeldSince is when the hub was restored from a backup, until a person releases the
	// cluster: its agent removes nothing meanwhile. Zero: removals are not held. Edits leave it alone.
	RemovalsHeldSince time.Time
}

// ClusterSpec is the desired state of a cluster.
type ClusterSpec struct {
	// Description is a sentence for people.
	Description string
	// Settings are its agent's settings. They come before the fleet's.
	Settings syncpolicy.AgentSettings
	// AgentEndpoint is where the hub dials the agent, host:port. Empty: the agent dials the hub.
	AgentEndpoint string
}

// Agent is the identity and the last word of a cluster's agent.
type Agent struct {
	// PublicKey is the key that the agent enrolled. Nil: none has, or it was revoked.
	PublicKey ed25519.PublicKey
	// KeyGeneration grows with every enrolment and every revocation, so that what was issued before
	// can be told apart.
	KeyGeneration int64
	// LastSeenAt is when the agent was last heard from, to the minute.
	LastSeenAt time.Time
	// ConnectedUntil is the time up to which the agent counts as connected unless it is heard from
	// again.
	ConnectedUntil time.Time
	// Report is the agent's report on itself and its cluster.
	Report ClusterReport
	// PlanVersion is the plan that the agent works on, as it reported.
	PlanVersion string
	// Instance and Sequence belong to the last report that was taken. Empty: there was none.
	Instance string
	Sequence uint64
}

// Enrolled reports whether an agent's key is known.
func (a Agent) Enrolled() bool { return len(a.PublicKey) > 0 }

// Lacks returns the ones among the capability words that the agent did not report.
func (a Agent) Lacks(words []string) []string {
	var lacking []string
	for _, word := range words {
		if !slices.Contains(a.Report.Capabilities, word) {
			lacking = append(lacking, word)
		}
	}
	return lacking
}

// Key implements Object.
func (c *Cluster) Key() Key { return Key{KindCluster, c.Name} }

func (c *Cluster) sameSpec(other Object) bool {
	o, ok := other.(*Cluster)
	return ok && c.Spec.Description == o.Spec.Description && c.Spec.AgentEndpoint == o.Spec.AgentEndpoint && c.Spec.Settings.Equal(o.Spec.Settings)
}

func (c *Cluster) clone() Object { return new(*c) }

func (c *Cluster) normalize() {}

func (c *Cluster) settle(stored Object) error {
	if have, ok := stored.(*Cluster); ok {
		c.Agent = have.Agent
	}
	return nil
}

func (c *Cluster) reachable() error {
	if c.Spec.AgentEndpoint == "" {
		return nil
	}
	host, _, _ := net.SplitHostPort(c.Spec.AgentEndpoint) // Validate has checked it
	if check.IsLocal(host) {
		return fielderr.New("spec.agent_endpoint", "%q is an address of the hub's own machine or link; name one at which it reaches the agent", host)
	}
	return nil
}

func (c *Cluster) checkReferences(context.Context, Reader) error { return nil }
func (c *Cluster) checkSettled(context.Context, Reader) error    { return nil }
func (c *Cluster) room(ProjectQuotas) Room                       { return Room{} }
func (c *Cluster) secrets() map[string]any                       { return nil }

func (c *Cluster) changesRelease(stored Object) bool {
	have, ok := stored.(*Cluster)
	return ok && !sameLabels(&have.Metadata, &c.Metadata) // templates read its facts
}

// Place implements Object.
func (c *Cluster) Place() Place {
	return Place{Project: objectname.Project(c.Name), Self: &c.Metadata}
}

// Validate implements Object.
func (c *Cluster) Validate() error {
	return cmp.Or(
		c.validate(KindCluster),
		check.Description(c.Spec.Description),
		check.Endpoint("spec.agent_endpoint", c.Spec.AgentEndpoint),
		fielderr.Within("spec.agent", c.Spec.Settings.Validate()),
	)
}
