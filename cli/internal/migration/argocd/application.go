// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package argocd

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/leatdev/leat/cli/internal/migration"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// finalizer is what makes Argo CD delete the objects of an Application with it.
const finalizer = "resources-finalizer.argocd.argoproj.io"

func application(o migration.Object, f *fleet) migration.Entry {
	o.Fields.Skip("operation") // a sync that runs
	for _, owner := range o.Owners {
		if name, isSet := strings.CutPrefix(owner, "ApplicationSet "); isSet && f.sets[o.Namespace+"/"+name] != nil {
			o.Fields.Drop()
			o.Fields.Note("", migration.Needless, "its ApplicationSet is imported")
			return o.Finish(f.sets[o.Namespace+"/"+name]...)
		}
	}
	spec := o.Fields.Part("spec")
	p := f.project(spec.Text("project"))
	theirs, reference, isKnown := f.destination(spec.Part("destination"))
	if !isKnown {
		if theirs == "" {
			spec.Note("destination", migration.Refused, "it delivers to the cluster of Argo CD itself; say with --cluster which one that is")
		} else {
			spec.Note("destination", migration.Refused, "say with --map-cluster which cluster at the hub is "+theirs)
		}
		return o.Finish()
	}
	if spec.IsEmpty() || o.Name == "" || len(o.Name) > maxName {
		o.Fields.Note("", migration.Refused, "it has no name that Kubernetes allows, or no spec")
		return o.Finish()
	}
	document, service := f.newServices(p).New(f.from(p, reference), spec.Part("destination").Text("namespace"), o.Name, o.Namespace+"-"+o.Name)
	name := document.GetService().GetMetadata().GetName()
	a := &app{fleet: f, project: p, name: o.Name, fields: spec, spec: service, isNamed: name == o.Name}
	if !a.fill(o.Finalizers) || !f.accepts(p, spec, document) {
		return o.Finish()
	}
	noteAnnotations(o)
	a.noteApplied()
	f.deliver(p, document)
	return o.Finish(document)
}

// noteApplied notes that an Application delivers others: they would come back.
func (a *app) noteApplied() {
	held := a.fleet.applied["/"+a.name]
	for _, source := range a.spec.GetSources() {
		held = cmp.Or(held, a.fleet.applied[source.GetPath()])
	}
	if held != "" {
		a.fields.Note("", migration.Missing, "it delivers objects of Argo CD that are imported themselves, such as "+held+"; leave the service out, or take them out of its folder")
	}
}

// noteAnnotations notes what Argo CD reads from annotations of an Application.
func noteAnnotations(o migration.Object) {
	for key := range o.Annotations {
		switch {
		case key == "argocd.argoproj.io/sync-wave":
			o.Fields.Note("metadata.annotations", migration.Differs, "services have no waves; name in policy.dependsOn what has to be healthy before")
		case strings.HasPrefix(key, "notifications.argoproj.io/"):
			o.Fields.Note("metadata.annotations", migration.Differs, "a document of the kind Notifier sends messages about services")
		case strings.HasPrefix(key, "argocd-image-updater.argoproj.io/"):
			o.Fields.Note("metadata.annotations", migration.Differs, "the hub does not write new images to Git; keep a tool that does")
		}
	}
}

// fill sets the spec of the service. It reports whether the service can deliver anything.
func (a *app) fill(finalizers []string) bool {
	if !a.sources() {
		return false
	}
	a.sync()
	a.ignore()
	a.windows()
	if !slices.ContainsFunc(finalizers, func(name string) bool { return strings.HasPrefix(name, finalizer) }) {
		a.deletion().Detach = true // Argo CD leaves the objects when the Application is deleted
	}
	a.fields.Without(migration.Needless, "the hub keeps the revisions of a service", "revisionHistoryLimit")
	a.fields.Without(migration.Needless, "put links and facts for people into annotations of the service", "info")
	return true
}

// sync reads spec.syncPolicy.
func (a *app) sync() {
	policy := a.fields.Part("syncPolicy")
	automated := policy.Part("automated")
	enabled, isSet := automated.Bool("enabled")
	prune, _ := automated.Bool("prune")
	heal, _ := automated.Bool("selfHeal")
	if empty, _ := automated.Bool("allowEmpty"); empty {
		automated.Note("allowEmpty", migration.Differs, "an agent never deletes everything without a confirmation: see docs/reference/agent/prune.md")
	}
	a.options().Prune = &prune
	if !policy.Has("automated") || isSet && !enabled {
		a.spec.Paused = true
		policy.Note("automated", migration.Differs, "Argo CD delivers it only when a person asks; the service is paused until you take paused away")
	}
	if !heal {
		a.policy().Drift = typev1.DriftMode_DRIFT_MODE_REPORT
	}
	a.options().CreateNamespace = new(false)
	for _, option := range policy.Texts("syncOptions") {
		a.syncOption(policy, option)
	}
	policy.Without(migration.Needless, "an agent repeats what failed, with growing pauses", "retry")
	policy.Without(migration.Missing, "put the namespace with its labels and annotations into the manifests", "managedNamespaceMetadata")
}

// always are sync options that request what an agent does anyway, or that have no meaning for it.
var always = []string{
	"PruneLast=true", "ServerSideApply=true", "ApplyOutOfSyncOnly=true", "RespectIgnoreDifferences=true", "FailOnSharedResource=true",
	"SkipDryRunOnMissingResource=true", "Validate=true", "Replace=false", "Force=false", "CreateNamespace=false", "Prune=true", "Delete=true",
	"ApplyOutOfSyncOnly=false", "PruneLast=false", "FailOnSharedResource=false", "SkipDryRunOnMissingResource=false", "ClientSideApplyMigration=true",
	"DisableClientSideApplyMigration=true", "DisableClientSideApplyMigration=false", "ClientSideApplyMigration=false", "RespectIgnoreDifferences=false",
}

// syncOption reads one sync option.
func (a *app) syncOption(policy *migration.Fields, option string) {
	propagation := map[string]typev1.DeletePropagation{
		"foreground": typev1.DeletePropagation_DELETE_PROPAGATION_UNSPECIFIED, "background": typev1.DeletePropagation_DELETE_PROPAGATION_BACKGROUND,
		"orphan": typev1.DeletePropagation_DELETE_PROPAGATION_ORPHAN,
	}
	switch name, value, _ := strings.Cut(strings.ReplaceAll(option, " ", ""), "="); {
	case option == "CreateNamespace=true":
		a.options().CreateNamespace = nil // the default
	case option == "Prune=false":
		a.options().Prune = new(false)
	case option == "Prune=confirm", option == "Delete=confirm":
		policy.Note("syncOptions", migration.Differs, option+": put the annotation argocd.argoproj.io/sync-options on the objects, which agents read")
	case option == "Force=true":
		a.policy().Recreate = true
	case option == "Replace=true":
		policy.Note("syncOptions", migration.Differs, "Replace=true: agents apply on the server's side, and replace nothing; policy.recreate creates an object again where a field cannot change")
	case option == "Delete=false":
		a.deletion().Detach = true
	case option == "ServerSideApply=false":
		policy.Note("syncOptions", migration.Differs, "ServerSideApply=false: agents always apply on the server's side")
	case option == "Validate=false":
		policy.Note("syncOptions", migration.Differs, "Validate=false: the API server validates what an agent applies")
	case name == "PrunePropagationPolicy":
		a.deletion().Propagation = propagation[strings.ToLower(value)]
	case !slices.Contains(always, option):
		policy.Note("syncOptions", migration.Differs, "the import does not know the option "+option)
	}
}

// ignore reads spec.ignoreDifferences.
func (a *app) ignore() {
	for _, difference := range a.fields.Parts("ignoreDifferences") {
		of := &typev1.ObjectSelector{
			Group: difference.Text("group"), Kind: difference.Text("kind"), Namespace: difference.Text("namespace"), Name: difference.Text("name"),
		}
		switch of.GetGroup() {
		case "*":
			of.Group = ""
		case "":
			of.Group = "core"
		}
		if of.GetKind() == "*" {
			of.Kind = ""
		}
		if proto.Size(of) == 0 {
			of = nil
		}
		rule := &typev1.IgnoreRule{
			Objects: of, Pointers: difference.Texts("jsonPointers"), Managers: difference.Texts("managedFieldsManagers"),
		}
		difference.Without(migration.Differs, "write it as pointers or managers in policy.ignore, which has no jq", "jqPathExpressions")
		if len(rule.GetPointers())+len(rule.GetManagers()) > 0 {
			a.policy().Ignore = append(a.policy().GetIgnore(), rule)
		}
	}
	if a.spec.GetPolicy().GetIgnore() != nil && !slices.Contains(a.fields.Part("syncPolicy").Texts("syncOptions"), "RespectIgnoreDifferences=true") {
		a.fields.Note("ignoreDifferences", migration.Differs, "Leat leaves these fields to others when it applies a change, too")
	}
}

// windows sets the windows of the project that are the Application's.
func (a *app) windows() {
	for _, w := range a.project.windows {
		if w.covers(a.name, a.fields.Part("destination")) {
			a.policy().Windows = append(a.policy().GetWindows(), &typev1.SyncWindow{
				Schedule: w.schedule, Duration: durationpb.New(w.duration), TimeZone: w.timeZone, Deny: w.isDenying, Strict: !w.allowsManual,
			})
		}
	}
}
