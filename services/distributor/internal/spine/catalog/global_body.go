// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/parameter"
)

// ServiceBody is the desired state of a global service's services in some clusters, before
// parameters are filled in. Its JSON names the fields in messages.
type ServiceBody struct {
	Labels      map[string]string  `json:"labels,omitempty"`
	Annotations map[string]string  `json:"annotations,omitempty"`
	Sources     []Source           `json:"sources"`
	Options     syncpolicy.Options `json:"options"`
	Values      map[string]string  `json:"values,omitempty"`
}

// Body returns what the template is with overrides, given by their indices, over it.
func (g *GlobalService) Body(overrides []int) ServiceBody {
	t := g.Spec.Template
	body := ServiceBody{
		Labels: t.Labels, Annotations: t.Annotations, Sources: slices.Clone(t.Spec.Sources), Options: t.Spec.Wanted(), Values: map[string]string{},
	}
	secrets := g.SecretLayers(overrides)
	if c := t.Spec.Config; c != nil {
		maps.Copy(body.Values, c.Values)
	}
	for _, i := range overrides {
		override := g.Spec.Overrides[i]
		override.Patch.apply(&body)
		if override.Config != nil {
			maps.Copy(body.Values, override.Config.Values)
		}
	}
	// A key is a value or a secret: the last layer that has it decides.
	for key, layer := range secrets {
		if layer >= g.valueLayer(key, overrides) {
			delete(body.Values, key)
		}
	}
	body.Options = body.Options.WithPause(body.Options.Pause().Or(g.Spec.pause()))
	return body
}

// valueLayer returns the last layer that has a value of the key, or -1.
func (g *GlobalService) valueLayer(key string, overrides []int) int {
	last := -1
	configs := g.Configs()
	for _, layer := range layersOf(overrides) {
		if c := configs[layer]; c != nil {
			if _, ok := c.Values[key]; ok {
				last = layer
			}
		}
	}
	return last
}

// SecretLayers returns the keys of the secrets that clusters with these overrides are given, each with
// the index in Configs that it is taken from.
func (g *GlobalService) SecretLayers(overrides []int) map[string]int {
	layers := map[string]int{}
	configs := g.Configs()
	for _, layer := range layersOf(overrides) {
		if configs[layer] == nil {
			continue
		}
		for key := range configs[layer].Values {
			delete(layers, key)
		}
		for key := range configs[layer].Secrets {
			layers[key] = layer
		}
	}
	return layers
}

// layersOf returns the indices in Configs of the template and of overrides.
func layersOf(overrides []int) []int {
	layers := []int{0}
	for _, i := range overrides {
		layers = append(layers, i+1)
	}
	return layers
}

// valuesOver returns values with others over them, as Helm puts a file of values over the one before it. Neither
// is changed.
func valuesOver(values, over map[string]any) map[string]any {
	merged := make(map[string]any, len(values)+len(over))
	maps.Copy(merged, values)
	for key, value := range over {
		below, isMap := merged[key].(map[string]any)
		next, isNextMap := value.(map[string]any)
		if isMap && isNextMap {
			value = valuesOver(below, next)
		}
		merged[key] = value
	}
	return merged
}

func (p ServicePatch) apply(body *ServiceBody) {
	for _, patch := range p.Sources {
		source := &body.Sources[patch.Source]
		if patch.Ref != nil {
			source.Ref = *patch.Ref
		}
		if patch.Path != nil {
			source.Path = *patch.Path
		}
	}
	if len(p.Render) > 0 {
		body.Options.Render = slices.Clone(body.Options.Render)
	}
	for _, patch := range p.Render {
		step, helm := &body.Options.Render[patch.Step], renderstep.HelmOptions{}
		if step.Helm != nil {
			helm = *step.Helm
		}
		helm.Values = valuesOver(helm.Values, patch.Values)
		step.Helm = &helm
	}
	if len(p.Labels) > 0 {
		labels := make(map[string]string, len(body.Labels)+len(p.Labels))
		maps.Copy(labels, body.Labels)
		maps.Copy(labels, p.Labels)
		body.Labels = labels
	}
	if p.Namespace != nil {
		body.Options.Namespace = *p.Namespace
	}
	if p.Paused != nil {
		body.Options = body.Options.WithPause(p.pause())
	}
	if p.DryRun != nil {
		body.Options.DryRun = *p.DryRun
	}
	if p.Policy != nil {
		body.Options.Policy = *p.Policy
	}
}

// parametrised are the fields of a ServiceBody whose texts may hold parameters.
var parametrised = regexp.MustCompile(`^(labels\.|annotations\.|values\.|sources\[\d+\]\.(path|root|ref\.value)$|` +
	`options\.(namespace$|render\[|policy\.serviceAccount$))`)

// Tree compiles the parameters of the body with the parser of its global service.
func (b ServiceBody) Tree(parser *parameter.Parser) (*parameter.Tree[ServiceBody], error) {
	return parameter.NewTree(parser, b, parametrised.MatchString)
}

// Service returns the body as the service of that path.
func (b ServiceBody) Service(path string) *Service {
	_, cluster := objectname.SplitService(path)
	options := b.Options
	s := &Service{
		Metadata: Metadata{Name: path, Labels: b.Labels, Annotations: b.Annotations},
		Spec:     ServiceSpec{Cluster: cluster, Sources: b.Sources, Options: &options},
	}
	if len(b.Values) > 0 {
		s.Spec.Config = &Config{Values: b.Values}
	}
	return s
}

// InBody returns an error about a service of a global service with the field of the template, or of an
// override, in place of the service's.
func InBody(field string, err error) error {
	e, ok := err.(*fielderr.Error) //nolint:errorlint // both callers have it bare
	if !ok {
		return err
	}
	path := strings.TrimPrefix(strings.TrimPrefix(e.Path, "spec."), "options.")
	switch {
	case strings.HasPrefix(path, "values."):
		path = "config.values[" + strings.TrimPrefix(path, "values.") + "]"
	case strings.HasPrefix(path, "metadata.labels"), strings.HasPrefix(path, "metadata.annotations"):
		path = strings.TrimPrefix(path, "metadata.")
	}
	return e.At(field + "." + path)
}
