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

	"github.com/leatdev/leat/cli/internal/migration"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// maxElements is the number of Applications that one list makes.
const maxElements = 1000

// generators are what an ApplicationSet can make Applications of, besides clusters and lists, and what does it in Leat.
var generators = map[string]string{
	"git":                     "a global service for each folder or file delivers the same; a FleetSource keeps these documents in Git",
	"matrix":                  "a global service selects clusters, and one document stands for each of the other generator's elements",
	"scmProvider":             "write a repository and a service for each repository of the host",
	"pullRequest":             "leat preview shows what a pull request would change; nothing is deployed for it",
	"plugin":                  "write the documents that the plugin's answer stands for",
	"clusterDecisionResource": "give the clusters a label, and have a global service select by it",
}

// setOf is an ApplicationSet with its template.
type setOf struct {
	migration.Object

	template map[string]any
	isGo     bool
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
				g.Note(name, migration.Refused, generators[name]+"; in a cluster, each Application that it has made is imported")
				return o.Finish()
			}
		}
		isList = isList && g.Has("list") && !g.Has("clusters") && !g.Has("merge")
	}
	var documents []*fleetv1.Document
	var err error
	switch {
	case isList:
		documents, err = elements(o, all, template, isGo, f)
	case len(all) == 1 && all[0].Has("clusters"):
		documents, err = global(all[0], nil, setOf{o, template, isGo}, f)
	case len(all) == 1 && all[0].Has("merge"):
		documents, err = merged(all[0].Part("merge"), setOf{o, template, isGo}, f)
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
	f.sets[o.Namespace+"/"+o.Name] = documents
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
			made, err := substitute(template, isGo, f.bounded(func(keys []string) (string, error) { return lookUp(parameters, keys) }))
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
	if !a.fill(metadata.Texts("finalizers")) || !f.accepts(p, spec, document) {
		made.Drop()
		return nil
	}
	f.deliver(p, document)
	return document
}
