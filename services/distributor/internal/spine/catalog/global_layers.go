// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/objectname"
)

// ConfigLayer is the configuration of the template of a global service, or of one of its overrides.
type ConfigLayer struct {
	// Override is the name of the override; empty for the template.
	Override string
	// Sets are paths of sets, lowest first. Config comes after them.
	Sets []string
	// Config may be nil.
	Config *Config
	// Digests are keyed digests of the secrets in Config, by key.
	Digests map[string]string
}

// ConfigLayers returns the layers of clusters with these overrides, the lowest first. values are
// the values of the Body with its parameters filled in; a value that does not count stays as it is
// in the document.
func (g *GlobalService) ConfigLayers(overrides []int, values map[string]string) []ConfigLayer {
	all := g.configLayers()
	var layers []ConfigLayer
	for _, i := range layersOf(overrides) {
		layer := all[i]
		if layer.Config != nil && len(layer.Config.Values) > 0 {
			config := *layer.Config
			config.Values = maps.Clone(config.Values)
			for key := range config.Values {
				if filled, ok := values[key]; ok && g.valueLayer(key, overrides) == i {
					config.Values[key] = filled
				}
			}
			layer.Config = &config
		}
		layers = append(layers, layer)
	}
	return layers
}

// configLayers returns the layers of the template and of all overrides, as they are in the document.
func (g *GlobalService) configLayers() []ConfigLayer {
	layers := []ConfigLayer{{Sets: g.Spec.Template.Spec.ConfigSets, Config: g.Spec.Template.Spec.Config}}
	for _, override := range g.Spec.Overrides {
		layers = append(layers, ConfigLayer{Override: override.Name, Sets: override.ConfigSets, Config: override.Config})
	}
	for i := range layers {
		if i < len(g.SecretDigests) {
			layers[i].Digests = g.SecretDigests[i]
		}
	}
	return layers
}

// HasConfig reports whether the template or an override has a configuration.
func (g *GlobalService) HasConfig() bool {
	return slices.ContainsFunc(g.configLayers(), func(l ConfigLayer) bool { return len(l.Sets) > 0 || l.Config != nil })
}

// NamesSet reports whether the template or an override lists a set or refers to it. A fact in a reference
// stands for every name.
func (g *GlobalService) NamesSet(set string) bool {
	own := objectname.Project(g.Name)
	return slices.ContainsFunc(g.configLayers(), func(l ConfigLayer) bool {
		return slices.Contains(l.Sets, set) || l.Config.NamesSet(own, set)
	})
}

// NamesSet reports whether a reference of the configuration, in a document of a project, may lead to a set. A
// fact in a reference stands for every name.
func (c *Config) NamesSet(project, set string) bool {
	if c == nil {
		return false
	}
	for _, text := range c.References {
		if mayNameSet(text, project, set) {
			return true
		}
	}
	return false
}

// NamesSets reports whether a reference of the configuration leads to a set.
func (c *Config) NamesSets() bool {
	if c == nil {
		return false
	}
	for _, text := range c.References {
		if IsHubReference(text) {
			return true
		}
	}
	return false
}

// mayNameSet reports whether a reference in a document of a project may lead to a set.
func mayNameSet(text, project, set string) bool {
	if !IsHubReference(text) {
		return false
	}
	pattern, _, _ := strings.Cut(strings.TrimPrefix(replaceFacts(text, "*"), hubPrefix), "?")
	i := strings.LastIndexByte(pattern, '/')
	if i < 0 {
		return false
	}
	if pattern = pattern[:i]; !strings.Contains(pattern, "/") {
		pattern = project + "/" + pattern
	}
	owner, name := objectname.Split(set)
	matches, err := path.Match(pattern, owner+"/"+name)
	return err == nil && matches
}
