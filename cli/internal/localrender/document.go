// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localrender

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy/policywire"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/render"
)

// FoldersError reports repositories of a service without a folder.
type FoldersError struct{ Missing []string }

// Error implements error.
func (e *FoldersError) Error() string {
	var flags []string
	for _, name := range e.Missing {
		flags = append(flags, "--source "+name+"=DIR")
	}
	return fmt.Sprintf("the service's sources name repositories whose folder is not given: %s; add %s",
		strings.Join(e.Missing, ", "), strings.Join(flags, " "))
}

// SecretsError reports secrets that a document leaves to the hub.
type SecretsError struct{ Keys []string }

// Error implements error.
func (e *SecretsError) Error() string {
	return fmt.Sprintf("the values of secrets are known to the hub alone: %s; add --secret %s=VALUE", strings.Join(e.Keys, ", "), e.Keys[0])
}

// FromDocument returns the service that a document describes, with folders in place of its
// repositories, by their names. A document of the service's cluster among the documents adds the
// facts of the cluster. Errors are document.Problems, *FoldersError and *SecretsError.
func FromDocument(wanted *document.Document, all []*document.Document, folders map[string]string, settings Settings) (Service, error) {
	spec := wanted.Object.GetService().GetSpec()
	options, err := policywire.Wanted(spec)
	if err == nil {
		err = options.Validate(wanted.Name)
	}
	if err != nil {
		return Service{}, located(wanted, err)
	}
	if len(spec.GetSources()) == 0 {
		return Service{}, located(wanted, fielderr.New("sources", "is required"))
	}
	if missing := without(spec.GetSources(), folders); len(missing) > 0 {
		return Service{}, &FoldersError{Missing: missing}
	}
	s := Service{
		Renderer: renderstep.Renderer(options.Renderer), Steps: options.Render, Installed: settings.Installed,
		Facts: render.Facts{
			Cluster: clusterOf(spec.GetCluster(), wanted.Object.GetService().GetMetadata().GetProject(), all),
			Service: render.ServiceFacts{Name: wanted.Name, Namespace: options.NamespaceOrDefault()},
		},
	}
	s.Facts.Cluster.KubernetesVersion, s.Facts.Cluster.APIVersions = settings.KubernetesVersion, settings.APIVersions
	if options.Policy.Tests != nil {
		s.Tests = options.Policy.Tests.Path
	}
	for _, source := range spec.GetSources() {
		s.Sources = append(s.Sources, Source{Root: rootOf(source, folders[source.GetRepository()]), Wire: source, Mount: source.GetMount()})
	}
	s.Variables, s.Placeholders, err = configured(spec.GetConfig(), settings)
	return s, err
}

// located returns an error about a field of the spec as a problem at its place in the file.
func located(d *document.Document, err error) error {
	field, ok := errors.AsType[*fielderr.Error](err)
	if !ok {
		return err
	}
	at, name, ok := document.Locate([]*document.Document{d}, "documents[0].spec."+field.Path)
	if !ok {
		return err
	}
	return document.Problems{{Position: at, Field: name, Message: field.Message}}
}

// without returns the repositories of sources that have no folder, sorted, each once.
func without(sources []*typev1.Source, folders map[string]string) []string {
	missing := map[string]bool{}
	for _, source := range sources {
		if _, ok := folders[source.GetRepository()]; !ok {
			missing[source.GetRepository()] = true
		}
	}
	return slices.Sorted(maps.Keys(missing))
}

// rootOf returns the folder of a source's content: of a chart, the folder with the chart's name, if
// the given one holds it.
func rootOf(source *typev1.Source, folder string) string {
	if source.GetChart() == "" {
		return folder
	}
	chart := filepath.Join(folder, filepath.Base(source.GetChart()))
	if _, err := os.Stat(filepath.Join(chart, render.ChartFile)); err == nil {
		return chart
	}
	return folder
}

// clusterOf returns the cluster as the documents describe it, if it is one that a service of the
// project refers to. A reference that the hub would refuse is one to no document.
func clusterOf(reference, project string, all []*document.Document) render.ClusterFacts {
	path, _ := objectname.Parse("cluster", reference, project)
	_, name := objectname.Split(path)
	facts := render.ClusterFacts{Name: name}
	for _, d := range all {
		metadata := document.Metadata(d.Object)
		if d.Kind == "Cluster" && path != "" && objectname.Join(metadata.GetProject(), metadata.GetName()) == path {
			facts.Labels, facts.Annotations = metadata.GetLabels(), metadata.GetAnnotations()
		}
	}
	return facts
}

// configured returns the variables of a configuration, over which the settings go, and the keys of
// the secrets that are placeholders.
func configured(config *fleetv1.ServiceConfig, settings Settings) (*render.Variables, []string, error) {
	values, secrets := map[string]string{}, map[string]string{}
	maps.Copy(values, config.GetValues())
	maps.Copy(secrets, config.GetSecrets())
	for key, value := range settings.Values {
		delete(secrets, key)
		values[key] = value
	}
	for key, value := range settings.Secrets {
		delete(values, key)
		secrets[key] = value
	}
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(secrets)) {
		if _, given := settings.Secrets[key]; secrets[key] == "" && !given {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) > 0 && !settings.HasPlaceholders {
		return nil, nil, &SecretsError{Keys: unknown}
	}
	for _, key := range unknown {
		secrets[key] = Placeholder(key)
	}
	return variables(values, secrets), unknown, nil
}
