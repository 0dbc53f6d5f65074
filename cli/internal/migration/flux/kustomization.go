// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package flux

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/leatdev/leat/cli/internal/migration"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// inKustomization is what a person does about a field that changes objects.
const inKustomization = "write it into a kustomization.yaml of the repository"

// kustomization makes a service of a Kustomization.
func (t *translation) kustomization(o *object) {
	f := o.spec
	if o.Namespace == "flux-system" && o.Name == "flux-system" || strings.Contains(path.Base(o.Origin), "gotk-sync") {
		o.drop(migration.Needless, "it applies Flux's own objects, and the documents of Leat take their place")
		return
	}
	cluster, reason := t.cluster(o)
	if reason != "" {
		o.drop(migration.Refused, reason)
		return
	}
	from, reason := t.sourceOf(f.Part("sourceRef"), o.Namespace)
	if from != nil && (from.source == nil || from.source.registry != "" || from.Kind == kindHelm) {
		from, reason = nil, "it takes its content from a "+from.Kind+", which holds charts; make a HelmRelease of it first"
	}
	if from == nil {
		o.drop(migration.Refused, reason)
		return
	}
	place := migration.Folder(f.Text("path"))
	d, spec := t.services.New(cluster, f.Text("targetNamespace"), o.Name, o.Namespace+"-"+o.Name)
	spec.Sources = []*typev1.Source{t.folder(o, from.source, place)}
	t.substitute(o, spec)
	t.common(o, spec)
	if !flag(f, "prune") {
		spec.Sync.Prune = new(false)
	}
	spec.Policy.Recreate = flag(f, "force")
	spec.Policy.Ignore = ignoreRules(f)
	deletion(f, spec)
	decryption(o)
	when(f, "wait", migration.Needless, "a service of Leat is healthy when all its objects are")
	f.Without(migration.Needless, "a service of Leat is healthy when all its objects are", "healthChecks")
	f.Skip("interval", "retryInterval", "ignoreMissingComponents", "validation")
	f.Without(migration.Missing, inKustomization, "commonMetadata", "components", "images", "namePrefix", "nameSuffix", "patches",
		"patchesJson6902", "patchesStrategicMerge", "buildMetadata")
	if f.Has("targetNamespace") {
		f.Note("targetNamespace", migration.Differs, "Flux moves every object there, and Leat only objects that name no namespace; "+inKustomization)
	}
	if applied := cmp.Or(t.applied[key{"", o.Namespace, o.Name}], t.applied[key{name: place}]); applied != "" {
		f.Note("path", migration.Check, "the folder holds objects of Flux that are imported themselves, such as "+applied+
			"; take them out of it, or Flux continues to deliver them")
	}
	t.finish(o, d)
}

// folder returns the source of a folder of manifests, with everything that Flux would find beside it.
func (t *translation) folder(o *object, from *source, place string) *typev1.Source {
	s := from.of()
	s.Path = place
	if !t.copies(from.bytes()) {
		s.Exclude = nil
		o.spec.Note("sourceRef", migration.Missing, tooMuch)
		return s
	}
	switch {
	case place == "":
	case from.folders != nil:
		s.Folders = from.folders
	default:
		s.Root = "."
		o.spec.Note("path", migration.Check,
			"the service bundles the whole repository, as Flux does; narrow root in its source, so that commits elsewhere change nothing")
	}
	return s
}

// tooMuch is why something was not copied.
var tooMuch = fmt.Sprintf("an import copies at most %d MiB from objects into others; import in parts", maxCopied>>20)

// substitute sets the variables of a service and whether they are replaced.
func (t *translation) substitute(o *object, spec *fleetv1.ServiceSpec) {
	f := o.spec.Part("postBuild")
	inline, references := f.Strings("substitute"), f.Parts("substituteFrom")
	isAlways := f.Text("substituteStrategy") == "Always"
	if len(inline)+len(references) == 0 && !isAlways {
		spec.Render = migration.AsIs()
		return
	}
	spec.Render = []*typev1.RenderStep{{Substitute: new(true)}}
	values := map[string]string{}
	take := func(f *migration.Fields, field string, from map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(from)) {
			if !migration.IsVariable(name) {
				f.Note(field, migration.Missing, fmt.Sprintf("%.80q is not the name of a variable", name))
				continue
			}
			values[name] = strings.ReplaceAll(from[name], "\n", "") // as Flux does
		}
	}
	for _, ref := range references {
		if from := t.configMap(o, ref, "add the keys that manifests use to spec.config.references, such as NAME: REFERENCE#NAME"); from != nil {
			take(ref, "name", from)
		}
	}
	take(f, "substitute", inline)
	if len(values) > 0 {
		spec.Config = &fleetv1.ServiceConfig{Values: values}
	} else {
		f.Note("", migration.Missing, "Leat replaces nothing in a service without a configuration; add a value to spec.config")
	}
	f.Note("", migration.Differs, "a variable without a value fails the service, so write ${NAME:-}; bash functions such as ${NAME/a/b} are refused; "+
		"an object keeps ${NAME} by the annotation leat.dev/substitute: disabled")
}

// configMap returns the data of a ConfigMap that a reference names, as far as the import may copy it, or notes what a person
// does instead. REFERENCE in the advice stands for the object.
func (t *translation) configMap(o *object, ref *migration.Fields, advice string) map[string]string {
	kind, name := ref.Text("kind"), ref.Text("name")
	at, optional := cmp.Or(o.Namespace, "NAMESPACE")+"/"+name, ""
	if flag(ref, "optional") {
		optional = ", with ? at its end"
	}
	switch found := t.find(kindConfigMap, o.Namespace, name); {
	case kind == kindSecret:
		ref.Note("name", migration.Missing, "the import reads no Secrets; "+strings.ReplaceAll(advice, "REFERENCE", "cluster://"+at)+optional)
	case kind != kindConfigMap:
		ref.Note("kind", migration.Missing, "is neither ConfigMap nor Secret")
	case found == nil:
		ref.Note("name", migration.Missing, "the ConfigMap is not among the objects; import its file, or "+
			strings.ReplaceAll(advice, "REFERENCE", "cluster://configmaps/"+at)+optional)
	default:
		return t.copied(o, ref, found)
	}
	return nil
}

// copied returns the data of a ConfigMap.
func (t *translation) copied(o *object, ref *migration.Fields, from *object) map[string]string {
	from.isUsed = true
	if from.data == nil {
		from.data = from.Fields.Strings("data")
	}
	if from.Fields.Has("sops") {
		ref.Note("name", migration.Missing, "the ConfigMap is encrypted; write its values into the configuration of the service")
		return nil
	}
	bytes := 0
	for name, value := range from.data {
		bytes += len(name) + len(value)
	}
	if !t.copies(bytes) {
		ref.Note("name", migration.Missing, tooMuch)
		return nil
	}
	o.takes = append(o.takes, from)
	return from.data
}

// deletion sets what remains when the service is deleted.
func deletion(f *migration.Fields, spec *fleetv1.ServiceSpec) {
	switch policy := f.Text("deletionPolicy"); policy {
	case "", "MirrorPrune":
	case "Orphan":
		spec.Policy.Deletion = &typev1.Deletion{Detach: true}
	case "Delete", "WaitForTermination":
		if !flag(f, "prune") {
			f.Note("deletionPolicy", migration.Differs, "Leat keeps the objects of a deleted service that does not prune")
		}
	default:
		f.Note("deletionPolicy", migration.Missing, "the import does not know this policy")
	}
}

// decryption notes how the agent opens encrypted manifests.
func decryption(o *object) {
	f := o.spec.Part("decryption")
	if f.IsEmpty() {
		return
	}
	if provider := f.Text("provider"); provider != "sops" {
		f.Note("provider", migration.Missing, "Leat opens files of sops only")
	}
	keys := "the keys"
	if name := f.Part("secretRef").Text("name"); name != "" {
		keys = "the age keys of Secret " + strings.TrimPrefix(o.Namespace+"/"+name, "/")
	}
	f.Note("", migration.Check, "copy "+keys+" into the Secret leat-sops; PGP and keys of clouds are not opened: docs/guides/encrypted-manifests.md")
	f.Without(migration.Missing, "Leat opens nothing by keys of a cloud; encrypt for an age key", "serviceAccountName")
}
