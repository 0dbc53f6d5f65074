// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"maps"
	"slices"
	"unique"
)

// Resources are the resources of one node, or the sum of several nodes'.
type Resources struct {
	CPUMillis   int64 // processors, in thousandths
	MemoryBytes int64
	Pods        int64 // the maximum number of pods
}

func (r *Resources) add(other Resources, sign int64) {
	r.CPUMillis += sign * other.CPUMillis
	r.MemoryBytes += sign * other.MemoryBytes
	r.Pods += sign * other.Pods
}

// Node is the part of a node that a Summary counts.
type Node struct {
	Ready    bool
	Cordoned bool
	// Capacity is the size of the node, and Allocatable the part of it for pods.
	Capacity, Allocatable Resources
	// Kubelet is the version of its kubelet.
	Kubelet string
	// Provider is where the node runs, such as aks. Empty: it does not show it.
	Provider string
}

// nodes holds all nodes and their sums.
type nodes struct {
	each     map[string]keptNode
	sum      NodesPart // without Kubelets
	kubelets map[unique.Handle[string]]int
	// providers counts the nodes that show where they run.
	providers map[string]int
}

// keptNode is a Node that shares the text of its version with others.
type keptNode struct {
	ready, cordoned       bool
	capacity, allocatable Resources
	kubelet               unique.Handle[string]
	provider              string
}

func newNodes() nodes {
	return nodes{each: map[string]keptNode{}, kubelets: map[unique.Handle[string]]int{}, providers: map[string]int{}}
}

func (n *nodes) put(key string, node Node) (changed bool) {
	now := keptNode{
		ready: node.Ready, cordoned: node.Cordoned, capacity: node.Capacity, allocatable: node.Allocatable,
		kubelet: unique.Make(truncate(node.Kubelet, maxWord)), provider: node.Provider,
	}
	before, had := n.each[key]
	if had && before == now {
		return false
	}
	if had {
		n.count(before, -1)
	}
	n.each[key] = now
	n.count(now, 1)
	return true
}

func (n *nodes) drop(key string) (changed bool) {
	before, had := n.each[key]
	if had {
		n.count(before, -1)
		delete(n.each, key)
	}
	return had
}

// count adds a node to the sums, or subtracts it if sign is -1.
func (n *nodes) count(node keptNode, sign int) {
	n.sum.Count += sign
	if node.ready {
		n.sum.Ready += sign
	}
	if node.cordoned {
		n.sum.Cordoned += sign
	}
	n.sum.Capacity.add(node.capacity, int64(sign))
	n.sum.Allocatable.add(node.allocatable, int64(sign))
	if n.kubelets[node.kubelet] += sign; n.kubelets[node.kubelet] == 0 {
		delete(n.kubelets, node.kubelet)
	}
	if node.provider != "" {
		if n.providers[node.provider] += sign; n.providers[node.provider] == 0 {
			delete(n.providers, node.provider)
		}
	}
}

func (n *nodes) part() *NodesPart {
	part := n.sum
	part.Kubelets = make(map[string]int, min(len(n.kubelets), MaxKubelets))
	versions := slices.SortedFunc(maps.Keys(n.kubelets), func(a, b unique.Handle[string]) int {
		return cmp.Or(cmp.Compare(n.kubelets[b], n.kubelets[a]), cmp.Compare(a.Value(), b.Value()))
	})
	for _, version := range versions[:min(len(versions), MaxKubelets)] {
		part.Kubelets[version.Value()] = n.kubelets[version]
	}
	for provider, count := range n.providers {
		if part.Provider == "" || count > n.providers[part.Provider] || count == n.providers[part.Provider] && provider < part.Provider {
			part.Provider = provider
		}
	}
	return &part
}
