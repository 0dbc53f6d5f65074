// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package flux makes documents of Leat of the objects of Flux: repositories of its sources, and services of its
// Kustomizations and HelmReleases.
//
// A committer wrote every object and every text in it. What is copied from one object into the documents of many is
// bounded for the whole import, so that a small folder makes no huge output.
package flux

import (
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/cli/internal/migration"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// The API groups of Flux whose kinds are translated.
const (
	sourceGroup    = "source.toolkit.fluxcd.io"
	kustomizeGroup = "kustomize.toolkit.fluxcd.io"
	helmGroup      = "helm.toolkit.fluxcd.io"
	operatorGroup  = "fluxcd.controlplane.io"
)

// The kinds that are translated, and what they refer to.
const (
	kindGit           = "GitRepository"
	kindHelm          = "HelmRepository"
	kindOCI           = "OCIRepository"
	kindChart         = "HelmChart"
	kindKustomization = "Kustomization"
	kindRelease       = "HelmRelease"
	kindConfigMap     = "ConfigMap"
	kindSecret        = "Secret"
)

// maxWhole is the whole number from which on documents do not hold each one.
const maxWhole = 1 << 53

// maxCopied bounds the bytes that one import copies from objects into the documents of others.
const maxCopied = 64 << 20

// kinds are the kinds to list in a cluster.
var kinds = []schema.GroupKind{
	{Group: sourceGroup, Kind: kindGit},
	{Group: sourceGroup, Kind: kindHelm},
	{Group: sourceGroup, Kind: kindOCI},
	{Group: sourceGroup, Kind: kindChart},
	{Group: sourceGroup, Kind: "Bucket"},
	{Group: sourceGroup, Kind: "ExternalArtifact"},
	{Group: "source.extensions.fluxcd.io", Kind: "ArtifactGenerator"},
	{Group: kustomizeGroup, Kind: kindKustomization},
	{Group: helmGroup, Kind: kindRelease},
	{Group: "notification.toolkit.fluxcd.io", Kind: "Provider"},
	{Group: "notification.toolkit.fluxcd.io", Kind: "Alert"},
	{Group: "notification.toolkit.fluxcd.io", Kind: "Receiver"},
	{Group: "image.toolkit.fluxcd.io", Kind: "ImageRepository"},
	{Group: "image.toolkit.fluxcd.io", Kind: "ImagePolicy"},
	{Group: "image.toolkit.fluxcd.io", Kind: "ImageUpdateAutomation"},
	{Group: operatorGroup, Kind: "FluxInstance"},
	{Group: operatorGroup, Kind: "FluxReport"},
	{Group: operatorGroup, Kind: "ResourceSet"},
	{Group: operatorGroup, Kind: "ResourceSetInputProvider"},
	{Group: "infra.contrib.fluxcd.io", Kind: "Terraform"},
}

// Tool knows the objects of Flux. ConfigMaps are among them, because Kustomizations and HelmReleases take values from
// them.
func Tool() migration.Tool {
	return migration.Tool{
		Marks: []string{"fluxcd.io/", operatorGroup + "/"},
		Also:  []string{kindConfigMap},
		Wants: func(o *unstructured.Unstructured) bool {
			kind := o.GroupVersionKind()
			return kind.Group == "" && kind.Kind == kindConfigMap || strings.HasSuffix(kind.Group, ".fluxcd.io") || kind.Group == operatorGroup
		},
	}
}

// Kinds returns the kinds to list in a cluster. ConfigMaps are left out: those of a cluster hold far more than values of
// Flux.
func Kinds() []migration.Kind {
	var all []migration.Kind
	for _, kind := range kinds {
		all = append(all, migration.Kind{GroupKind: kind})
	}
	return all
}

// key names an object. It needs no group, because each kind that is looked up has one.
type key struct{ kind, namespace, name string }

// object is an object of Flux with what became of it.
type object struct {
	migration.Object
	spec *migration.Fields
	// documents are those that it became or is part of, in their order.
	documents []*fleetv1.Document
	// service is the one that it became. Nil: none.
	service *fleetv1.Document
	// takes are the ConfigMaps that it copies values from.
	takes []*object
	// isUsed reports that another object refers to it.
	isUsed bool
	// source, chart and data are what was read of a source, a HelmChart or a ConfigMap. Nil: nothing yet.
	source *source
	chart  *chart
	data   map[string]string
}

// drop notes why there is no document of the object. One that is needless needs none.
func (o *object) drop(grade migration.Grade, reason string) {
	o.Fields.Note("", grade, reason)
	o.documents, o.service = nil, nil
}

// add says that a document has a part of the object.
func (o *object) add(d *fleetv1.Document) {
	if n := len(o.documents); n == 0 || o.documents[n-1] != d {
		o.documents = append(o.documents, d)
	}
}

// translation is one import.
type translation struct {
	settings     migration.Settings
	repositories *migration.Repositories
	services     *migration.Services
	objects      []*object
	// known are the objects by their names, and named those by kind and name alone: nil where several have them.
	known, named map[key]*object
	// applied has an object of Flux for each Kustomization that applies one, and for each folder that holds one.
	applied map[key]string
	// room is the number of bytes that may still be copied.
	room int
}

// Translate makes documents of objects, and says of each object what became of it. It returns repositories first.
func Translate(objects []migration.Object, s migration.Settings) migration.Result {
	t := &translation{
		settings: s, repositories: migration.NewRepositories(s.Project), services: migration.NewServices(s),
		known: map[key]*object{}, named: map[key]*object{}, applied: map[key]string{}, room: maxCopied,
	}
	t.index(objects)
	t.folders()
	t.each(t.readGit, kindGit)
	t.each(t.readHelm, kindHelm)
	t.each(t.readOCI, kindOCI)
	t.each(t.serve, kindKustomization, kindRelease)
	var made []*fleetv1.Document
	t.each(func(o *object) {
		if o.service != nil {
			t.depend(o)
			made = append(made, o.service)
		}
	}, kindKustomization, kindRelease)
	t.settle()
	result := migration.Result{Documents: append(t.repositories.Documents(), made...)}
	for _, o := range t.objects {
		if o.Kind == kindConfigMap && o.Group == "" && !o.isUsed {
			continue
		}
		result.Entries = append(result.Entries, o.Finish(o.documents...))
	}
	return result
}

// index reads which objects there are. The first of several with one name counts.
func (t *translation) index(objects []migration.Object) {
	for _, found := range objects {
		o := &object{Object: found, spec: found.Fields.Part("spec")}
		t.objects = append(t.objects, o)
		if !isTranslated(found) {
			o.drop(unmatched(found))
			continue
		}
		full, short := key{o.Kind, o.Namespace, o.Name}, key{o.Kind, "", o.Name}
		if first := t.known[full]; first != nil {
			if o.Kind != kindConfigMap {
				o.drop(migration.Refused, "it has the name of the object at "+first.Origin+"; import the objects of one cluster at a time")
			}
			continue
		}
		t.known[full] = o
		if _, isKnown := t.named[short]; isKnown {
			t.named[short] = nil
		} else {
			t.named[short] = o
		}
		if holdsVariable(found.Fields.Map("spec")) {
			o.spec.Note("", migration.Check, "holds ${…}, which Flux replaces before it applies the object; import it from the cluster, or write the values")
		}
		by := key{"", found.Labels[kustomizeGroup+"/namespace"], found.Labels[kustomizeGroup+"/name"]}
		if by.name != "" && o.Kind != kindConfigMap && t.applied[by] == "" {
			t.applied[by] = found.String()
		}
	}
}

// folders finds an object of Flux for each folder of a Kustomization.
func (t *translation) folders() {
	var folders []string
	t.each(func(o *object) { folders = append(folders, migration.Folder(o.spec.Text("path"))) }, kindKustomization)
	var found []migration.Object
	t.each(func(o *object) { found = append(found, o.Object) }, kindGit, kindHelm, kindOCI, kindChart, kindKustomization, kindRelease)
	for folder, name := range migration.FoldersWith(found, folders) {
		t.applied[key{name: folder}] = name
	}
}

// replacesItself are the fields of a spec whose variables are not Flux's, or are noted apart.
var replacesItself = []string{"values", "postBuild", "patches", "postRenderers"}

// holdsVariable reports whether a spec holds a variable that Flux replaces.
func holdsVariable(spec map[string]any) bool {
	for name, value := range spec {
		if hasVariable, _ := inspect(value); hasVariable && !slices.Contains(replacesItself, name) {
			return true
		}
	}
	return false
}

// inspect reports whether a value holds a variable, and a whole number that a document cannot hold.
func inspect(value any) (hasVariable, hasLarge bool) {
	visit := func(below any) {
		v, l := inspect(below)
		hasVariable, hasLarge = hasVariable || v, hasLarge || l
	}
	switch v := value.(type) {
	case map[string]any:
		for _, below := range v {
			visit(below)
		}
	case []any:
		for _, below := range v {
			visit(below)
		}
	case string:
		hasVariable = strings.Contains(v, "${")
	case float64:
		hasLarge = math.Abs(v) >= maxWhole && v == math.Trunc(v)
	case int64:
		hasLarge = v >= maxWhole || v <= -maxWhole
	}
	return hasVariable, hasLarge
}

// each calls a function for the objects of some kinds.
func (t *translation) each(do func(*object), kinds ...string) {
	for _, o := range t.objects {
		if slices.Contains(kinds, o.Kind) && t.known[key{o.Kind, o.Namespace, o.Name}] == o {
			do(o)
		}
	}
}

// serve makes a service.
func (t *translation) serve(o *object) {
	if o.Kind == kindRelease {
		t.release(o)
		return
	}
	t.kustomization(o)
}

// find returns the object that a reference names, or nil. In files, an object may lack the namespace that a
// kustomization gives it.
func (t *translation) find(kind, namespace, name string) *object {
	if o := t.known[key{kind, namespace, name}]; o != nil {
		return o
	}
	if o := t.named[key{kind, "", name}]; o != nil && (namespace == "" || o.Namespace == "") {
		return o
	}
	return nil
}

// copies reports whether so many bytes of another object may be copied into a document.
func (t *translation) copies(bytes int) bool {
	if bytes > t.room {
		return false
	}
	t.room -= bytes
	return true
}

// isTranslated reports whether there is a translation for the kind of an object.
func isTranslated(o migration.Object) bool {
	switch o.Group {
	case "":
		return o.Kind == kindConfigMap
	case sourceGroup:
		return o.Kind == kindGit || o.Kind == kindHelm || o.Kind == kindOCI || o.Kind == kindChart
	case kustomizeGroup:
		return o.Kind == kindKustomization
	case helmGroup:
		return o.Kind == kindRelease
	}
	return false
}

// unmatched says why there is no document of an object of another kind.
func unmatched(o migration.Object) (migration.Grade, string) {
	switch o.Kind {
	case "Provider", "Alert":
		return migration.Refused, "write a Notifier of Leat, which sends what happens to services and clusters"
	case "Receiver":
		return migration.Refused, "set spec.webhookSecret of the repository, and have its host call the hub's webhook"
	case "ImageRepository", "ImagePolicy", "ImageUpdateAutomation":
		return migration.Refused, "write an ImagePolicy of Leat, and mark the lines in Git for it (docs/guides/image-automation.md)"
	case "Bucket":
		return migration.Refused, "Leat reads no buckets; push the content to Git or to an OCI registry"
	case "ExternalArtifact":
		return migration.Refused, "Leat reads no artifacts of other controllers; push the content to Git or to an OCI registry"
	case "ArtifactGenerator":
		return migration.Refused, "a service of Leat composes its own tree; list the sources in its spec.sources, each with a mount"
	case "FluxInstance", "FluxReport":
		return migration.Needless, "it installs and reports Flux itself"
	case "ResourceSet", "ResourceSetInputProvider":
		return migration.Refused, "import what it makes in the cluster, or write a GlobalService of Leat, which makes a service in each cluster"
	}
	return migration.Refused, "Leat has no counterpart of this kind"
}
