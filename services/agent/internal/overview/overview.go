// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package overview sums a cluster up: its nodes, its pods by phase, and what it warns of.
//
// A Summary is fed with changes and never recounts: one change costs the same in a cluster of any size. Of pods it keeps numbers
// alone, of a node what has to be subtracted again when it goes, and of warnings the newest few.
package overview

import (
	"slices"
	"sync"
	"time"
)

// Source is where a part of an overview comes from. A part is known once all of its sources are.
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

// Overview is a cluster at one moment. A part that is nil is not known. What it points to never changes: a part that is as it was
// is at the same address.
type Overview struct {
	Nodes    *NodesPart
	Pods     *PodsPart
	Warnings *WarningsPart
}

// NodesPart counts nodes, and what they have.
type NodesPart struct {
	Count, Ready, Cordoned int
	Capacity, Allocatable  Resources
	// Kubelets is how many nodes run each version of the kubelet; of more than MaxKubelets versions, those with the most nodes.
	Kubelets map[string]int
}

// PodsPart counts pods by phase.
type PodsPart struct {
	Pending, Running, Succeeded, Failed, Unknown int
}

// WarningsPart tells the warnings that the cluster still has.
type WarningsPart struct {
	Count int
	// Latest are the newest ones, the newest first, at most MaxLatest.
	Latest []Warning
}

// Bounds of what an overview holds.
const (
	MaxKubelets = 16
	MaxLatest   = 10
	MaxMessage  = 256 // bytes of a warning's message
	maxWord     = 253 // bytes of any other text: the longest name of an object
)

// Summary is the overview as it changes. It is safe for concurrent use.
type Summary struct {
	changed chan struct{} // one token when a part is to be made anew

	mu       sync.Mutex // guards what follows
	known    [sources]bool
	counts   [sources]int
	nodes    nodes
	warnings warnings
	stale    struct{ nodes, pods, warnings bool } // which parts of latest have to be made anew
	latest   Overview
}

// NewSummary returns a Summary that knows nothing.
func NewSummary() *Summary {
	return &Summary{changed: make(chan struct{}, 1), nodes: newNodes(), warnings: warnings{}}
}

// Changed receives when Current may tell something new. It is for one receiver, who hears at least once after each change, and of
// many changes as often as it listens.
func (s *Summary) Changed() <-chan struct{} { return s.changed }

// Know tells that a source has been heard in full, or, with false, that it cannot be heard any more. What was told of it stays.
func (s *Summary) Know(source Source, known bool) {
	s.update(source, func() bool {
		was := s.known[source]
		s.known[source] = known
		return was != known
	})
}

// Count tells how many pods of a phase there are, or how many warnings. It means nothing for nodes.
func (s *Summary) Count(source Source, count int) {
	s.update(source, func() bool {
		was := s.counts[source]
		s.counts[source] = count
		return was != count
	})
}

// PutNode tells a node's newest state. The key is the node's own for all time.
func (s *Summary) PutNode(key string, n Node) {
	s.update(Nodes, func() bool { return s.nodes.put(key, n) })
}

// DropNode tells that a node is gone, if there was one.
func (s *Summary) DropNode(key string) {
	s.update(Nodes, func() bool { return s.nodes.drop(key) })
}

// PutWarning tells a warning's newest state. The key is the warning's own for all time. How many there are is told by Count.
func (s *Summary) PutWarning(key string, w Warning) {
	s.update(Warnings, func() bool { return s.warnings.put(key, w.bounded()) })
}

// DropWarning tells that a warning is gone, if there was one.
func (s *Summary) DropWarning(key string) {
	s.update(Warnings, func() bool { return s.warnings.drop(key) })
}

// update marks a source's part as stale if change says that it is.
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
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Current returns the overview as it is now. Its cost follows the number of kubelet versions and of warnings that are kept, which
// are bounded.
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
		return s.latest.Pods // it changed and changed back
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
		return before // what changed is not among the latest
	}
	return &part
}

// Warning is an event of the cluster of type Warning.
type Warning struct {
	// Reason is why, in a word. Kind, Namespace and Name are of the object that it is about.
	Reason, Kind, Namespace, Name string
	Message                       string
	// Times is how often it happened, and LastSeen when for the last time.
	Times    int
	LastSeen time.Time
}

func (w Warning) equal(other Warning) bool {
	same := w.LastSeen.Equal(other.LastSeen)
	w.LastSeen, other.LastSeen = time.Time{}, time.Time{}
	return same && w == other
}
