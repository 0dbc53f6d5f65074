// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package overview_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/leatdev/leat/services/agent/internal/overview"
)

// model is a cluster that is counted from scratch.
type model struct {
	nodes    map[string]overview.Node
	pods     [overview.PodsUnknown + 1]int
	warnings map[string]overview.Warning
}

// overview counts everything.
func (m *model) overview() overview.Overview {
	nodes := overview.NodesPart{Kubelets: map[string]int{}}
	for _, n := range m.nodes {
		nodes.Count++
		if n.Ready {
			nodes.Ready++
		}
		if n.Cordoned {
			nodes.Cordoned++
		}
		for _, sum := range []struct{ to, from *overview.Resources }{{&nodes.Capacity, &n.Capacity}, {&nodes.Allocatable, &n.Allocatable}} {
			sum.to.CPUMillis += sum.from.CPUMillis
			sum.to.MemoryBytes += sum.from.MemoryBytes
			sum.to.Pods += sum.from.Pods
		}
		nodes.Kubelets[n.Kubelet]++
	}
	latest := slices.SortedFunc(maps.Values(m.warnings), func(a, b overview.Warning) int { return b.LastSeen.Compare(a.LastSeen) })
	return overview.Overview{
		Nodes: &nodes,
		Pods: &overview.PodsPart{
			Pending: m.pods[overview.PodsPending], Running: m.pods[overview.PodsRunning], Succeeded: m.pods[overview.PodsSucceeded],
			Failed: m.pods[overview.PodsFailed], Unknown: m.pods[overview.PodsUnknown],
		},
		Warnings: &overview.WarningsPart{Count: len(m.warnings), Latest: latest[:min(len(latest), overview.MaxLatest)]},
	}
}

// TestProperty shows that a Summary agrees with a recount after any changes.
func TestProperty(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		r, s, second := rand.New(rand.NewPCG(seed, 0)), wellKnown(), 0
		m := model{nodes: map[string]overview.Node{}, warnings: map[string]overview.Warning{}}
		for step := range 300 {
			key := fmt.Sprint(r.IntN(40))
			switch r.IntN(6) {
			case 0, 1:
				m.nodes[key] = randomNode(r)
				s.PutNode(key, m.nodes[key])
			case 2:
				delete(m.nodes, key)
				s.DropNode(key)
			case 3:
				phase := overview.PodsPending + overview.Source(r.IntN(5))
				m.pods[phase] = r.IntN(3)
				s.Count(phase, m.pods[phase])
			case 4:
				second++
				m.warnings[key] = overview.Warning{Reason: key, Times: r.IntN(5), LastSeen: at(second)}
				s.PutWarning(key, m.warnings[key])
			case 5:
				delete(m.warnings, key)
				s.DropWarning(key)
			}
			s.Count(overview.Warnings, len(m.warnings))
			want, got := m.overview(), s.Current()
			if reflect.DeepEqual(want, got) {
				continue // far cheaper than a cmp.Diff without a difference
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("seed %d, step %d (-recount +got):\n%s", seed, step, diff)
			}
		}
	}
}

func randomNode(r *rand.Rand) overview.Node {
	resources := func() overview.Resources {
		return overview.Resources{CPUMillis: r.Int64N(4000), MemoryBytes: r.Int64N(1 << 40), Pods: r.Int64N(110)}
	}
	return overview.Node{
		Ready: r.IntN(2) == 0, Cordoned: r.IntN(2) == 0, Capacity: resources(), Allocatable: resources(), Kubelet: fmt.Sprint("v1.", r.IntN(12)),
	}
}
