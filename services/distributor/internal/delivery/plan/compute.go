// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package plan

// Compute makes the plan of a cluster from its own part and its services, given in any order.
func Compute(cluster string, own ClusterPart, services []Input, why Cause) *Plan {
	entries := make([]*Entry, len(services))
	for i, input := range services {
		entries[i] = why.entry(input)
	}
	return why.plan(cluster, own, entries)
}
