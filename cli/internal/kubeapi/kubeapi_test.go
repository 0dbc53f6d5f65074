// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeapi_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/cli/internal/kubeapi"
)

func TestVersions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]kubeapi.Version{
		"1.36": {Major: 1, Minor: 36}, "v1.9": {Major: 1, Minor: 9}, "v1.36.1": {Major: 1, Minor: 36}, "v1.31.2-eks-a18cd3a": {Major: 1, Minor: 31},
		"1.30.1+k3s1": {Major: 1, Minor: 30}, "": {}, "1": {}, "1.x": {}, "latest": {}, "1.99999": {}, "1.36 ": {},
	} {
		got, err := kubeapi.ParseVersion(text)
		if got != want || (err != nil) != want.IsZero() {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
}

// TestNewestIsWhatIsLinked compares with the module that brings the types.
func TestNewestIsWhatIsLinked(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	linked := regexp.MustCompile(`k8s\.io/client-go v0\.(\d+)\.`).FindSubmatch(text)
	if linked == nil || fmt.Sprintf("1.%s", linked[1]) != kubeapi.Newest.String() {
		t.Errorf("got client-go v0.%s in go.mod, want Newest %s to be its version", linked, kubeapi.Newest)
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		group, version, kind, at string
		want                     kubeapi.State
	}{
		{"apps", "v1", "Deployment", "1.36", kubeapi.Served},
		{"", "v1", "ConfigMap", "1.36", kubeapi.Served},
		{"", "v1", "Endpoints", "1.36", kubeapi.Deprecated},
		{"extensions", "v1beta1", "Ingress", "1.21", kubeapi.Deprecated},
		{"extensions", "v1beta1", "Ingress", "1.22", kubeapi.Removed},
		{"policy", "v1beta1", "PodDisruptionBudget", "1.24", kubeapi.Deprecated},
		{"policy", "v1beta1", "PodDisruptionBudget", "1.25", kubeapi.Removed},
		{"policy", "v1beta1", "PodSecurityPolicy", "1.36", kubeapi.Removed},
		{"autoscaling", "v2beta2", "HorizontalPodAutoscaler", "1.26", kubeapi.Removed},
		{"batch", "v1", "CronJob", "1.20", kubeapi.Future},
		{"batch", "v1", "CronJob", "1.21", kubeapi.Served},
		{"batch", "v1beta1", "CronJob", "1.21", kubeapi.Deprecated},
		{"apiextensions.k8s.io", "v1", "CustomResourceDefinition", "1.36", kubeapi.Served},
		{"apiextensions.k8s.io", "v1beta1", "CustomResourceDefinition", "1.36", kubeapi.Removed},
		{"storagemigration.k8s.io", "v1beta1", "StorageVersionMigration", "1.36", kubeapi.Optional},
		{"apps", "v1", "Deploymint", "1.36", kubeapi.Absent},
		{"apps", "v3", "Deployment", "1.36", kubeapi.Absent},
		{"apps", "v3", "Deployment", "1.99", kubeapi.Unknown},
		{"cert-manager.io", "v1", "Certificate", "1.36", kubeapi.Unknown},
		{"gateway.networking.k8s.io", "v1", "Gateway", "1.36", kubeapi.Unknown},
	} {
		at, err := kubeapi.ParseVersion(test.at)
		if err != nil {
			t.Fatal(err)
		}
		gvk := schema.GroupVersionKind{Group: test.group, Version: test.version, Kind: test.kind}
		if got := kubeapi.Look(gvk, at); got.State != test.want {
			t.Errorf("%v in %s: got %+v, want state %d", gvk, test.at, got, test.want)
		}
	}
	gvk := schema.GroupVersionKind{Group: "extensions", Version: "v1beta1", Kind: "Ingress"}
	if got := kubeapi.Look(gvk, kubeapi.Newest); got.Replacement.String() != "networking.k8s.io/v1, Kind=Ingress" || got.Removed.String() != "1.22" {
		t.Errorf("got %+v, want what replaces it and since when", got)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	old, recent := kubeapi.Names(kubeapi.Version{Major: 1, Minor: 24}), kubeapi.Names(kubeapi.Newest)
	for name, want := range map[string][2]bool{
		"apps/v1": {true, true}, "apps/v1/Deployment": {true, true}, "v1/ConfigMap": {true, true}, "apiextensions.k8s.io/v1/CustomResourceDefinition": {true, true},
		"policy/v1beta1/PodDisruptionBudget": {true, false}, "autoscaling/v2beta2": {true, false},
		"storagemigration.k8s.io/v1beta1": {false, false}, "v1/PodList": {false, false}, "v1/ListOptions": {false, false},
	} {
		if got := [2]bool{slices.Contains(old, name), slices.Contains(recent, name)}; got != want {
			t.Errorf("%s: got %v in 1.24 and %s, want %v", name, got, kubeapi.Newest, want)
		}
	}
	if !slices.IsSorted(recent) {
		t.Error("got names in another order, want them sorted")
	}
}
