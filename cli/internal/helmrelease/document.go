// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helmrelease

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/types/known/structpb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/renderstep/renderstepwire"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// chartMount is the folder of the chart in the service's tree.
const chartMount = "chart"

// Origin is the place where a service finds the chart of a release.
type Origin struct {
	// Repository is the name of Leat's repository.
	Repository string
	// Path is the chart's folder in a Git repository. Empty: Repository is a Helm repository, unless
	// IsOCI is set.
	Path string
	// Ref selects what to follow in a Git repository. Nil: its default branch.
	Ref *typev1.GitRef
	// IsOCI reports that Repository is an OCI repository of the chart.
	IsOCI bool
}

// source returns the source of the chart: a version in registries, and a folder in Git.
func (o Origin) source(c Chart) *typev1.Source {
	source := &typev1.Source{Repository: o.Repository, Mount: chartMount}
	switch {
	case o.Path != "":
		source.Path, source.Ref = o.Path, o.Ref
		return source
	case !o.IsOCI:
		source.Chart = c.Name()
	}
	source.Ref = &typev1.GitRef{Selector: &typev1.GitRef_Tag{Tag: c.Version()}}
	return source
}

// Plan is a service that takes over a release.
type Plan struct {
	Name, Cluster string
	Origin        Origin
	// Steps render the chart as Helm has done.
	Steps []renderstep.Step
	// Secrets are the secrets of the service's configuration.
	Secrets map[string]string
}

// NewPlan returns how a service takes over a release. It returns the errors of [Choice.Separate],
// and a *fielderr.Error if a service cannot hold the release's values.
func NewPlan(r Release, name, cluster string, origin Origin, choice Choice) (Plan, error) {
	values, secrets, err := choice.Separate(r.Values)
	if err != nil {
		return Plan{}, err
	}
	options := &renderstep.HelmOptions{ReleaseName: r.Name, Values: values, Installed: true}
	if len(values) == 0 {
		options.Values = nil
	}
	if r.Chart.HasDefinitions() {
		options.CRDs = renderstep.CRDsCreate // as Helm does
	}
	p := Plan{
		Name: name, Cluster: cluster, Origin: origin, Secrets: secrets,
		Steps: []renderstep.Step{{Path: chartMount, Renderer: renderstep.Helm, Helm: options}},
	}
	err = renderstep.Validate("render", p.Steps)
	if field := new(fielderr.Error); errors.As(err, &field) {
		return p, fmt.Errorf("a service cannot hold the values of the release: %w; write them into a file beside the chart, and name it in valuesFiles", field)
	}
	return p, err
}

// Document returns the service, for the release's namespace.
func (p Plan) Document(r Release) (*fleetv1.Document, error) {
	spec := &fleetv1.ServiceSpec{
		Cluster: p.Cluster, Namespace: r.Namespace, Sources: []*typev1.Source{p.Origin.source(r.Chart)},
		Render: renderstepwire.Messages(p.Steps),
	}
	if len(p.Secrets) > 0 {
		spec.Config = &fleetv1.ServiceConfig{Secrets: p.Secrets}
	}
	if _, err := structpb.NewStruct(p.Steps[0].Helm.Values); err != nil {
		return nil, fmt.Errorf("write the release's values: %w", err)
	}
	return &fleetv1.Document{Object: &fleetv1.Document_Service{Service: &fleetv1.Service{
		Metadata: &typev1.Metadata{Name: p.Name}, Spec: spec,
	}}}, nil
}
