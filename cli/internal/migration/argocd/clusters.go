// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package argocd

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/leatdev/leat/cli/internal/migration"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// serverMark stands for the API server of a cluster in a template. Nothing but a destination can have it.
const serverMark = "\x00server"

// ofCluster returns what a parameter of a template becomes: a fact of the cluster, or one of the constants.
func ofCluster(constants map[string]string, isGo bool) func(keys []string) (string, error) {
	var resolve func(keys []string) (string, error)
	resolve = func(keys []string) (string, error) {
		switch {
		case slices.Equal(keys, []string{"name"}), slices.Equal(keys, []string{"nameNormalized"}):
			return "${{ self.name }}", nil
		case slices.Equal(keys, []string{"server"}):
			return serverMark, nil
		case len(keys) == 3 && keys[0] == "metadata" && (keys[1] == "labels" || keys[1] == "annotations"):
			return "${{ self." + keys[1] + "[" + strconv.Quote(keys[2]) + "] }}", nil
		case len(keys) == 2 && keys[0] == "values":
			value, isSet := constants[keys[1]]
			if !isSet {
				break
			}
			if strings.Contains(value, "{{") { // of the cluster; a value of values would never end
				return text(value, isGo, func(below []string) (string, error) {
					if below[0] == "values" {
						return "", fmt.Errorf("the value %s names another one", keys[1])
					}
					return resolve(below)
				})
			}
			return value, nil
		}
		return "", fmt.Errorf("its template uses %s, which the hub does not know of a cluster", strings.Join(keys, "."))
	}
	return resolve
}

// filled is the template of a set for its clusters, or for some of them.
type filled struct {
	metadata, spec *migration.Fields
	service        *fleetv1.ServiceSpec
}

// errGiven means that a note of the object says why.
var errGiven = errors.New("said by a note")

// fill makes a service of the template with these constants.
func (s setOf) fill(constants map[string]string, f *fleet) (filled, *project, error) {
	made, err := substitute(s.template, s.isGo, f.bounded(ofCluster(constants, s.isGo)))
	if err != nil {
		return filled{}, nil, err
	}
	template := s.Fields.Derive("spec.template", made)
	t := filled{metadata: template.Part("metadata"), spec: template.Part("spec"), service: &fleetv1.ServiceSpec{DryRun: !f.settings.Live}}
	t.metadata.Skip("namespace", "labels", "annotations")
	destination := t.spec.Part("destination")
	if server, name := destination.Text("server"), destination.Text("name"); server != serverMark && name != "${{ self.name }}" {
		return t, nil, errors.New("its Applications are not delivered to the cluster that they are made of")
	}
	if strings.Contains(t.spec.Text("project"), "${{") {
		return t, nil, errors.New("its Applications are in different projects; write a global service for each of them")
	}
	t.service.Namespace = destination.Text("namespace")
	p := f.project(t.spec.Text("project"))
	a := &app{fleet: f, project: p, name: t.metadata.Text("name"), fields: t.spec, spec: t.service}
	if !a.fill(t.metadata.Texts("finalizers")) {
		return t, nil, errGiven
	}
	return t, p, fits(t.service)
}

// different is a choice of clusters in which some of the constants are others.
type different struct {
	name      string
	clusters  *fleetv1.ClusterTarget
	constants map[string]string
}

// global makes a global service of a set over clusters, with overrides where they differ.
func global(generator *migration.Fields, others []different, s setOf, f *fleet) ([]*fleetv1.Document, error) {
	target, constants, err := choice(generator)
	if err != nil {
		return nil, err
	}
	base, p, err := s.fill(constants, f)
	if errors.Is(err, errGiven) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	document, spec := f.newServices(p).NewGlobal(s.Name, s.Namespace+"-"+s.Name)
	spec.Clusters, spec.Template = target, base.service
	spec.TemplateLabels, spec.TemplateAnnotations = base.metadata.Strings("labels"), base.metadata.Strings("annotations")
	for _, other := range others {
		all := maps.Clone(constants)
		maps.Copy(all, other.constants)
		made, own, err := s.fill(all, f)
		switch {
		case errors.Is(err, errGiven):
			return nil, nil
		case err != nil:
			return nil, err
		case own != p:
			return nil, errors.New("its Applications are in different projects; write a global service for each of them")
		}
		override, err := overrideOf(base.service, made.service)
		if err != nil {
			return nil, err
		}
		if override != nil {
			override.Name, override.Clusters = other.name, other.clusters
			for i, name := range other.clusters.GetNames() {
				other.clusters.Names[i] = f.from(p, name)
			}
			spec.Overrides = append(spec.GetOverrides(), override)
		}
	}
	if !f.accepts(p, base.spec, document) {
		return nil, nil
	}
	f.deliver(p, document)
	return []*fleetv1.Document{document}, nil
}

// choice returns the clusters that a generator selects, and its constants.
func choice(generator *migration.Fields) (*fleetv1.ClusterTarget, map[string]string, error) {
	generator.Without(migration.Missing, "the generator has no template of its own", "template", "selector")
	clusters := generator.Part("clusters")
	if flat, _ := clusters.Bool("flatList"); flat || clusters.Has("template") {
		return nil, nil, errors.New("it has all clusters in one Application, or a template of its own; write a document for them")
	}
	target, err := clusterTarget(clusters.Part("selector"))
	return target, clusters.Strings("values"), err
}

// maxOverrides is the number of overrides of a global service.
const maxOverrides = 64

// merged makes a global service of clusters whose parameters other generators change: for each element of a list, and for
// each further choice of clusters.
func merged(merge *migration.Fields, s setOf, f *fleet) ([]*fleetv1.Document, error) {
	keys, all := merge.Texts("mergeKeys"), merge.Parts("generators")
	if len(all) == 0 || !all[0].Has("clusters") || len(keys) != 1 || !slices.Contains([]string{"name", "nameNormalized", "server"}, keys[0]) {
		return nil, errors.New("it merges something else than clusters with their differences; write a global service with overrides")
	}
	var others []different
	for _, generator := range all[1:] {
		switch {
		case generator.Has("clusters"):
			target, constants, err := choice(generator)
			if err != nil {
				return nil, err
			}
			others = append(others, different{name: fmt.Sprintf("clusters-%d", len(others)+1), clusters: target, constants: constants})
		case generator.Has("list"):
			found, err := f.elementsOf(generator.Part("list"), keys[0], len(others))
			if err != nil {
				return nil, err
			}
			others = append(others, found...)
		default:
			return nil, errors.New("it merges something else than clusters with their differences; write a global service with overrides")
		}
	}
	text, err := json.Marshal(s.template)
	if f.templated += len(others) * len(text); err != nil || len(others) > maxOverrides || f.templated > maxTemplated {
		return nil, fmt.Errorf("it has %d differences, and a global service at most %d overrides", len(others), maxOverrides)
	}
	return global(all[0], others, s, f)
}

// elementsOf returns the differences that the elements of a list say, each of the cluster that its key names.
func (f *fleet) elementsOf(list *migration.Fields, key string, before int) ([]different, error) {
	var others []different
	for i, element := range list.Parts("elements") {
		cluster := migration.NewFields(map[string]any{key: element.Text(key)})
		if key == "nameNormalized" {
			cluster = migration.NewFields(map[string]any{"name": element.Text(key)})
		}
		theirs, reference, isKnown := f.destination(cluster)
		if !isKnown {
			return nil, errors.New("say with --map-cluster or --cluster which cluster at the hub is " + cmp.Or(theirs, "the one of Argo CD"))
		}
		constants := element.Strings("values")
		for name, value := range element.All() {
			if short, isValue := strings.CutPrefix(name, "values."); isValue {
				text, isText := value.(string)
				if !isText {
					return nil, fmt.Errorf("the value %s of an element is not a text", migration.Line(short))
				}
				constants[short] = text
			} else if name != key && name != "values" {
				return nil, fmt.Errorf("an element has %s, which is not a value", migration.Line(name))
			}
		}
		others = append(others, different{
			name: fmt.Sprintf("cluster-%d", before+i+1), clusters: &fleetv1.ClusterTarget{Names: []string{reference}}, constants: constants,
		})
	}
	return others, nil
}

// overrideOf returns what makes other of base, or nil if they are equal.
func overrideOf(base, other *fleetv1.ServiceSpec) (*fleetv1.ServiceOverride, error) {
	override, rest := &fleetv1.ServiceOverride{}, proto.CloneOf(base)
	if len(base.GetSources()) != len(other.GetSources()) || len(base.GetRender()) != len(other.GetRender()) {
		return nil, errors.New("its clusters differ in their sources; write a service for each")
	}
	for i, source := range other.GetSources() {
		own, change := rest.GetSources()[i], &fleetv1.SourceOverride{Source: int32(i)}
		if !proto.Equal(own.GetRef(), source.GetRef()) && source.GetRef() != nil {
			change.Ref, own.Ref = source.GetRef(), source.GetRef()
		}
		if own.GetPath() != source.GetPath() {
			change.Path, own.Path = proto.String(source.GetPath()), source.GetPath()
		}
		if change.GetRef() != nil || change.Path != nil {
			override.Sources = append(override.Sources, change)
		}
	}
	for i, step := range other.GetRender() {
		own, values := rest.GetRender()[i].GetHelm(), step.GetHelm().GetValues()
		if own != nil && values != nil && !proto.Equal(own.GetValues(), values) {
			override.Render = append(override.Render, &fleetv1.RenderOverride{Step: int32(i), Values: values})
			own.Values = values
		}
	}
	if rest.GetNamespace() != other.GetNamespace() {
		override.Namespace, rest.Namespace = proto.String(other.GetNamespace()), other.GetNamespace()
	}
	if !proto.Equal(rest.GetPolicy(), other.GetPolicy()) && other.GetPolicy() != nil {
		override.Policy, rest.Policy = other.GetPolicy(), other.GetPolicy()
	}
	switch {
	case !proto.Equal(rest, other):
		return nil, errors.New("its clusters differ in more than revisions, paths, values, namespaces and policies; write a service for each")
	case proto.Size(override) == 0:
		return nil, nil
	}
	return override, nil
}

// fits reports what of a template holds a parameter where a global service can have none.
func fits(service *fleetv1.ServiceSpec) error {
	whole, err := protojson.Marshal(service)
	if err != nil || strings.Contains(string(whole), `\u0000`) {
		return errors.New("its template uses the URL of the cluster's API server outside of the destination")
	}
	for _, source := range service.GetSources() {
		for _, text := range slices.Concat([]string{source.GetRepository(), source.GetChart(), source.GetMount()}, source.GetInclude(), source.GetExclude()) {
			if strings.Contains(text, "${{") {
				return errors.New("its template has a parameter in a repository, a chart or a pattern; write a service for each cluster")
			}
		}
	}
	return nil
}

// clusterTarget returns the clusters that a selector of labels selects.
func clusterTarget(selector *migration.Fields) (*fleetv1.ClusterTarget, error) {
	labels := &fleetv1.LabelSelector{MatchLabels: map[string]string{}}
	for key, value := range selector.Strings("matchLabels") {
		if key != secretType {
			labels.MatchLabels[key] = value
		}
	}
	operators := map[string]fleetv1.LabelOperator{
		"In": fleetv1.LabelOperator_LABEL_OPERATOR_IN, "NotIn": fleetv1.LabelOperator_LABEL_OPERATOR_NOT_IN,
		"Exists": fleetv1.LabelOperator_LABEL_OPERATOR_EXISTS, "DoesNotExist": fleetv1.LabelOperator_LABEL_OPERATOR_DOES_NOT_EXIST,
	}
	for _, e := range selector.Parts("matchExpressions") {
		operator, isKnown := operators[e.Text("operator")]
		if !isKnown {
			return nil, errors.New("its selector has an operator that labels do not have")
		}
		if e.Text("key") == secretType {
			continue
		}
		labels.MatchExpressions = append(labels.GetMatchExpressions(), &fleetv1.LabelRequirement{Key: e.Text("key"), Operator: operator, Values: e.Texts("values")})
	}
	if len(labels.GetMatchLabels())+len(labels.GetMatchExpressions()) == 0 {
		return &fleetv1.ClusterTarget{All: true}, nil
	}
	return &fleetv1.ClusterTarget{Labels: labels}, nil
}
