// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package order_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/order"
)

// object returns an object of "kind.group/name"; annotations are "key=value".
func object(what string, annotations ...string) *unstructured.Unstructured {
	kind, name, _ := strings.Cut(what, "/")
	kind, group, found := strings.Cut(kind, ".")
	version := "v1"
	if found {
		version = group + "/v1"
	}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind}}
	o.SetName(name)
	set := map[string]string{}
	for _, a := range annotations {
		key, value, _ := strings.Cut(a, "=")
		set[key] = value
	}
	if len(set) > 0 {
		o.SetAnnotations(set)
	}
	return o
}

// text prints a schedule with a line for each stage. It marks hooks by a star and their deletion,
// separates ranks by a bar, and marks strict ones.
func text(s order.Schedule) []string {
	var lines []string
	for _, stage := range s.Stages {
		var ranks []string
		for _, rank := range stage.Ranks() {
			var names []string
			for _, m := range rank.Members {
				name := m.Object.GetName() + m.Object.GetGenerateName()
				if m.Hook {
					name += fmt.Sprintf("*%d", m.Deletion)
				}
				names = append(names, name)
			}
			if rank.Strict {
				names = append([]string{"!"}, names...)
			}
			ranks = append(ranks, strings.Join(names, " "))
		}
		line := fmt.Sprintf("%s %d: %s", stage.Phase, stage.Wave, strings.Join(ranks, " | "))
		if stage.Awaited {
			line += " ..."
		}
		lines = append(lines, line)
	}
	if len(s.Skipped) > 0 {
		lines = append(lines, fmt.Sprintf("skipped: %d", len(s.Skipped)))
	}
	return lines
}

func TestNew(t *testing.T) {
	t.Parallel()
	const definition = "CustomResourceDefinition.apiextensions.k8s.io/crd"
	for name, test := range map[string]struct {
		objects []*unstructured.Unstructured
		later   bool // not the first sync
		want    []string
	}{
		"nothing":      {},
		"plain object": {objects: []*unstructured.Unstructured{object("ConfigMap/a")}, want: []string{"Sync 0: a"}},
		"kinds": {
			objects: []*unstructured.Unstructured{
				object("ValidatingWebhookConfiguration.admissionregistration.k8s.io/hook"), object("Deployment.apps/web"), object("Secret/s"),
				object("ConfigMap/c"), object("Role.rbac.authorization.k8s.io/r"), object("Mill.example.test/m"), object("Namespace/n"), object(definition),
			},
			want: []string{"Foundation 0: n crd", "Sync 0: c s r | web m | ! hook"},
		},
		"waves": {
			objects: []*unstructured.Unstructured{object("ConfigMap/z", "leat.dev/wave=10"), object("ConfigMap/y"), object("ConfigMap/x", "leat.dev/wave=-2")},
			want:    []string{"Sync -2: x ...", "Sync 0: y ...", "Sync 10: z"},
		},
		"Argo waves": {
			objects: []*unstructured.Unstructured{object("ConfigMap/z", "argocd.argoproj.io/sync-wave=5"), object("ConfigMap/y", "argocd.argoproj.io/sync-wave=-5")},
			want:    []string{"Sync -5: y ...", "Sync 5: z"},
		},
		"Leat's wave before Argo's": {
			objects: []*unstructured.Unstructured{object("ConfigMap/a", "argocd.argoproj.io/sync-wave=5", "leat.dev/wave=1")},
			want:    []string{"Sync 1: a"},
		},
		"a namespace and a definition with a place of their own": {
			objects: []*unstructured.Unstructured{object("Namespace/n", "leat.dev/wave=1"), object(definition, "leat.dev/phase=Sync"), object("ConfigMap/a")},
			want:    []string{"Sync 0: crd | ! a ...", "Sync 1: n"},
		},
		"Leat's phases": {
			objects: []*unstructured.Unstructured{
				object("Job.batch/pre", "leat.dev/phase=PreSync"), object("Job.batch/post", "leat.dev/phase=PostSync"), object("Job.batch/fail", "leat.dev/phase=SyncFail"),
				object("Job.batch/test", "leat.dev/phase=Test"), object("Job.batch/gone", "leat.dev/phase=PostDelete"), object("Job.batch/bye", "leat.dev/phase=PreDelete"),
				object("Job.batch/sync", "leat.dev/phase=Sync"),
			},
			want: []string{"PreSync 0: pre*1 ...", "Sync 0: sync ...", "PostSync 0: post*1", "SyncFail 0: fail*1", "Test 0: test*1", "PreDelete 0: bye*1", "PostDelete 0: gone*1"},
		},
		"Leat's deletion": {
			objects: []*unstructured.Unstructured{object("Job.batch/a", "leat.dev/phase=PreSync", "leat.dev/hook-delete-policy=HookSucceeded, HookFailed")},
			want:    []string{"PreSync 0: a*6"},
		},
		"Argo hooks": {
			objects: []*unstructured.Unstructured{
				object("Job.batch/a", "argocd.argoproj.io/hook=PreSync", "argocd.argoproj.io/sync-wave=1"), object("Job.batch/b", "argocd.argoproj.io/hook=Sync"),
				object("Job.batch/c", "argocd.argoproj.io/hook=PostSync", "argocd.argoproj.io/hook-delete-policy=HookSucceeded"), object("Job.batch/d", "argocd.argoproj.io/hook=SyncFail"),
				object("Job.batch/e", "argocd.argoproj.io/hook=PreDelete"), object("Job.batch/f", "argocd.argoproj.io/hook=PostDelete"), object("Job.batch/g", "argocd.argoproj.io/hook=Skip"),
			},
			want: []string{"PreSync 1: a*1 ...", "Sync 0: b*1 ...", "PostSync 0: c*2", "SyncFail 0: d*1", "PreDelete 0: e*1", "PostDelete 0: f*1", "skipped: 1"},
		},
		"one Argo hook in two phases": {
			objects: []*unstructured.Unstructured{object("Job.batch/a", "argocd.argoproj.io/hook=PreSync, PostSync")},
			want:    []string{"PreSync 0: a*1 ...", "PostSync 0: a*1"},
		},
		"Helm hooks at the first sync": {
			objects: []*unstructured.Unstructured{
				object("Job.batch/install", "helm.sh/hook=pre-install", "helm.sh/hook-weight=-5"), object("Job.batch/upgrade", "helm.sh/hook=pre-upgrade"),
				object("Job.batch/both", "helm.sh/hook=pre-install,pre-upgrade"), object("Job.batch/post", "helm.sh/hook=post-install", "helm.sh/hook-delete-policy=hook-succeeded,before-hook-creation"),
				object("Job.batch/rollback", "helm.sh/hook=pre-rollback,post-rollback"), object("Pod/test", "helm.sh/hook=test-success"), object("Pod/test2", "helm.sh/hook=test"),
				object("Job.batch/bye", "helm.sh/hook=pre-delete"), object("Job.batch/gone", "helm.sh/hook=post-delete"),
			},
			want: []string{
				"PreSync -5: install*1 ...", "PreSync 0: both*1 ...", "PostSync 0: post*3", "Test 0: test*1 test2*1", "PreDelete 0: bye*1", "PostDelete 0: gone*1",
				"skipped: 2",
			},
		},
		"Helm hooks at a later sync": {
			later: true,
			objects: []*unstructured.Unstructured{
				object("Job.batch/install", "helm.sh/hook=pre-install,post-install"), object("Job.batch/upgrade", "helm.sh/hook=post-upgrade"),
				object("Job.batch/both", "helm.sh/hook=pre-install,pre-upgrade"),
			},
			want: []string{"PreSync 0: both*1 ...", "PostSync 0: upgrade*1", "skipped: 1"},
		},
		"Helm's crd-install": {
			objects: []*unstructured.Unstructured{object(definition, "helm.sh/hook=crd-install"), object("Job.batch/a", "helm.sh/hook=pre-install")},
			want:    []string{"Foundation 0: crd", "PreSync 0: a*1"},
		},
		"a weight without a hook": {
			objects: []*unstructured.Unstructured{object("ConfigMap/a", "helm.sh/hook-weight=3")},
			want:    []string{"Sync 0: a"},
		},
		"Argo's hook before Helm's": {
			objects: []*unstructured.Unstructured{object("Job.batch/a", "helm.sh/hook=pre-install", "helm.sh/hook-weight=3", "argocd.argoproj.io/hook=PostSync",
				"helm.sh/hook-delete-policy=hook-failed", "argocd.argoproj.io/hook-delete-policy=HookSucceeded")},
			want: []string{"PostSync 3: a*2"},
		},
		"Leat makes a hook an ordinary object": {
			objects: []*unstructured.Unstructured{object("Job.batch/a", "argocd.argoproj.io/hook=PreSync", "argocd.argoproj.io/hook-delete-policy=HookSucceeded", "leat.dev/phase=Sync")},
			want:    []string{"Sync 0: a"},
		},
		"hooks of all kinds": {
			objects: []*unstructured.Unstructured{object("Job.batch/z", "helm.sh/hook=pre-install"), object("ServiceAccount/sa", "helm.sh/hook=pre-install")},
			want:    []string{"PreSync 0: sa*1 | z*1"},
		},
		"other annotations": {
			objects: []*unstructured.Unstructured{object("ConfigMap/a", "leat.dev/substitute=disabled", "argocd.argoproj.io/tracking-id=x", "meta.helm.sh/release-name=y", "argocd.argoproj.io/sync-options=Validate=false,ServerSideApply=true")},
			want:    []string{"Sync 0: a"},
		},
		"a definition in the wave of its objects": {
			objects: []*unstructured.Unstructured{mill("leat.dev/wave=2"), object("Mill.example.test/m", "leat.dev/wave=2")},
			want:    []string{"Sync 2: mills | ! m"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := order.New(test.objects, !test.later)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, text(s)); diff != "" {
				t.Errorf("schedule (-want +got):\n%s", diff)
			}
		})
	}
}

// mill returns the definition of the kind Mill.example.test.
func mill(annotations ...string) *unstructured.Unstructured {
	o := object("CustomResourceDefinition.apiextensions.k8s.io/mills", annotations...)
	o.Object["spec"] = map[string]any{"group": "example.test", "names": map[string]any{"kind": "Mill"}}
	return o
}

func TestErrors(t *testing.T) {
	t.Parallel()
	nameless := object("Job.batch/")
	nameless.SetGenerateName("migrate-")
	for name, test := range map[string]struct {
		objects []*unstructured.Unstructured
		want    []string // in the message
	}{
		"unknown phase":       {objects: one("leat.dev/phase=Before"), want: []string{"Job.batch a", "leat.dev/phase", `"Before"`, "PreSync, Sync"}},
		"several phases":      {objects: one("leat.dev/phase=PreSync,PostSync"), want: []string{"leat.dev/phase", "want one of"}},
		"empty phase":         {objects: one("leat.dev/phase="), want: []string{"leat.dev/phase"}},
		"unknown Argo hook":   {objects: one("argocd.argoproj.io/hook=PreSnyc"), want: []string{"argocd.argoproj.io/hook", `"PreSnyc"`}},
		"skipped and run":     {objects: one("argocd.argoproj.io/hook=Skip,PreSync"), want: []string{"Job.batch a", "argocd.argoproj.io/hook", "skipped"}},
		"unknown Helm hook":   {objects: one("helm.sh/hook=pre-instal"), want: []string{"helm.sh/hook", `"pre-instal"`}},
		"misplaced crd":       {objects: one("helm.sh/hook=crd-install"), want: []string{"helm.sh/hook", "definitions"}},
		"wave in words":       {objects: one("leat.dev/wave=first"), want: []string{"leat.dev/wave", "whole number"}},
		"wave with a point":   {objects: one("argocd.argoproj.io/sync-wave=1.5"), want: []string{"argocd.argoproj.io/sync-wave", `"1.5"`}},
		"huge wave":           {objects: one("leat.dev/wave=99999999999"), want: []string{"leat.dev/wave"}},
		"weight":              {objects: one("helm.sh/hook-weight=heavy"), want: []string{"helm.sh/hook-weight"}},
		"Leat's policy":       {objects: one("leat.dev/phase=PreSync", "leat.dev/hook-delete-policy=hook-succeeded"), want: []string{"leat.dev/hook-delete-policy", "HookSucceeded"}},
		"Argo's policy":       {objects: one("argocd.argoproj.io/hook=PreSync", "argocd.argoproj.io/hook-delete-policy=Never"), want: []string{"hook-delete-policy", `"Never"`}},
		"Helm's policy":       {objects: one("helm.sh/hook=test", "helm.sh/hook-delete-policy=HookFailed"), want: []string{"helm.sh/hook-delete-policy"}},
		"policy without hook": {objects: one("leat.dev/hook-delete-policy=HookFailed"), want: []string{"leat.dev/hook-delete-policy", "not a hook"}},
		"misspelt":            {objects: one("helm.sh/hook-weigth=1"), want: []string{"helm.sh/hook-weigth", "unknown"}},
		"misspelt by Leat":    {objects: one("leat.dev/waves=1"), want: []string{"leat.dev/waves", "unknown"}},
		"overruled and wrong": {objects: one("leat.dev/phase=PreSync", "helm.sh/hook=tomorrow"), want: []string{"helm.sh/hook"}},
		"unknown option":      {objects: one("argocd.argoproj.io/sync-options=Prune=false,Fast=true"), want: []string{"sync-options", `"Fast=true"`}},
		"unknown own option":  {objects: one("leat.dev/sync-options=Replace=true"), want: []string{"leat.dev/sync-options", `"Replace=true"`}},
		"recreate":            {objects: one("leat.dev/recreate=true"), want: []string{"leat.dev/recreate", "enabled or disabled"}},
		"resource policy":     {objects: one("helm.sh/resource-policy=delete"), want: []string{"helm.sh/resource-policy", "want keep"}},
		"no name":             {objects: []*unstructured.Unstructured{nameless}, want: []string{"migrate-*", "generateName", "metadata.name"}},
		"late definition": {
			objects: []*unstructured.Unstructured{mill("leat.dev/wave=1"), object("Mill.example.test/m")},
			want:    []string{"Mill.example.test m", "wave 0 of Sync", "wave 1 of Sync", "comes later"},
		},
		"hook before its definition": {
			objects: []*unstructured.Unstructured{mill("leat.dev/wave=0"), object("Mill.example.test/m", "leat.dev/phase=PreSync")},
			want:    []string{"Mill.example.test m", "PreSync"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := order.New(test.objects, true)
			if _, ok := errors.AsType[*order.Error](err); !ok {
				t.Fatalf("got %v, want an *order.Error", err)
			}
			for _, words := range test.want {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("got %q, want it to hold %q", err, words)
				}
			}
		})
	}
}

func one(annotations ...string) []*unstructured.Unstructured {
	return []*unstructured.Unstructured{object("Job.batch/a", annotations...)}
}

func TestRecreate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		annotations []string
		want        order.Choice
	}{
		"none":          {},
		"kept":          {annotations: []string{"helm.sh/resource-policy=keep"}},
		"options":       {annotations: []string{"argocd.argoproj.io/sync-options=Prune=false, Delete=confirm,Replace=true", "leat.dev/sync-options=Prune=false"}},
		"force":         {annotations: []string{"argocd.argoproj.io/sync-options=Force=true,Replace=true"}, want: order.Yes},
		"recreate":      {annotations: []string{"leat.dev/recreate=enabled"}, want: order.Yes},
		"not recreate":  {annotations: []string{"argocd.argoproj.io/sync-options=Force=true", "leat.dev/recreate=disabled"}, want: order.No},
		"replace alone": {annotations: []string{"argocd.argoproj.io/sync-options=Replace=true"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := order.Recreate(object("Job.batch/a", test.annotations...))
			if err != nil || got != test.want {
				t.Errorf("got %d, %v, want %d", got, err, test.want)
			}
		})
	}
	for annotation, want := range map[string]bool{"": false, "leat.dev/update=enabled": false, "leat.dev/update=disabled": true} {
		o := object("ConfigMap/a")
		if annotation != "" {
			o = object("ConfigMap/a", annotation)
		}
		if _, err := order.New([]*unstructured.Unstructured{o}, true); err != nil || order.IsCreatedOnly(o) != want {
			t.Errorf("%q: got %t, %v, want %t", annotation, order.IsCreatedOnly(o), err, want)
		}
	}
	for choice, want := range map[order.Choice][2]bool{order.Unsaid: {false, true}, order.Yes: {true, true}, order.No: {false, false}} {
		if got := [2]bool{choice.Or(false), choice.Or(true)}; got != want {
			t.Errorf("choice %d: got %v, want %v", choice, got, want)
		}
	}
}
