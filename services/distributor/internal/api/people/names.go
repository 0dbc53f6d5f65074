// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"slices"

	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/internal/upstream"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// keyOf returns the key of the object that a request names in field. Requests stand in no project, so
// a bare name is one of the project default. A service may be named without its cluster: see isPrecise.
func keyOf(kind catalog.Kind, field, reference string) (catalog.Key, error) {
	if !kind.InProject() {
		return catalog.Key{Kind: kind, Name: reference}, objectname.ValidateLabel(field, reference)
	}
	if kind == catalog.KindService {
		path, err := objectname.ParseService(field, reference, objectname.Default)
		if err == nil {
			err = objectname.Validate(field, objectname.LocalPath(path))
		}
		return catalog.Key{Kind: kind, Name: path}, err
	}
	path, err := objectname.Parse(field, reference, objectname.Default)
	if err == nil {
		err = objectname.Validate(field, path)
	}
	return catalog.Key{Kind: kind, Name: path}, err
}

// isPrecise reports whether a key names one object. That of a service without its cluster may lead to
// several.
func isPrecise(key catalog.Key) bool {
	_, cluster := objectname.SplitService(key.Name)
	return key.Kind != catalog.KindService || cluster != ""
}

// maxCandidates bounds the services that an ambiguous name lists.
const maxCandidates = 10

// only returns the service of a name without a cluster that the caller may see. ok is false if there is
// none. The error is a *catalog.AmbiguousError.
func (c *caller) only(key catalog.Key) (_ catalog.Key, ok bool, err error) {
	var found []string
	sees := c.visible(catalog.VerbGet)
	for _, service := range fleet.ServicesNamed(c.view, key.Name) {
		if !sees(service) && !c.allows(service) {
			continue
		}
		if found = append(found, service.Name); len(found) > maxCandidates {
			break
		}
	}
	switch {
	case len(found) == 0:
		return key, false, nil
	case len(found) == 1:
		return catalog.Key{Kind: key.Kind, Name: found[0]}, true, nil
	}
	n := min(len(found), maxCandidates)
	return key, true, &catalog.AmbiguousError{Key: key, Services: found[:n], More: n < len(found)}
}

// optionalPath is the path of keyOf for a field that may be empty.
func optionalPath(field, reference string) (string, error) {
	return objectname.Parse(field, reference, objectname.Default)
}

// optionalProject checks a request's filter by project.
func optionalProject(project string) error {
	if project == "" {
		return nil
	}
	return objectname.ValidateLabel("project", project)
}

// metadataMessage names the project only where it is not the default one.
func metadataMessage(m *catalog.Metadata) *typev1.Metadata {
	message := commonMessage(m)
	project, name := objectname.Split(m.Name)
	if message.Name = name; project != objectname.Default {
		message.Project = project
	}
	return message
}

// hubMetadataOf returns the metadata of an object that belongs to the hub and not to a project.
func hubMetadataOf(m *typev1.Metadata) (catalog.Metadata, error) {
	if m.GetProject() != "" {
		return catalog.Metadata{}, fielderr.New("metadata.project", "has no meaning here: the object belongs to the hub; leave it out")
	}
	return commonOf(m), nil
}

// metadataOf returns the metadata of an object of a project, which is named by its path. The parts
// are checked before they are joined: the path of a name with a dot would be in another project.
func metadataOf(m *typev1.Metadata) (catalog.Metadata, error) {
	metadata := commonOf(m)
	if m.GetProject() != "" {
		if err := objectname.ValidateLabel("metadata.project", m.GetProject()); err != nil {
			return metadata, err
		}
	}
	if err := objectname.ValidateLabel("metadata.name", m.GetName()); err != nil {
		return metadata, err
	}
	metadata.Name = objectname.Join(m.GetProject(), m.GetName())
	return metadata, nil
}

// parseNames returns the paths of references that stand in a project.
func parseNames(field string, references []string, project string) ([]string, error) {
	return parseEach(field, references, project, objectname.Parse)
}

// parseEach returns the paths of references, which parse reads.
func parseEach(field string, references []string, project string, parse func(field, reference, project string) (string, error)) ([]string, error) {
	paths := slices.Clone(references)
	for i, reference := range references {
		path, err := parse(fielderr.Indexed(field, i), reference, project)
		if err != nil {
			return nil, err
		}
		paths[i] = path
	}
	return paths, nil
}

// formatNames is the reverse of parseNames.
func formatNames(paths []string, project string) []string {
	references := slices.Clone(paths)
	for i, path := range paths {
		references[i] = objectname.Format(path, project)
	}
	return references
}

// parseReferences turns what a service's spec refers to into paths.
func parseReferences(spec *catalog.ServiceSpec, project string) (err error) {
	if spec.Cluster, err = objectname.Parse("spec.cluster", spec.Cluster, project); err != nil {
		return err
	}
	for i := range spec.Sources {
		source := &spec.Sources[i]
		if source.Repository, err = objectname.Parse(fielderr.Indexed("spec.sources", i)+".repository", source.Repository, project); err != nil {
			return err
		}
	}
	if spec.ConfigSets, err = parseEach("spec.config_sets", spec.ConfigSets, project, objectname.Parse); err != nil {
		return err
	}
	if spec.Options == nil || len(spec.Options.Policy.DependsOn) == 0 {
		return nil
	}
	options := *spec.Options
	options.Policy.DependsOn, err = eachDependency(options.Policy.DependsOn, func(i int, service string) (string, error) {
		return objectname.Parse(fielderr.Indexed("spec.policy.depends_on", i)+".service", service, project)
	})
	spec.Options = &options
	return err
}

// formatOptions returns the options with references that people read in the project.
func formatOptions(options syncpolicy.Options, project string) syncpolicy.Options {
	options.Policy.DependsOn, _ = eachDependency(options.Policy.DependsOn, func(_ int, service string) (string, error) {
		return objectname.Format(service, project), nil
	})
	return options
}

// eachDependency returns a copy of the list with other names of services.
func eachDependency(list []syncpolicy.Dependency, name func(int, string) (string, error)) ([]syncpolicy.Dependency, error) {
	renamed := slices.Clone(list)
	for i := range renamed {
		if renamed[i].Service == "" {
			continue
		}
		service, err := name(i, renamed[i].Service)
		if err != nil {
			return nil, err
		}
		renamed[i].Service = service
	}
	return renamed, nil
}

// parseChartRepositories turns the repositories that a repository's charts may depend on into paths.
func parseChartRepositories(definition *upstream.Definition, project string) error {
	paths, err := parseNames("spec.chart_repositories", definition.ChartRepositories.Names(), project)
	if err == nil {
		definition.ChartRepositories = upstream.NewList(paths)
	}
	return err
}
