// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/inventory"
)

func TestWishOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		annotations map[string]string
		want        inventory.Wish
	}{
		"none":               {nil, inventory.NoWish},
		"ours, disabled":     {map[string]string{"leat.dev/prune": "disabled"}, inventory.Keep},
		"ours, enabled":      {map[string]string{"leat.dev/prune": "enabled"}, inventory.Permit},
		"ours, nonsense":     {map[string]string{"leat.dev/prune": "perhaps"}, inventory.NoWish},
		"Helm":               {map[string]string{"helm.sh/resource-policy": " Keep"}, inventory.Keep},
		"Helm, other":        {map[string]string{"helm.sh/resource-policy": "delete"}, inventory.NoWish},
		"Flux":               {map[string]string{"kustomize.toolkit.fluxcd.io/prune": "Disabled"}, inventory.Keep},
		"Flux, enabled":      {map[string]string{"kustomize.toolkit.fluxcd.io/prune": "enabled"}, inventory.NoWish},
		"Argo CD, prune":     {map[string]string{"argocd.argoproj.io/sync-options": "Prune=false"}, inventory.Keep},
		"Argo CD, delete":    {map[string]string{"argocd.argoproj.io/sync-options": "Replace=true, Delete=false"}, inventory.Keep},
		"Argo CD, confirm":   {map[string]string{"argocd.argoproj.io/sync-options": "Delete=confirm"}, inventory.Keep},
		"ours, options":      {map[string]string{"leat.dev/sync-options": "Recreate=true,Prune=false"}, inventory.Keep},
		"Argo CD, true":      {map[string]string{"argocd.argoproj.io/sync-options": "Prune=true,Validate=false"}, inventory.NoWish},
		"keeping outweighs":  {map[string]string{"leat.dev/prune": "enabled", "helm.sh/resource-policy": "keep"}, inventory.Keep},
		"other's annotation": {map[string]string{"example.test/prune": "disabled"}, inventory.NoWish},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := inventory.WishOf(test.annotations); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	if got := inventory.Permit.And(inventory.Keep).And(inventory.NoWish); got != inventory.Keep {
		t.Errorf("got %v, want the wish to keep to last", got)
	}
	if got := inventory.NoWish.And(inventory.Permit); got != inventory.Permit {
		t.Errorf("got %v, want the only wish", got)
	}
}

func TestDeletable(t *testing.T) {
	t.Parallel()
	namespace, claim := inventory.Key{Kind: "Namespace", Name: "n"}, inventory.Key{Kind: "PersistentVolumeClaim", Name: "c"}
	definition := inventory.Key{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: "d"}
	other := inventory.Key{Group: "x.test", Kind: "Namespace", Name: "n"}
	all := syncpolicy.Deletion{Namespaces: true, Definitions: true, VolumeClaims: true}
	for name, test := range map[string]struct {
		key     inventory.Key
		wish    inventory.Wish
		allowed syncpolicy.Deletion
		want    bool
	}{
		"any":                         {other, inventory.NoWish, syncpolicy.Deletion{}, true},
		"any, kept":                   {other, inventory.Keep, all, false},
		"namespace":                   {namespace, inventory.NoWish, syncpolicy.Deletion{Definitions: true, VolumeClaims: true}, false},
		"namespace, allowed":          {namespace, inventory.NoWish, syncpolicy.Deletion{Namespaces: true}, true},
		"namespace, permitted":        {namespace, inventory.Permit, syncpolicy.Deletion{}, true},
		"namespace, allowed, kept":    {namespace, inventory.Keep, all, false},
		"definition":                  {definition, inventory.NoWish, syncpolicy.Deletion{Namespaces: true, VolumeClaims: true}, false},
		"definition, allowed":         {definition, inventory.NoWish, syncpolicy.Deletion{Definitions: true}, true},
		"volume claim":                {claim, inventory.NoWish, syncpolicy.Deletion{Namespaces: true, Definitions: true}, false},
		"volume claim, allowed":       {claim, inventory.NoWish, syncpolicy.Deletion{VolumeClaims: true}, true},
		"volume claim, allowed, kept": {claim, inventory.Keep, all, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := inventory.Deletable(test.key, test.wish, test.allowed); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestReversed(t *testing.T) {
	t.Parallel()
	in := func(wave int, group, kind, name string) inventory.Object {
		return inventory.Object{Ref: inventory.Ref{Key: inventory.Key{Group: group, Kind: kind, Name: name}}, Wave: wave}
	}
	got := inventory.Reversed([]inventory.Object{
		in(0, "", "Namespace", "web"), in(-1, "apiextensions.k8s.io", "CustomResourceDefinition", "mills"), in(1, "", "Secret", "key"),
		in(1, "", "ConfigMap", "settings"), in(2, "apps", "Deployment", "late"), in(1, "apps", "Deployment", "front"), in(1, "", "Service", "front"),
		in(9, "", "Namespace", "other"), in(1, "x.test", "Mill", "wind"), in(1, "", "PersistentVolumeClaim", "data"), in(1, "", "ServiceAccount", "front"),
		in(3, "admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "hook"),
	})
	want := [][][]string{
		{{"hook"}},
		{{"late"}},
		{{"Service front"}, {"Deployment front"}, {"wind"}, {"ServiceAccount front"}, {"data"}, {"settings", "key"}},
		{{"mills"}},
		{{"other", "web"}},
	}
	var names [][][]string
	for _, wave := range got {
		var groups [][]string
		for _, group := range wave {
			var members []string
			for _, o := range group {
				name := o.Name
				if name == "front" {
					name = o.Kind + " " + name
				}
				members = append(members, name)
			}
			groups = append(groups, members)
		}
		names = append(names, groups)
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("waves (-want +got):\n%s", diff)
	}
}
