// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package argocd translates the objects of Argo CD: an Application becomes a service, an ApplicationSet over clusters a
// global service, an AppProject a project, and every upstream that they name a repository.
//
// The meaning of fields is that of https://argo-cd.readthedocs.io/en/stable/user-guide/application-specification/ and
// of the pages about ApplicationSets, projects and declarative setup.
package argocd

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/cli/internal/migration"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// kinds are the kinds of Argo CD's own API.
var kinds = []string{"AppProject", "Application", "ApplicationSet"}

// Tool knows the objects of Argo CD.
func Tool() migration.Tool {
	return migration.Tool{Marks: []string{group}, Wants: func(o *unstructured.Unstructured) bool {
		kind := o.GroupVersionKind().GroupKind()
		switch kind.Group {
		case group:
			return slices.Contains(kinds, kind.Kind)
		case "":
			return kind.Kind == "Secret" && o.GetLabels()[secretType] != ""
		default:
			return false
		}
	}}
}

// Kinds are the kinds to list in a cluster.
func Kinds() []migration.Kind {
	found := []migration.Kind{{GroupKind: schema.GroupKind{Kind: "Secret"}, Selector: secretType}}
	for _, kind := range kinds {
		found = append(found, migration.Kind{GroupKind: schema.GroupKind{Group: group, Kind: kind}})
	}
	return found
}

// Translate translates objects.
func Translate(objects []migration.Object, settings migration.Settings) migration.Result {
	f := &fleet{
		settings: settings, projects: map[string]*project{}, services: map[string]*migration.Services{}, sets: map[string][]*fleetv1.Document{},
		servers: map[string]string{inClusterURL: "", inCluster: ""},
	}
	// Applications refer to clusters by what these Secrets say, and to projects whose windows are theirs.
	for _, o := range objects {
		switch {
		case o.Kind == "Secret" && o.Labels[secretType] == "cluster":
			data := secretData(o)
			f.servers[strings.TrimRight(data["server"], "/")] = data["name"]
		case o.Kind == "AppProject":
			p := f.project(o.Name)
			p.windows = append(p.windows, windowsOf(o)...)
		}
	}
	for _, o := range objects {
		if o.Kind != "AppProject" || settings.Project != "" {
			continue
		}
		if p := f.project(o.Name); p.name != "" && p.limits == nil {
			p.limits = limitsOf(o, f)
		}
	}
	f.applied = appliedBy(objects)
	// Sets come before the Applications that they have made.
	result := migration.Result{Entries: make([]migration.Entry, len(objects))}
	for _, areApplications := range []bool{false, true} {
		for i, o := range objects {
			if (o.Kind == "Application") == areApplications {
				result.Entries[i] = translate(o, f)
			}
		}
	}
	for _, name := range f.order {
		result.Documents = append(result.Documents, f.projects[name].documents...)
	}
	result.Documents = append(result.Documents, f.clusters...)
	for _, name := range f.order {
		result.Documents = append(result.Documents, f.projects[name].upstreams()...)
	}
	result.Documents = append(result.Documents, f.delivered...)
	return result
}

// appliedBy returns an object of Argo CD for each Application that delivers one, by its name, and for each folder that holds
// one.
func appliedBy(objects []migration.Object) map[string]string {
	applied := map[string]string{}
	var found []migration.Object
	var folders []string
	for _, o := range objects {
		if o.Group != group {
			continue
		}
		found = append(found, o)
		spec := o.Fields.Part("spec")
		for _, source := range append(spec.Parts("sources"), spec.Part("source")) {
			folders = append(folders, migration.Folder(source.Text("path")))
		}
		// Argo CD marks what an Application has applied by a label, or by NAME:GROUP/KIND:NAMESPACE/NAME.
		tracked, _, _ := strings.Cut(o.Annotations["argocd.argoproj.io/tracking-id"], ":")
		if by := cmp.Or(tracked, o.Labels["app.kubernetes.io/instance"]); by != "" && applied["/"+by] == "" && by != o.Name {
			applied["/"+by] = o.String()
		}
	}
	maps.Copy(applied, migration.FoldersWith(found, folders))
	return applied
}

func translate(o migration.Object, f *fleet) migration.Entry {
	switch o.Kind {
	case "Application":
		return application(o, f)
	case "ApplicationSet":
		return applicationSet(o, f)
	case "AppProject":
		return appProject(o, f)
	default:
		return secret(o, f)
	}
}
