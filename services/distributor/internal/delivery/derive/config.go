// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package derive

import (
	"maps"
	"slices"
	"strconv"

	"github.com/leatdev/leat/internal/contract/clusterref"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/config/layers"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Sets are the layers of configurations besides the global service. The zero value has none.
type Sets struct {
	// Version is another one after every change of a project or a set.
	Version uint64
	// Project and Set return an object by path, or nil. They are used by one goroutine at a time.
	Project func(name string) *catalog.Project
	Set     func(path string) *catalog.ConfigSet
}

// ofProject returns the sets that a project lists.
func (s Sets) ofProject(name string) []string {
	if s.Project == nil {
		return nil
	}
	if project := s.Project(name); project != nil {
		return project.Spec.ConfigSets
	}
	return nil
}

// findFor returns a set that services of a project may use, or nil.
func (s Sets) findFor(project, path string) *catalog.ConfigSet {
	if s.Set == nil {
		return nil
	}
	set := s.Set(path)
	if set == nil || objectname.Project(path) == project {
		return set
	}
	own, owner := s.Project(project), s.Project(objectname.Project(path))
	if own == nil || owner == nil || !owner.SharesSet(own, set) {
		return nil
	}
	return set
}

// Use has the services that are derived from now on composed of these sets.
func (g *Global) Use(sets Sets) { g.sets = sets }

// Looks reports whether a configuration of a service that was derived until now looked for a set of which
// that is true, whether there was one or not.
func (g *Global) Looks(isChanged func(path string) bool) bool {
	for path := range g.looked {
		if isChanged(path) {
			return true
		}
	}
	return false
}

// configuration is the configuration of services with equal content and equal facts. It is shared.
type configuration struct {
	digest string
	// name is the name of a catalog.StagedConfig; empty if a layer refers to a missing value.
	name    string
	problem *catalog.Problem
	waits   bool
	// backends is nil if no reference leads to a back end.
	backends *catalog.DerivedConfig
}

// none is the configuration of services without one.
var none = &configuration{name: catalog.NoConfig}

// settings are a content's settings of the configuration.
type settings struct {
	overrides []int
	// values have their parameters filled in.
	values map[string]string
	memo   memo
}

// memo remembers configurations by the facts that their references ask for.
type memo struct {
	version uint64
	root    *question
	size    int
}

// question is a fact that has to be known next, or an answer. Which fact comes next follows from the
// values of those before, because configurations are composed in one order.
type question struct {
	answer *configuration
	fact   string
	next   map[string]*question
}

// valueOf returns the value of a fact such that a missing one differs from every other.
func valueOf(facts catalog.ConfigFacts, name string) string {
	value, ok := facts.Lookup(name)
	if !ok {
		return ""
	}
	return "=" + value
}

// find returns the configuration of services with these facts, or nil.
func (m *memo) find(facts catalog.ConfigFacts) *configuration {
	at := m.root
	for at != nil && at.answer == nil {
		at = at.next[valueOf(facts, at.fact)]
	}
	if at == nil {
		return nil
	}
	return at.answer
}

// add remembers a configuration that asked for the named facts.
func (m *memo) add(facts catalog.ConfigFacts, names []string, made *configuration) {
	if m.size++; m.root == nil || m.size > maxShared {
		m.root, m.size = &question{}, 1
	}
	at := m.root
	for _, name := range names {
		if at.next == nil {
			at.fact, at.next = name, map[string]*question{}
		}
		value := valueOf(facts, name)
		if at.next[value] == nil {
			at.next[value] = &question{}
		}
		at = at.next[value]
	}
	at.answer = made
}

// configure returns the configuration of a cluster's service. It is composed once for all clusters in which
// content and facts are equal.
func (g *Global) configure(shared *content, cluster *catalog.Cluster) *configuration {
	if !g.hasConfig && len(g.sets.ofProject(objectname.Project(g.global.Name))) == 0 {
		return none
	}
	s := g.settingsOf(shared)
	if s.memo.version != g.sets.Version {
		s.memo = memo{version: g.sets.Version}
	}
	facts := catalog.FactsOfSeen(g.global.DerivedPath(cluster.Name), cluster)
	if known := s.memo.find(facts); known != nil {
		return known
	}
	out := compose(g.global, g.sets, s, facts, marked)
	for path := range out.Sets {
		g.looked[path] = struct{}{}
	}
	made := g.configurationOf(out)
	s.memo.add(facts, out.Facts, made)
	return made
}

// settingsOf returns the settings of a content. The settings of a global service without a
// configuration are the same for all contents.
func (g *Global) settingsOf(shared *content) *settings {
	if shared.settings != nil {
		return shared.settings
	}
	return &g.plain
}

// configurationOf returns the configuration of composed layers whose secrets are marks: equal for equal
// configurations of one global service, whichever cluster has it. Its digest tells nothing of a secret,
// because the marks are keyed.
func (g *Global) configurationOf(out Composition) *configuration {
	if len(out.Keys) == 0 && !out.Restart && !out.Waits {
		return none
	}
	literals, own := out.Literals(), out.ClusterReferences()
	e := digest.NewSequence("leat.derived.config.v1", g.global.UID)
	e.Number(int64(len(literals.Values)))
	for _, key := range slices.Sorted(maps.Keys(literals.Values)) {
		e.Text(key)
		e.Text(literals.Values[key])
	}
	for _, key := range slices.Sorted(maps.Keys(literals.Secrets)) {
		e.Text(key)
		e.Text(literals.Secrets[key].Reveal())
	}
	// Parts that only newer agents receive come last, and only if there are some, so that the digests
	// of all other configurations stay as they are.
	if len(own) > 0 || out.Restart {
		e.Text("leat.derived.config.cluster.v1")
		e.Text(strconv.FormatBool(out.Restart))
		for _, key := range slices.Sorted(maps.Keys(own)) {
			e.Text(key)
			e.Text(own[key])
		}
	}
	made := &configuration{digest: e.Digest().String(), problem: out.Problem, waits: out.Waits}
	if references := out.BackendReferences(); len(references) > 0 {
		made.backends = &catalog.DerivedConfig{
			Digest: made.digest, Waits: made.waits, Problem: made.problem, Variant: variantWith(g.global, references),
		}
	}
	made.name = nameOf(made)
	return made
}

// nameOf returns the name of a configuration as people wrote it: the variant stands for its references to back
// ends.
func nameOf(made *configuration) string {
	if made.waits {
		return ""
	}
	variant := ""
	if made.backends != nil {
		variant = made.backends.Variant.ID
	}
	return digest.NewSequence("leat.derived.config.name.v1", made.digest, variant).Digest().String()
}

// variantWith returns the variant of services of a global service with these references to back ends.
func variantWith(g *catalog.GlobalService, references map[string]string) catalog.ConfigVariant {
	e := digest.NewSequence("leat.derived.variant.v1", g.UID)
	for _, key := range slices.Sorted(maps.Keys(references)) {
		e.Text(key)
		e.Text(references[key])
	}
	return catalog.ConfigVariant{ID: e.Digest().String(), GlobalUID: g.UID, Project: objectname.Project(g.Name), References: references}
}

// WithValues returns the digest of a configuration of which the part without values of back ends and these
// values have the given digests.
func WithValues(digestOf, values string) string {
	return digest.NewSequence("leat.derived.config.values.v1", digestOf, values).Digest().String()
}

// Composition is the whole configuration of a derived service.
type Composition struct {
	layers.Composed

	Restart bool
}

// ClusterReferences returns the references that the agent of the service's cluster follows.
func (c Composition) ClusterReferences() map[string]string { return clusterref.Of(c.References()) }

// BackendReferences returns the references to back ends, by key, without facts.
func (c Composition) BackendReferences() map[string]string {
	references := c.References()
	maps.DeleteFunc(references, func(_, text string) bool { return clusterref.Is(text) })
	return references
}

// secrecy takes the place of secrets.
type secrecy int

const (
	marked secrecy = iota // what the store made of them, which the hub may keep in memory
	opened                // the secrets themselves
)

// compose composes the configuration of services with these settings and facts: the sets of the
// project, the sets of the template and its document, and the sets of each override and its
// document.
func compose(g *catalog.GlobalService, sets Sets, of *settings, facts catalog.ConfigFacts, s secrecy) Composition {
	project := objectname.Project(g.Name)
	var in []layers.Layer
	uses := map[string]bool{}
	add := func(kind layers.Kind, override string, paths []string) {
		for _, path := range paths {
			// A set that is listed is used, also if its project has taken the share back since.
			var set *catalog.ConfigSet
			if sets.Set != nil {
				set = s.of(sets.Set(path))
			}
			if uses[path] = set != nil; set != nil {
				layer := layers.SetLayer(kind, set)
				layer.Override = override
				in = append(in, layer)
			}
		}
	}
	add(layers.OfProject, "", sets.ofProject(project))
	out := Composition{}
	for _, layer := range g.ConfigLayers(of.overrides, of.values) {
		add(layers.OfSet, layer.Override, layer.Sets)
		if layer.Config == nil {
			continue
		}
		kind := layers.OfGlobal
		if layer.Override != "" {
			kind = layers.OfOverride
		}
		config := layer.Config
		if s == marked {
			config = withMarks(config, func(key string) secret.Text { return secret.Text(layer.Digests[key]) })
		}
		in = append(in, layers.Layer{Origin: layers.Origin{Kind: kind, Override: layer.Override}, Project: project, Config: config})
		out.Restart = out.Restart || layer.Config.Restart
	}
	input := layers.Input{Layers: in, Facts: facts, Find: func(path string) *catalog.ConfigSet { return s.of(sets.findFor(project, path)) }}
	if s == marked {
		input.Bytes = markedBytes
	} else {
		// A too large one was found by its marks, and never comes here.
		input.Bytes = func(layers.Item) int { return 0 }
	}
	out.Composed = layers.Compose(input)
	for path, isOpen := range uses {
		out.Sets[path] = isOpen || out.Sets[path]
	}
	return out
}

// of returns a set with its secrets, or with their marks.
func (s secrecy) of(set *catalog.ConfigSet) *catalog.ConfigSet {
	if set == nil || set.Spec.Config == nil || s == opened || len(set.Spec.Config.Secrets) == 0 {
		return set
	}
	next := *set
	next.Spec.Config = withMarks(set.Spec.Config, func(key string) secret.Text {
		mark := set.SecretMarks[key]
		return secret.Text(strconv.Itoa(mark.Bytes) + " " + mark.Digest)
	})
	return &next
}

// withMarks returns a configuration with a text in the place of each secret.
func withMarks(config *catalog.Config, markOf func(key string) secret.Text) *catalog.Config {
	next := *config
	next.Secrets = make(map[string]secret.Text, len(config.Secrets))
	for key := range config.Secrets {
		next.Secrets[key] = markOf(key)
	}
	return &next
}

// markedBytes returns the length of what an item stands for: the mark of a set's secret begins with it.
func markedBytes(item layers.Item) int {
	if item.Form != layers.Secret {
		return len(item.Text)
	}
	for i, c := range item.Text.Reveal() {
		if c == ' ' {
			if n, err := strconv.Atoi(item.Text.Reveal()[:i]); err == nil {
				return n
			}
		}
	}
	return len(item.Text)
}

// shown returns what anybody may see of the documents' own configuration, or nil.
func shown(g *catalog.GlobalService, overrides []int, values map[string]string) *catalog.Config {
	var documents []layers.Layer
	config := &catalog.Config{Values: map[string]string{}}
	for _, layer := range g.ConfigLayers(overrides, values) {
		documents = append(documents, layers.Layer{Config: layer.Config})
		config.Restart = config.Restart || layer.Config != nil && layer.Config.Restart
	}
	for key, won := range layers.Merge(documents) {
		switch won.Form {
		case layers.Value:
			config.Values[key] = won.Text.Reveal()
		case layers.Secret:
			if config.Secrets == nil {
				config.Secrets = map[string]secret.Text{}
			}
			config.Secrets[key] = ""
		case layers.Reference:
			if config.References == nil {
				config.References = map[string]string{}
			}
			config.References[key] = won.Text.Reveal()
		}
	}
	if config.Empty() {
		return nil
	}
	if maps.Equal(config.Values, values) {
		config.Values = values // one map for both, because each cluster may have a content of its own
	}
	return config
}

// setsOf returns the sets that the template and overrides list, each once.
func setsOf(g *catalog.GlobalService, overrides []int) []string {
	var paths []string
	for _, layer := range g.ConfigLayers(overrides, nil) {
		for _, path := range layer.Sets {
			if !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}
