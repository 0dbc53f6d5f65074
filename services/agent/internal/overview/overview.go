// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package overview sums a cluster up: its nodes, its pods by phase, and its warnings.
//
// A Summary receives changes and never recounts, so one change costs the same in a cluster of any
// size. It keeps only the number of pods, for each node the values to subtract when the node goes,
// and the newest few warnings.
package overview

import (
	"slices"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/kit/wake"
)

// Source is the origin of a part of an overview. A part is known once all of its sources are.
type Source uint8

// The sources.
const (
	Nodes Source = iota
	PodsPending
	PodsRunning
	PodsSucceeded
	PodsFailed
	PodsUnknown
	Warnings

	sources = iota
)

// Overview is the state of a cluster at one moment. A nil part is unknown. Parts are immutable, and
// an unchanged part keeps its address.
type Overview struct {
	Nodes    *NodesPart
	Pods     *PodsPart
	Warnings *WarningsPart
}

// NodesPart counts nodes, and sums up their resources.
type NodesPart struct {
	Count, Ready, Cordoned int
	Capacity, Allocatable  Resources
	// Kubelets is the number of nodes for each version of the kubelet. Of more than MaxKubelets
	// versions it has those with the most nodes.
	Kubelets map[string]int
	// Provider is where most nodes run, among the nodes that show it.
	Provider string
}

// PodsPart counts pods by phase.
type PodsPart struct {
	Pending, Running, Succeeded, Failed, Unknown int
}

// WarningsPart describes the warnings that the cluster has now.
type WarningsPart struct {
	Count int
	// Latest are the newest warnings, newest first, at most MaxLatest.
	Latest []Warning
}

// Bounds of what an overview holds.
const (
	MaxKubelets = 16
	MaxLatest   = 10
	MaxMessage  = 256 // bytes of a warning's message
	maxWord     = 253 // bytes of any other text: the longest name of an object
)

// Summary is the overview of a changing cluster. It is safe for concurrent use.
type Summary struct {
	changed wake.Signal // set when a part has to be made again

	mu       sync.Mutex // guards what follows
	known    [sources]bool
	counts   [sources]int
	nodes    nodes
	warnings warnings
	stale    struct{ nodes, pods, warnings bool } // parts of latest that Current has to compute again
	latest   Overview
}

// NewSummary returns a Summary in which every part is unknown.
func NewSummary() *Summary {
	return &Summary{changed: wake.NewSignal(), nodes: newNodes(), warnings: warnings{}}
}

// Changed returns a channel for one receiver. It receives at least once after each change of
// Current, and only one token for all changes between two receives.
func (s *Summary) Changed() <-chan struct{} { return s.changed }

// SetKnown records whether a source is known, which it is after its full state was reported. The
// state of a source that became unknown is kept.
func (s *Summary) SetKnown(source Source, known bool) {
	s.update(source, func() bool {
		was := s.known[source]
		s.known[source] = known
		return was != known
	})
}

// Count sets the number of pods of a phase, or of warnings. It has no effect for nodes.
func (s *Summary) Count(source Source, count int) {
	s.update(source, func() bool {
		was := s.counts[source]
		s.counts[source] = count
		return was != count
	})
}

// PutNode sets a node's newest state. The key identifies the node permanently.
func (s *Summary) PutNode(key string, n Node) {
	s.update(Nodes, func() bool { return s.nodes.put(key, n) })
}

// DropNode removes a node. A missing node is not an error.
func (s *Summary) DropNode(key string) {
	s.update(Nodes, func() bool { return s.nodes.drop(key) })
}

// PutWarning sets a warning's newest state. The key identifies the warning permanently. Count sets
// the number of warnings.
func (s *Summary) PutWarning(key string, w Warning) {
	s.update(Warnings, func() bool { return s.warnings.put(key, w.bounded()) })
}

// DropWarning removes a warning. A missing warning is not an error.
func (s *Summary) DropWarning(key string) {
	s.update(Warnings, func() bool { return s.warnings.drop(key) })
}

// update runs change, and marks a source's part as stale if change reports that it is.
func (s *Summary) update(source Source, change func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !change() {
		return
	}
	switch source {
	case Nodes:
		s.stale.nodes = true
	case Warnings:
		s.stale.warnings = true
	default:
		s.stale.pods = true
	}
	s.changed.Set()
}

// Current returns the overview as it is now. Its cost follows the number of kubelet versions and of
// kept warnings, which are bounded.
func (s *Summary) Current() Overview {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stale.nodes {
		s.latest.Nodes = s.makeNodes()
	}
	if s.stale.pods {
		s.latest.Pods = s.makePods()
	}
	if s.stale.warnings {
		s.latest.Warnings = s.makeWarnings()
	}
	s.stale.nodes, s.stale.pods, s.stale.warnings = false, false, false
	return s.latest
}

func (s *Summary) makeNodes() *NodesPart {
	if !s.known[Nodes] {
		return nil
	}
	return s.nodes.part()
}

func (s *Summary) makePods() *PodsPart {
	for source := PodsPending; source <= PodsUnknown; source++ {
		if !s.known[source] {
			return nil
		}
	}
	part := PodsPart{
		Pending: s.counts[PodsPending], Running: s.counts[PodsRunning], Succeeded: s.counts[PodsSucceeded],
		Failed: s.counts[PodsFailed], Unknown: s.counts[PodsUnknown],
	}
	if s.latest.Pods != nil && *s.latest.Pods == part {
		return s.latest.Pods // the numbers changed and changed back
	}
	return &part
}

func (s *Summary) makeWarnings() *WarningsPart {
	if !s.known[Warnings] {
		return nil
	}
	part := WarningsPart{Count: s.counts[Warnings], Latest: s.warnings.latest()}
	before := s.latest.Warnings
	if before != nil && before.Count == part.Count && slices.EqualFunc(before.Latest, part.Latest, Warning.equal) {
		return before // the change is not among the latest
	}
	return &part
}

// Warning is an event of type Warning in the cluster.
type Warning struct {
	// Reason is the cause in a word. Kind, Namespace and Name identify the object that the event is
	// about.
	Reason, Kind, Namespace, Name string
	Message                       string
	// Times is how often the event occurred, and LastSeen when it last did.
	Times    int
	LastSeen time.Time
}

func (w Warning) equal(other Warning) bool {
	same := w.LastSeen.Equal(other.LastSeen)
	w.LastSeen, other.LastSeen = time.Time{}, time.Time{}
	return same && w == other
}
