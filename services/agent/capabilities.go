// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render/renderers"
)

// capabilities are the words by which the hub knows what this agent can do and was told to do,
// sorted.
//
// They are a contract between versions: a word is never given another meaning, and an agent does
// only what it names, so that a hub or a user interface can leave out requests that would fail. A
// reader ignores unknown words. A word comes with the feature, and goes only with the feature.
func capabilities(cfg Config) []string {
	words := []string{
		renderstep.ClusterReferencesWord, // reads what references lead to in its cluster
		renderstep.RestartWord,           // rolls pods when a configuration changes
		"bundle-delta",                   // downloads what changed of a bundle
		"configuration",                  // values and secrets replace variables in manifests
		"dependencies",                   // services wait for others, and for objects
		"diff",                           // answers AgentService.Diff
		"drift",                          // puts right, or reports, what others change
		"dry-run",                        // reports what it would do
		"events",                         // answers AgentService.WatchEvents
		"field-rules",                    // ignores, yields and adopts fields of others
		"health-rules",                   // judges objects by rules of people
		"hooks",                          // runs hooks, and waves
		"inventory",                      // answers AgentService.GetInventory
		"metrics",                        // answers AgentService.QueryMetrics
		"pause",                          // leaves a service alone
		"plan-delta",                     // follows its plan by changes
		"prune-confirmation",             // asks before it deletes much
		"service-accounts",               // applies a service as one of its namespace's accounts
		"sops",                           // opens manifests that SOPS encrypted with age
		"sync-windows",                   // changes services at certain times alone
		"tests",                          // runs tests of services
		"tunnel",                         // lets people reach the cluster
	}
	if cfg.ClusterView {
		words = append(words, "overview") // tells of nodes, pods and warnings, as far as the cluster allows it
	}
	if len(cfg.ServiceProxyAllow) > 0 {
		words = append(words, "service-proxy") // lets people reach some services of the cluster
	}
	if cfg.LeaderElection {
		words = append(words, "leader-election") // is one of several replicas
	}
	words = append(words, renderstep.Words(renderers.Kinds()...)...) // mounts sources, carries out steps, has these renderers
	slices.Sort(words)
	return words
}
