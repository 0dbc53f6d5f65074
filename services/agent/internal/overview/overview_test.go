// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package overview_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/agent/internal/overview"
)

// wellKnown returns a Summary whose sources are all known.
func wellKnown() *overview.Summary {
	s := overview.NewSummary()
	for source := overview.Nodes; source <= overview.Warnings; source++ {
		s.SetKnown(source, true)
	}
	return s
}

func at(second int) time.Time { return time.Unix(int64(second), 0) }

// TestUnknown checks that a part is known only while all of its sources are.
func TestUnknown(t *testing.T) {
	t.Parallel()
	s := overview.NewSummary()
	s.PutNode("a", overview.Node{Ready: true})
	s.Count(overview.PodsRunning, 3)
	s.Count(overview.Warnings, 1)
	if diff := cmp.Diff(overview.Overview{}, s.Current()); diff != "" {
		t.Errorf("before anything is known (-want +got):\n%s", diff)
	}
	for source := overview.PodsPending; source <= overview.PodsUnknown; source++ {
		if s.Current().Pods != nil {
			t.Errorf("pods are known without source %d", source)
		}
		s.SetKnown(source, true)
	}
	if diff := cmp.Diff(&overview.PodsPart{Running: 3}, s.Current().Pods); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	s.SetKnown(overview.Nodes, true)
	s.SetKnown(overview.PodsFailed, false)
	if got := s.Current(); got.Pods != nil || got.Warnings != nil || got.Nodes.Count != 1 {
		t.Errorf("got %+v, want nodes alone", got)
	}
	s.Count(overview.PodsFailed, 1)
	s.SetKnown(overview.PodsFailed, true)
	if diff := cmp.Diff(&overview.PodsPart{Running: 3, Failed: 1}, s.Current().Pods); diff != "" {
		t.Errorf("pods that are known again (-want +got):\n%s", diff)
	}
}

// TestUnchanged sends updates that change nothing, and checks that unrelated parts keep their
// addresses.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	s := wellKnown()
	node, warning := overview.Node{Ready: true, Kubelet: "v1.36.3"}, overview.Warning{Reason: "BackOff", LastSeen: at(1)}
	s.PutNode("a", node)
	s.PutWarning("w", warning)
	s.Count(overview.PodsPending, 1)
	<-s.Changed()
	before := s.Current()
	s.PutNode("a", node) // a heartbeat
	s.DropNode("b")
	s.PutWarning("w", warning)
	s.DropWarning("v")
	s.Count(overview.PodsPending, 1)
	s.SetKnown(overview.Nodes, true)
	select {
	case <-s.Changed():
		t.Error("notified of a change, want no notification")
	default:
	}
	if after := s.Current(); after != before {
		t.Errorf("got %+v, want the same parts %+v", after, before)
	}
	s.Count(overview.PodsPending, 2)
	<-s.Changed()
	after := s.Current()
	if after.Nodes != before.Nodes || after.Warnings != before.Warnings || after.Pods.Pending != 2 || before.Pods.Pending != 1 {
		t.Errorf("got %+v after %+v, want only the pods to differ", after, before)
	}
	s.Count(overview.PodsPending, 3)
	s.Count(overview.PodsPending, 2)
	if got := s.Current(); got.Pods != after.Pods {
		t.Error("a change that was reverted changed the part")
	}
}

// TestBounds checks the bounds that the contract names.
func TestBounds(t *testing.T) {
	t.Parallel()
	s := wellKnown()
	for version := range 20 {
		for node := range version + 1 {
			s.PutNode(fmt.Sprint(version, "/", node), overview.Node{Kubelet: fmt.Sprintf("v%02d", version)})
		}
	}
	got := s.Current()
	if got.Nodes.Count != 210 || len(got.Nodes.Kubelets) != overview.MaxKubelets || got.Nodes.Kubelets["v19"] != 20 || got.Nodes.Kubelets["v03"] != 0 {
		t.Errorf("got %+v, want the 16 versions with the most nodes", got.Nodes)
	}

	long := overview.Warning{
		Reason: strings.Repeat("r", 1000), Kind: "Pod", Name: strings.Repeat("n", 253), Message: strings.Repeat("ä", 200), LastSeen: at(1),
	}
	s.PutWarning("long", long)
	told := s.Current().Warnings.Latest[0]
	if len(told.Message) != overview.MaxMessage || !utf8.ValidString(told.Message) || len(told.Reason) != 253 || told.Name != long.Name {
		t.Errorf("got %+v, want it cut", told)
	}
	s.PutWarning("long", overview.Warning{Message: "x" + long.Message})
	if told = s.Current().Warnings.Latest[0]; len(told.Message) != overview.MaxMessage-1 || !utf8.ValidString(told.Message) {
		t.Errorf("got %d bytes, want 255, as the last character has two", len(told.Message))
	}
}

// TestLatestWarnings sends warnings in any order, and then removes the latest of them.
func TestLatestWarnings(t *testing.T) {
	t.Parallel()
	s := wellKnown()
	const all = 1000
	for i := range all {
		second := i * 389 % all // another order, with each number once
		s.PutWarning(fmt.Sprint(second), overview.Warning{Name: fmt.Sprint(second), LastSeen: at(second)})
		s.Count(overview.Warnings, i+1)
	}
	latest := func() (names []string) {
		for _, w := range s.Current().Warnings.Latest {
			names = append(names, w.Name)
		}
		return names
	}
	if diff := cmp.Diff([]string{"999", "998", "997", "996", "995", "994", "993", "992", "991", "990"}, latest()); diff != "" {
		t.Errorf("latest (-want +got):\n%s", diff)
	}
	for second := range 10 {
		s.DropWarning(fmt.Sprint(all - 1 - second))
	}
	s.PutWarning("3", overview.Warning{Name: "3", LastSeen: at(all), Times: 2}) // an old one happens again
	if diff := cmp.Diff([]string{"3", "989", "988", "987", "986", "985", "984", "983", "982", "981"}, latest()); diff != "" {
		t.Errorf("latest after the first ten went (-want +got):\n%s", diff)
	}
	if got := s.Current().Warnings.Count; got != all {
		t.Errorf("count: got %d, want the number that was set", got)
	}
}
