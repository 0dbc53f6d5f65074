// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/internal/objectname"
)

// Use is a place where a document names an object whose content is then delivered: a repository, a set
// of configuration, or an entry of a back end. The people who write the document obtain the content,
// so they need the permission to use it.
type Use struct {
	// Key is that of the object. The name of a set has the letter x in the place of facts, which are
	// not allowed in the name of its project.
	Key Key
	// Project is that of the document.
	Project string
	// Field is the field of the document.
	Field string
	// part tells uses of one object apart. Empty: the object as a whole is used.
	part string
}

// Permission returns the permission that the editor needs.
func (u Use) Permission() Permission {
	return Permission{Verb: VerbUse, Resource: ResourceOf(u.Key.Kind)}
}

// IsForeign reports whether the object belongs to another project than the document.
func (u Use) IsForeign() bool {
	return u.Key.Kind.InProject() && objectname.Project(u.Key.Name) != u.Project
}

// UsesOf returns what the next state of a document uses and the current one does not, in the order of
// its fields. current is nil for a new document, which uses nothing yet.
//
// Facts are compared by their names. Their values are the administrators' of the cluster to change.
func UsesOf(current, next Object) []Use {
	type thing struct {
		key  Key
		part string
	}
	known := map[thing]bool{}
	if current != nil {
		for _, use := range usesIn(current) {
			known[thing{use.Key, use.part}] = true
		}
	}
	return slices.DeleteFunc(usesIn(next), func(use Use) bool { return known[thing{use.Key, use.part}] })
}

// usesIn returns everything that a document uses.
func usesIn(object Object) []Use {
	in := ProjectOf(object)
	switch o := object.(type) {
	case *Project:
		return usesOfEach(in, setListField, KindConfigSet, o.Spec.ConfigSets)
	case *Service:
		return slices.Concat(
			usesOfSources(in, "spec.sources", o.Spec.Sources),
			usesOfConfig(in, configPath, o.Spec.Config),
			usesOfEach(in, setListField, KindConfigSet, o.Spec.ConfigSets),
		)
	case *GlobalService:
		uses := usesOfSources(in, templateField+".sources", o.Spec.Template.Spec.Sources)
		for i, config := range o.Configs() {
			uses = append(uses, usesOfConfig(in, o.configFields()[i], config)...)
		}
		return uses
	case *ConfigSet:
		return usesOfConfig(in, configPath, o.Spec.Config)
	case *Repository:
		return usesOfEach(in, "spec.chart_repositories", KindRepository, o.Spec.ChartRepositories.Names())
	case *FleetSource:
		return []Use{{Key: Key{KindRepository, o.Spec.Source.Repository}, Project: in, Field: "spec.source.repository"}}
	case *Notifier:
		if o.Spec.Sink.Commit != nil {
			return usesOfEach(in, "spec.commit_status.repositories", KindRepository, o.Spec.Sink.Commit.Repositories)
		}
	}
	return nil
}

func usesOfEach(project, field string, kind Kind, paths []string) []Use {
	uses := make([]Use, 0, len(paths))
	for i, path := range paths {
		uses = append(uses, Use{Key: Key{kind, path}, Project: project, Field: fielderr.Indexed(field, i)})
	}
	return uses
}

func usesOfSources(project, field string, sources []Source) []Use {
	uses := make([]Use, 0, len(sources))
	for i, source := range sources {
		uses = append(uses, Use{Key: Key{KindRepository, source.Repository}, Project: project, Field: fielderr.Indexed(field, i) + ".repository"})
	}
	return uses
}

func usesOfConfig(project, field string, config *Config) []Use {
	if config == nil {
		return nil
	}
	var uses []Use
	for _, key := range config.referenceKeys() {
		use, ok := useOfReference(project, config.References[key])
		if use.Field = field + ".references[" + key + "]"; ok {
			uses = append(uses, use)
		}
	}
	return uses
}

// useOfReference returns what a reference uses. ok is false if it names an object of a cluster, which
// the agent reads with the rights of the service's account. Validation has refused what is not a
// reference.
func useOfReference(project, text string) (use Use, ok bool) {
	if IsHubReference(text) {
		reference, err := ParseHubReference(replaceFacts(text, "x"), project)
		other, err2 := ParseHubReference(replaceFacts(text, "y"), project)
		use = Use{Key: Key{KindConfigSet, reference.Set}, Project: project}
		if reference.Set != other.Set {
			use.part = text // facts decide which set it is
		}
		return use, err == nil && err2 == nil
	}
	reference, err := ParseReference(withoutFacts(text))
	use = Use{Key: Key{KindConfigBackend, reference.Backend}, Project: project, part: strings.TrimSuffix(text, "?")}
	return use, err == nil && !reference.IsInCluster()
}
