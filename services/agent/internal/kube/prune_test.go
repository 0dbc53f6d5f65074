// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// TestPrune runs one engine on a control plane with controllers: the garbage collector and the
// namespace controller affect when objects are deleted.
func TestPrune(t *testing.T) {
	t.Parallel()
	c := startCluster(t, func(p *localkube.Params) { p.Nodes = 1 })
	for i := range 60 { // so that scenarios that end together are few of all services
		c.put(t, fmt.Sprintf("ballast-%d", i), map[string]string{"a.yaml": configMap("a", "1")}, plan.Spec{Paused: true})
	}
	scenarios := map[string]func(*scenario){}
	for _, some := range []map[string]func(*scenario){
		pruneScenarios(), optOutScenarios(), protectionScenarios(), containerScenarios(), guardScenarios(), goneScenarios(), propagationScenarios(),
		removalScenarios(), ownershipScenarios(), strangerScenarios(),
	} {
		maps.Copy(scenarios, some)
	}
	concurrently(t, c, scenarios)
}

// label returns the service in an object's label.
func (s *scenario) label(kind, name string) string {
	s.t.Helper()
	label, _ := at(s.get(kind, name), "metadata", "labels", k8s.ServiceLabel).(string)
	return label
}

// released checks that an object exists, and is no longer Leat's.
func (s *scenario) released(kind, name string) {
	s.t.Helper()
	s.present(kind + "/" + name)
	if got := s.label(kind, name); got != "" {
		s.t.Errorf("%s %s: got label %q, want none", kind, name, got)
	}
}

func pruneScenarios() map[string]func(*scenario) {
	return map[string]func(*scenario){
		"what left goes": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), config("b", "1")))
			s.healthy(s.sync(config("a", "1")))
			s.present("ConfigMap/a")
			s.absent("ConfigMap/b")
		},
		"without pruning it stays": func(s *scenario) {
			s.spec.Prune = new(false)
			s.healthy(s.sync(config("a", "1"), config("b", "1")))
			s.healthy(s.sync(config("a", "1")))
			s.released("ConfigMap", "b")
		},
		"what was let go is not pruned later": func(s *scenario) {
			s.spec.Prune = new(false)
			s.healthy(s.sync(config("a", "1"), config("b", "1")))
			s.healthy(s.sync(config("a", "1")))
			s.spec.Prune = new(true)
			s.healthy(s.sync(config("a", "2")))
			s.released("ConfigMap", "b")
		},
		"what was let go is taken back": func(s *scenario) {
			s.spec.Prune = new(false)
			s.healthy(s.sync(config("a", "1"), config("b", "1")))
			uid := s.uid("ConfigMap", "b")
			s.healthy(s.sync(config("a", "1")))
			s.healthy(s.sync(config("a", "1"), config("b", "2")))
			if got := s.uid("ConfigMap", "b"); got != uid || s.label("ConfigMap", "b") != s.name {
				s.t.Errorf("got uid %s, want the same object, %s, with the label", got, uid)
			}
		},
		"manifests that cannot be read prune nothing": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), config("b", "1")))
			s.fails(s.sync(config("a", "1"), "kind: ["), reason.ManifestInvalid)
			s.present("ConfigMap/a", "ConfigMap/b")
		},
		"a run that fails prunes nothing": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), config("b", "1")))
			s.fails(s.sync(config("a", "1"), manifest("v1", "Service", "c", map[string]any{"spec": map[string]any{"porst": 1}})), reason.ApplyRejected)
			s.present("ConfigMap/b")
		},
		"a bundle that cannot be had prunes nothing": func(s *scenario) {
			lost := s.sync(config("a", "1"), config("b", "1"))
			s.healthy(lost)
			lost.Bundles = []plan.Bundle{{Digest: digest.FromBytes([]byte("nobody has it"))}}
			s.fails(s.again(lost, "lost"), reason.BundleUnavailable)
			s.present("ConfigMap/a", "ConfigMap/b")
		},
	}
}

// optOuts are the annotations that keep an object.
func optOuts() map[string]string {
	return map[string]string{
		"leat": "leat.dev/prune=disabled", "leat-options": "leat.dev/sync-options=Prune=false", "helm": "helm.sh/resource-policy=keep",
		"flux": "kustomize.toolkit.fluxcd.io/prune=disabled", "argo-prune": "argocd.argoproj.io/sync-options=Prune=false",
		"argo-delete": "argocd.argoproj.io/sync-options=Delete=false", "argo-confirm": "argocd.argoproj.io/sync-options=Prune=confirm",
	}
}

func optOutScenarios() map[string]func(*scenario) {
	all := map[string]func(*scenario){
		"an opt-out that was taken off the live object": func(s *scenario) {
			s.spec.Policy.Drift = syncpolicy.DriftOff
			s.healthy(s.sync(config("a", "1"), config("b", "1", "leat.dev/prune=disabled")))
			s.change("ConfigMap", "b", `{"metadata":{"annotations":{"leat.dev/prune":null}}}`)
			s.healthy(s.sync(config("a", "1")))
			s.released("ConfigMap", "b")
		},
		"an opt-out that left the manifest": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), config("b", "1", "leat.dev/prune=disabled")))
			s.healthy(s.sync(config("a", "1"), config("b", "1")))
			s.healthy(s.sync(config("a", "1")))
			s.absent("ConfigMap/b")
		},
	}
	for name, annotation := range optOuts() {
		all["opt-out in manifest "+name] = func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), config("b", "1", annotation)))
			s.healthy(s.sync(config("a", "1")))
			s.released("ConfigMap", "b")
		}
		all["opt-out on live object "+name] = func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), config("b", "1")))
			key, value, _ := strings.Cut(annotation, "=")
			s.change("ConfigMap", "b", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value))
			s.healthy(s.sync(config("a", "1")))
			s.released("ConfigMap", "b")
		}
	}
	return all
}

func claim(name string, annotations ...string) string {
	return manifest("v1", "PersistentVolumeClaim", name, map[string]any{"spec": map[string]any{
		"accessModes": []any{"ReadWriteOnce"}, "storageClassName": "", "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}},
	}}, annotations...)
}

// prunedClaim removes a claim that waits for a volume, which this cluster cannot provide.
func (s *scenario) prunedClaim(annotations ...string) {
	s.t.Helper()
	first := s.sync(config("a", "1"), claim("data", annotations...))
	s.await(s.t, s.name, func(got report.Status) bool { return got.Applied.SpecDigest == first.SpecDigest })
	s.healthy(s.sync(config("a", "2")))
}

func protectionScenarios() map[string]func(*scenario) {
	return map[string]func(*scenario){
		"a volume claim stays": func(s *scenario) {
			s.prunedClaim()
			s.released("PersistentVolumeClaim", "data")
		},
		"a volume claim goes where the policy allows it": func(s *scenario) {
			s.spec.Policy.Deletion.VolumeClaims = true
			s.prunedClaim()
			s.absent("PersistentVolumeClaim/data")
		},
		"a volume claim goes where it says so itself": func(s *scenario) {
			s.prunedClaim("leat.dev/prune=enabled")
			s.absent("PersistentVolumeClaim/data")
		},
		"an opt-out outweighs the policy": func(s *scenario) {
			s.spec.Policy.Deletion.VolumeClaims = true
			s.prunedClaim("helm.sh/resource-policy=keep")
			s.released("PersistentVolumeClaim", "data")
		},
		"a volume claim stays when the service goes": func(s *scenario) {
			first := s.sync(config("a", "1"), claim("data"))
			s.await(s.t, s.name, func(got report.Status) bool { return got.Applied.SpecDigest == first.SpecDigest })
			s.drop(s.name)
			s.gone(s.t, s.name)
			s.released("PersistentVolumeClaim", "data")
			s.absent("ConfigMap/a")
		},
	}
}

func (s *scenario) extra() string { return "/api/v1/namespaces/" + s.name + "-extra" }

// extraNamespace is the manifest of a namespace besides the scenario's own.
func (s *scenario) extraNamespace(annotations ...string) string {
	return manifest("v1", "Namespace", s.name+"-extra", map[string]any{}, annotations...)
}

// leaves waits until nothing exists at a path.
func (s *scenario) leaves(path string) {
	s.t.Helper()
	if status, _ := s.request(s.t, http.MethodGet, path, "", ""); status != http.StatusNotFound {
		s.t.Errorf("%s: got %d, want 404", path, status)
	}
}

func containerScenarios() map[string]func(*scenario) {
	return map[string]func(*scenario){
		"a namespace stays": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), s.extraNamespace()))
			s.healthy(s.sync(config("a", "1")))
			s.mustExist(s.t, s.extra())
		},
		"a namespace goes where the policy allows it": func(s *scenario) {
			s.spec.Policy.Deletion.Namespaces = true
			s.healthy(s.sync(config("a", "1"), s.extraNamespace()))
			s.healthy(s.sync(config("a", "1")))
			s.leaves(s.extra())
		},
		"a namespace goes where it says so itself": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), s.extraNamespace("leat.dev/prune=enabled")))
			s.healthy(s.sync(config("a", "1")))
			s.leaves(s.extra())
		},
		"a namespace goes after what the service has in it": func(s *scenario) {
			s.spec.Policy.Deletion.Namespaces = true
			inside := strings.Replace(config("inside", "1"), `"name":"inside"`, fmt.Sprintf(`"name":"inside","namespace":"%s-extra"`, s.name), 1)
			s.healthy(s.sync(config("a", "1"), s.extraNamespace(), inside))
			s.healthy(s.sync(config("a", "1")))
			s.leaves(s.extra())
		},
		"a namespace stays while somebody has something in it": func(s *scenario) {
			s.spec.Policy.Deletion.Namespaces = true
			s.healthy(s.sync(config("a", "1"), s.extraNamespace()))
			s.request(s.t, http.MethodPost, s.extra()+"/configmaps", "application/json", config("theirs", "1"))
			service := s.sync(config("a", "1"))
			s.fails(service, reason.ApplyRejected, "ConfigMap "+s.name+"-extra/theirs")
			s.mustExist(s.t, s.extra(), s.extra()+"/configmaps/theirs")
			s.request(s.t, http.MethodDelete, s.extra()+"/configmaps/theirs", "", "")
			s.healthy(service)
			s.leaves(s.extra())
		},
		"a definition stays": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), windmills(s.name)))
			s.healthy(s.sync(config("a", "1")))
			s.mustExist(s.t, millsPath(s.name))
		},
		"a definition goes after its objects": func(s *scenario) {
			s.spec.Policy.Deletion.Definitions = true
			s.healthy(s.sync(config("a", "1"), windmills(s.name), windmill(s.name)))
			s.healthy(s.sync(config("a", "1")))
			s.leaves(millsPath(s.name))
		},
		"a definition stays while somebody has an object of it": func(s *scenario) {
			s.spec.Policy.Deletion.Definitions = true
			s.healthy(s.sync(config("a", "1"), windmills(s.name)))
			path := "/apis/" + s.name + ".test/v1/namespaces/" + s.name + "/mills"
			if status, o := s.request(s.t, http.MethodPost, path, "application/json", windmill(s.name)); status != http.StatusCreated {
				s.t.Fatalf("create mill: got %d %v", status, o["message"])
			}
			service := s.sync(config("a", "1"))
			s.fails(service, reason.ApplyRejected, "wind")
			s.mustExist(s.t, millsPath(s.name), path+"/wind")
			s.request(s.t, http.MethodDelete, path+"/wind", "", "")
			s.healthy(service)
			s.leaves(millsPath(s.name))
		},
		"objects of a kind that is gone are gone": func(s *scenario) {
			s.spec.Policy.Drift = syncpolicy.DriftOff
			s.healthy(s.sync(config("a", "1"), windmills(s.name), windmill(s.name)))
			s.request(s.t, http.MethodDelete, millsPath(s.name), "", "")
			s.healthy(s.sync(config("a", "1")))
		},
	}
}

func windmills(group string) string {
	return manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", "mills."+group+".test", map[string]any{"spec": map[string]any{
		"group": group + ".test", "scope": "Namespaced", "names": map[string]any{"kind": "Mill", "plural": "mills"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{
			"type": "object", "x-kubernetes-preserve-unknown-fields": true,
		}}}},
	}})
}

func millsPath(group string) string {
	return "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/mills." + group + ".test"
}

func windmill(group string) string {
	return manifest(group+".test/v1", "Mill", "wind", map[string]any{"spec": map[string]any{"blades": 4}})
}

func guardScenarios() map[string]func(*scenario) {
	return map[string]func(*scenario){
		"many objects are kept": func(s *scenario) {
			s.healthy(s.sync(configs(10)...))
			got := s.fails(s.sync(configs(1)...), reason.PruneGuarded, "9 of 10", "leat prune confirm")
			if len(got.Guarded.Objects) != 9 || !strings.Contains(got.Problem.Message, got.Guarded.Digest) {
				s.t.Errorf("guarded: got %+v, want nine objects, and a digest that the message holds", got.Guarded)
			}
			s.present("ConfigMap/c0", "ConfigMap/c9")
		},
		"few objects go": func(s *scenario) {
			s.healthy(s.sync(configs(5)...))
			s.healthy(s.sync(configs(1)...))
			s.absent("ConfigMap/c1", "ConfigMap/c4")
		},
		"a third of many goes not, a quarter does": func(s *scenario) {
			s.healthy(s.sync(configs(20)...))
			s.healthy(s.sync(configs(15)...))
			s.absent("ConfigMap/c15")
			s.fails(s.sync(configs(10)...), reason.PruneGuarded)
			s.present("ConfigMap/c14")
		},
		"an emptied folder takes nothing along": func(s *scenario) {
			s.healthy(s.sync(config("only", "1")))
			s.fails(s.sync(), reason.PruneGuarded, "1 of 1")
			s.present("ConfigMap/only")
		},
		"an agreement lets exactly these go": func(s *scenario) {
			s.healthy(s.sync(configs(10)...))
			s.spec.PruneConfirmation = s.fails(s.sync(configs(2)...), reason.PruneGuarded).Guarded.Digest
			s.healthy(s.sync(configs(2)...))
			s.present("ConfigMap/c0", "ConfigMap/c1")
			s.absent("ConfigMap/c2", "ConfigMap/c9")
		},
		"an agreement counts for no other prune": func(s *scenario) {
			s.healthy(s.sync(configs(10)...))
			s.spec.PruneConfirmation = s.fails(s.sync(configs(2)...), reason.PruneGuarded).Guarded.Digest
			s.fails(s.sync(configs(1)...), reason.PruneGuarded, "9 of 10")
			s.present("ConfigMap/c1", "ConfigMap/c9")
		},
		"an agreement is used up": func(s *scenario) {
			s.healthy(s.sync(configs(10)...))
			s.spec.PruneConfirmation = s.fails(s.sync(configs(2)...), reason.PruneGuarded).Guarded.Digest
			s.healthy(s.sync(configs(2)...))
			s.healthy(s.sync(configs(10)...))
			s.fails(s.sync(configs(2)...), reason.PruneGuarded)
			s.present("ConfigMap/c2", "ConfigMap/c9")
		},
		"an agreement to nothing is harmless": func(s *scenario) {
			s.spec.PruneConfirmation = "sha256:" + strings.Repeat("0", 64)
			s.healthy(s.sync(configs(10)...))
			s.fails(s.sync(configs(2)...), reason.PruneGuarded)
			s.present("ConfigMap/c9")
		},
		"restored manifests end the question": func(s *scenario) {
			s.healthy(s.sync(configs(10)...))
			s.fails(s.sync(configs(1)...), reason.PruneGuarded)
			if got := s.healthy(s.sync(configs(10)...)); got.Guarded.Digest != "" {
				s.t.Errorf("guarded: got %+v, want nothing", got.Guarded)
			}
		},
		"protected objects count": func(s *scenario) {
			var manifests []string
			for i := range 6 {
				manifests = append(manifests, config(fmt.Sprint("k", i), "1", "leat.dev/prune=disabled"))
			}
			s.healthy(s.sync(append(manifests, config("a", "1"))...))
			s.fails(s.sync(config("a", "1")), reason.PruneGuarded, "6 of 7")
			if got := s.label("ConfigMap", "k0"); got != s.name {
				s.t.Errorf("label: got %q, want that of the service still", got)
			}
		},
		"without pruning nobody is asked": func(s *scenario) {
			s.spec.Prune = new(false)
			s.healthy(s.sync(configs(10)...))
			s.healthy(s.sync(configs(1)...))
			s.released("ConfigMap", "c9")
		},
	}
}

func configs(n int) []string {
	var all []string
	for i := range n {
		all = append(all, config(fmt.Sprint("c", i), "1"))
	}
	return all
}

const deletionPatience = 2 * time.Second
