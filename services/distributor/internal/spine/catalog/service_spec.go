// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// MaxSources bounds the sources of one service.
const MaxSources = 16

// ServiceSpec is the desired state of a service.
type ServiceSpec struct {
	// Cluster is the path of the cluster, as in the service's name.
	Cluster string
	Sources []Source
	// Options are how the manifests are applied, as the owner wrote them. Nil: every default. They
	// are never changed once they are set, so services share equal ones.
	Options *syncpolicy.Options
	// Config is nil where none is given: none for a new service, the stored one in an update. The
	// store keeps it apart.
	Config *Config
	// ConfigSets are paths of sets, lowest first. Nil or not empty, and not changed once they are set.
	ConfigSets []string
}

// Wanted returns the options, which are zero where none are given.
func (s ServiceSpec) Wanted() syncpolicy.Options {
	if s.Options == nil {
		return syncpolicy.Options{}
	}
	return *s.Options
}

// Requires returns the capability words of the agents that can carry the spec out, sorted; none if
// every agent can.
//
// A chart that nothing but its own files makes a chart is no business of the hub, which does not
// look into content. A chart of a Helm repository is one by its spec, and an agent that does not
// know Helm would read its templates as manifests.
func (s ServiceSpec) Requires() []string {
	words := s.renderWords()
	if len(s.Config.ClusterReferences()) > 0 {
		words = append(words, renderstep.ClusterReferencesWord)
	}
	if s.Config != nil && s.Config.Restart {
		words = append(words, renderstep.RestartWord)
	}
	slices.Sort(words)
	return words
}

// renderWords returns the words that the sources and their rendering need.
func (s ServiceSpec) renderWords() []string {
	hasMount := slices.ContainsFunc(s.Sources, func(s Source) bool { return s.Mount != "" })
	hasChart := slices.ContainsFunc(s.Sources, func(s Source) bool { return s.Chart != "" })
	hasSteps := s.Options != nil && len(s.Options.Render) > 0
	if !hasMount && !hasChart && !hasSteps {
		return nil // as nearly all
	}
	options := s.Wanted()
	renderers := renderstep.Renderers(options.Render)
	isDetected := !hasSteps && options.Renderer == syncpolicy.RenderAuto || slices.Contains(renderers, renderstep.Auto)
	if hasChart && isDetected {
		renderers = append(renderers, renderstep.Helm)
	}
	if len(renderers) == 0 && !hasMount {
		return nil
	}
	return renderstep.Words(renderers...)
}

// sameConfig reports whether two specs have the same configuration and the same sets.
func sameConfig(a, b ServiceSpec) bool {
	return a.Config.equal(b.Config) && slices.Equal(a.ConfigSets, b.ConfigSets)
}

func validateSources(sources []Source) error {
	if len(sources) == 0 {
		return fielderr.New("spec.sources", "is required: name at least one source")
	}
	return fielderr.Each("spec.sources", "sources", sources, MaxSources, func(field string, s Source) error { return s.Validate(field) })
}
