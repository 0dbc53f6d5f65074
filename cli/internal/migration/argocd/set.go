// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package argocd

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/leatdev/leat/cli/internal/migration"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// maxElements is the number of Applications that one list makes.
const maxElements = 1000

// generators are what an ApplicationSet can make Applications of, besides clusters and lists, and what does it in Leat.
var generators = map[string]string{
	"git":                     "a global service for each folder or file delivers the same; a FleetSource keeps these documents in Git",
	"matrix":                  "a global service selects clusters, and one document stands for each of the other generator's elements",
	"merge":                   "a global service has overrides for some of its clusters",
	"scmProvider":             "write a repository and a service for each repository of the host",
	"pullRequest":             "leat preview shows what a pull request would change; nothing is deployed for it",
	"plugin":                  "write the documents that the plugin's answer stands for",
	"clusterDecisionResource": "give the clusters a label, and have a global service select by it",
}

// applicationSet makes a global service of a set over clusters, and a service of each element of lists.
func applicationSet(o migration.Object, f *fleet) migration.Entry {
	spec := o.Fields.Part("spec")
	isGo, _ := spec.Bool("goTemplate")
	spec.Skip("goTemplateOptions")
	all, template := spec.Parts("generators"), spec.Map("template")
	if spec.Has("templatePatch") {
		spec.Note("templatePatch", migration.Refused, "write the documents by hand: a global service has overrides in place of a patch")
		return o.Finish()
	}
	if len(all) == 0 || template == nil {
		spec.Note("generators", migration.Refused, "it has no generator or no template")
		return o.Finish()
	}
	isList := true
	for _, g := range all {
		for _, name := range slices.Sorted(maps.Keys(generators)) {
			if g.Has(name) {
				g.Note(name, migration.Refused, generators[name])
				return o.Finish()
			}
		}
		isList = isList && g.Has("list") && !g.Has("clusters")
	}
	var documents []*fleetv1.Document
	var err error
	switch {
	case isList:
		documents, err = elements(o, all, template, isGo, f)
	case len(all) == 1 && all[0].Has("clusters"):
		documents, err = global(o, all[0], template, isGo, f)
	default:
		err = errors.New("it joins generators; write a document for each of them")
	}
	if err != nil {
		spec.Note("template", migration.Refused, err.Error())
	}
	if len(documents) == 0 {
		return o.Finish()
	}
	f.setOptions(spec)
	return o.Finish(documents...)
}

// setOptions notes what a set is besides its generators and its template.
func (f *fleet) setOptions(spec *migration.Fields) {
	policy := spec.Part("syncPolicy")
	policy.Without(migration.Differs, "the hub keeps the services as the document says", "applicationsSync")
	policy.Without(migration.Check, "set policy.deletion.detach, if the objects shall stay when the services are deleted", "preserveResourcesOnDeletion")
	spec.Without(migration.Check, "a RolloutPolicy delivers in waves (docs/guides/rollouts.md)", "strategy")
	spec.Without(migration.Differs, "people's changes of a derived service are exceptions of it alone", "ignoreApplicationDifferences", "preservedFields")
}

// elements makes a service of each element of lists.
func elements(o migration.Object, all []*migration.Fields, template map[string]any, isGo bool, f *fleet) ([]*fleetv1.Document, error) {
	text, err := json.Marshal(template)
	if err != nil {
		return nil, err
	}
	var documents []*fleetv1.Document
	for _, generator := range all {
		generator.Without(migration.Missing, "elements are not selected, and have no template of their own", "selector")
		list := generator.Part("list")
		list.Without(migration.Missing, "write the elements that the text stands for", "elementsYaml")
		list.Without(migration.Missing, "elements have no template of their own", "template")
		elements := list.Parts("elements")
		if f.templated += len(elements) * len(text); len(elements) > maxElements || f.templated > maxTemplated {
			return documents, fmt.Errorf("the list has %d elements; import it in parts", len(elements))
		}
		for _, element := range elements {
			parameters := element.All()
			made, err := substitute(template, isGo, func(keys []string) (string, error) { return lookUp(parameters, keys) })
			if err != nil {
				return documents, err
			}
			d := derived(o, made, f)
			if d == nil {
				continue
			}
			documents = append(documents, d)
		}
	}
	return documents, nil
}

// derived makes a service of an Application that a set stands for, or returns nil if it cannot be.
func derived(o migration.Object, template map[string]any, f *fleet) *fleetv1.Document {
	made := o.Fields.Derive("spec.template", template)
	metadata, spec := made.Part("metadata"), made.Part("spec")
	metadata.Skip("labels", "annotations", "namespace")
	name, p := metadata.Text("name"), f.project(spec.Text("project"))
	theirs, reference, isKnown := f.destination(spec.Part("destination"))
	if !isKnown || name == "" {
		spec.Note("destination", migration.Refused, "an Application of it is not imported; say with --map-cluster or --cluster which cluster at the hub is "+cmp.Or(theirs, "the one of Argo CD"))
		made.Drop()
		return nil
	}
	document, service := f.newServices(p).New(f.from(p, reference), spec.Part("destination").Text("namespace"), name, o.Name+"-"+name)
	a := &app{fleet: f, project: p, name: name, fields: spec, spec: service, isNamed: document.GetService().GetMetadata().GetName() == name}
	if !a.fill(metadata.Texts("finalizers")) || !accepted(spec, document) {
		made.Drop()
		return nil
	}
	f.deliver(p, document)
	return document
}

// serverMark stands for the API server of a cluster in a template. Nothing but a destination can have it.
const serverMark = "\x00server"

// global makes a global service of a set over clusters.
func global(o migration.Object, generator *migration.Fields, template map[string]any, isGo bool, f *fleet) ([]*fleetv1.Document, error) {
	generator.Without(migration.Missing, "the generator has no template of its own", "template", "selector")
	clusters := generator.Part("clusters")
	if flat, _ := clusters.Bool("flatList"); flat || clusters.Has("template") {
		return nil, errors.New("it has all clusters in one Application, or a template of its own; write a document for them")
	}
	constants := clusters.Strings("values")
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
	filled, err := substitute(template, isGo, resolve)
	if err != nil {
		return nil, err
	}
	made := o.Fields.Derive("spec.template", filled)
	metadata, spec := made.Part("metadata"), made.Part("spec")
	metadata.Skip("namespace")
	destination := spec.Part("destination")
	if server, name := destination.Text("server"), destination.Text("name"); server != serverMark && name != "${{ self.name }}" {
		return nil, errors.New("its Applications are not delivered to the cluster that they are made of")
	}
	target, err := clusterTarget(clusters.Part("selector"))
	if err != nil {
		return nil, err
	}
	if strings.Contains(spec.Text("project"), "${{") {
		return nil, errors.New("its Applications are in different projects; write a global service for each of them")
	}
	p := f.project(spec.Text("project"))
	document, global := f.newServices(p).NewGlobal(o.Name, o.Namespace+"-"+o.Name)
	global.Clusters, global.Template.Namespace = target, destination.Text("namespace")
	global.TemplateLabels, global.TemplateAnnotations = metadata.Strings("labels"), metadata.Strings("annotations")
	a := &app{fleet: f, project: p, name: metadata.Text("name"), fields: spec, spec: global.GetTemplate()}
	if !a.fill(metadata.Texts("finalizers")) || !accepted(spec, document) {
		return nil, nil
	}
	if err := fits(global.GetTemplate()); err != nil {
		return nil, err
	}
	f.deliver(p, document)
	return []*fleetv1.Document{document}, nil
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

var (
	placeholder = regexp.MustCompile(`\{\{-?\s*(.*?)\s*-?\}\}`)
	goField     = regexp.MustCompile(`^\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)$`)
	goIndex     = regexp.MustCompile(`^\(?index\s+\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\s+"([^"]*)"\)?$`)
	simpleField = regexp.MustCompile(`^[A-Za-z0-9_][\w./-]*$`)
)

// substitute returns a template with each placeholder of its texts replaced. resolve gets the keys of a parameter.
func substitute(template map[string]any, isGo bool, resolve func(keys []string) (string, error)) (map[string]any, error) {
	made := make(map[string]any, len(template))
	for _, key := range slices.Sorted(maps.Keys(template)) {
		name, err := text(key, isGo, resolve)
		if err != nil {
			return nil, err
		}
		if made[name], err = substituteIn(template[key], isGo, resolve); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func substituteIn(value any, isGo bool, resolve func(keys []string) (string, error)) (any, error) {
	switch v := value.(type) {
	case string:
		return text(v, isGo, resolve)
	case map[string]any:
		return substitute(v, isGo, resolve)
	case []any:
		made := make([]any, len(v))
		for i, item := range v {
			var err error
			if made[i], err = substituteIn(item, isGo, resolve); err != nil {
				return nil, err
			}
		}
		return made, nil
	default:
		return value, nil
	}
}

// text returns a text with each placeholder replaced.
func text(from string, isGo bool, resolve func(keys []string) (string, error)) (string, error) {
	var failure error
	made := placeholder.ReplaceAllStringFunc(from, func(whole string) string {
		expression := placeholder.FindStringSubmatch(whole)[1]
		keys, isParameter := keysOf(expression, isGo)
		if !isParameter {
			failure = errors.Join(failure, fmt.Errorf("its template computes %q; a document has only values", migration.Line(expression)))
			return ""
		}
		value, err := resolve(keys)
		failure = errors.Join(failure, err)
		return value
	})
	if failure != nil {
		first, _, _ := strings.Cut(failure.Error(), "\n")
		return "", errors.New(first)
	}
	return made, nil
}

// keysOf returns the keys that an expression names, if it is nothing but a parameter.
func keysOf(expression string, isGo bool) (keys []string, isParameter bool) {
	if !isGo {
		for _, prefix := range []string{"metadata.labels.", "metadata.annotations."} {
			if key, isLabel := strings.CutPrefix(expression, prefix); isLabel {
				return append(strings.Split(strings.TrimSuffix(prefix, "."), "."), key), true
			}
		}
		return strings.Split(expression, "."), simpleField.MatchString(expression)
	}
	if m := goField.FindStringSubmatch(expression); m != nil {
		return strings.Split(m[1], "."), true
	}
	if m := goIndex.FindStringSubmatch(expression); m != nil {
		return append(strings.Split(m[1], "."), m[2]), true
	}
	return nil, false
}

// lookUp returns the value of keys in the parameters of an element.
func lookUp(parameters map[string]any, keys []string) (string, error) {
	var value any = parameters
	for _, key := range keys {
		below, isMap := value.(map[string]any)
		if !isMap || below[key] == nil {
			return "", fmt.Errorf("its template uses %s, which an element of the list lacks", migration.Line(strings.Join(keys, ".")))
		}
		value = below[key]
	}
	switch v := value.(type) {
	case string:
		return v, nil
	case bool, float64, int64:
		return fmt.Sprint(v), nil
	default:
		return "", fmt.Errorf("its template uses %s, which is not a text", migration.Line(strings.Join(keys, ".")))
	}
}
