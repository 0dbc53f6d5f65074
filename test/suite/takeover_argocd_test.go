// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/program"
	"github.com/leatdev/leat/internal/testkit/redistest"
)

// argoCD is the application controller and the repository server of Argo CD.
type argoCD struct {
	o       *takeover
	built   string // of tools/argocd
	home    string // of its processes, with the kubeconfig and kustomize
	cache   string // the address of a Redis
	running []*program.Program
}

// TestSlowTakeoverFromArgoCD takes services over from the controllers of Argo CD, and gives them back.
func TestSlowTakeoverFromArgoCD(t *testing.T) {
	o := startTakeover(t, "argocd", "argocd-controller", func(o *takeover) rival {
		return &argoCD{o: o, built: program.Build(t, "argocd"), home: t.TempDir(), cache: redistest.Start(t).Addr()}
	})
	t.Run("an overlay", func(t *testing.T) { o.tell(t, "shop", "site") })
	t.Run("plain manifests", func(t *testing.T) { o.tell(t, "site", "shop") })
}

// argoProject allows everything. Argo CD's server makes it when it starts, and does not run here.
const argoProject = `apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: default, namespace: argocd}
spec:
  sourceRepos: ["*"]
  destinations: [{namespace: "*", server: "*"}]
  clusterResourceWhitelist: [{group: "*", kind: "*"}]
`

const argoApplication = `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %[1]s, namespace: argocd, finalizers: [resources-finalizer.argocd.argoproj.io]}
spec:
  project: default
  source: {repoURL: %[3]q, targetRevision: main, path: %[2]s}
  destination: {server: https://kubernetes.default.svc, namespace: %[1]s}
  syncPolicy: {automated: {prune: true, selfHeal: true}, syncOptions: [%[4]s]}
`

func (a *argoCD) install(t *testing.T) {
	t.Helper()
	manifests := filepath.Join(a.built, "manifests")
	a.o.run(t, a.o.kubectl, "create", "namespace", "argocd")
	a.o.define(t, "-k", filepath.Join(manifests, "crds"))
	a.o.run(t, a.o.kubectl, "--namespace", "argocd", "apply", "-k", filepath.Join(manifests, "config"))
	a.o.feed(t, argoProject, a.o.kubectl, "apply", "-f", "-")
	// Argo CD looks for its own cluster where kubectl does, and for kustomize on the PATH.
	binaries, err := localkube.Build(t.Context(), localkube.BuildParams{Kustomize: true})
	if err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{".kube/config": a.o.cluster.KubeconfigPath(), "bin/kustomize": binaries.Kustomize} {
		link = filepath.Join(a.home, link)
		if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
}

func (a *argoCD) start(t *testing.T) {
	t.Helper()
	manifests := loopback.Addr(t)
	server := a.part(t, "argocd-repo-server", "--address", "127.0.0.1", "--port", portOf(t, manifests), "--metrics-address", "127.0.0.1",
		"--disable-tls", "--client-ca-path", "")
	server.Await(t, func() bool {
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", manifests)
		if err == nil {
			_ = connection.Close()
		}
		return err == nil
	})
	a.part(t, "argocd-application-controller", "--namespace", "argocd", "--repo-server", manifests, "--repo-server-plaintext")
}

// part starts a part of Argo CD, which ends with this program, and not with the part of the test that started it.
func (a *argoCD) part(t *testing.T, name string, args ...string) *program.Program {
	t.Helper()
	args = append(args, "--redis", a.cache, "--metrics-port", portOf(t, loopback.Addr(t)))
	command := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(a.built, name), args...)
	command.Env = append(a.o.env, "ARGOCD_FAKE_IN_CLUSTER=true", "ARGOCD_GPG_ENABLED=false", "HOME="+a.home, "TMPDIR="+a.home,
		"ARGOCD_ASK_PASS_SOCK="+filepath.Join(a.home, "ask"), "PATH="+a.built+":"+filepath.Join(a.home, "bin")+":"+os.Getenv("PATH"))
	started := program.Start(t, command)
	a.running = append(a.running, started)
	return started
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func (a *argoCD) stop() {
	for _, p := range a.running {
		p.End(syscall.SIGTERM)
	}
	a.running = nil
}

func (a *argoCD) deliver(t *testing.T, service, folder string) {
	t.Helper()
	options := map[string]string{"site": "ServerSideApply=true"} // both ways in which Argo CD applies
	a.o.feed(t, fmt.Sprintf(argoApplication, service, folder, a.o.repo.URL(), options[service]), a.o.kubectl, "apply", "-f", "-")
}

func (a *argoCD) reconcile(t *testing.T, service, commit string) {
	t.Helper()
	a.refresh(t, service, "to deliver", func(status func(...string) string) bool {
		return status("sync", "status") == "Synced" && status("sync", "revision") == commit &&
			status("health", "status") == "Healthy" && status("operationState", "phase") == "Succeeded"
	})
}

// look expects a difference: Argo CD misses its mark on the objects.
func (a *argoCD) look(t *testing.T, service, commit string) {
	t.Helper()
	a.refresh(t, service, "to compare", func(status func(...string) string) bool {
		return status("sync", "status") == "OutOfSync" && status("sync", "revision") == commit
	})
}

// refresh has Argo CD forget what it knows of a service, and waits until it has looked at it since, and found that.
func (a *argoCD) refresh(t *testing.T, service, what string, holds func(status func(...string) string) bool) {
	t.Helper()
	name := "application/" + service
	a.o.run(t, a.o.kubectl, "--namespace", "argocd", "annotate", "--overwrite", name, "argocd.argoproj.io/refresh=hard")
	await.Poll(t, "Argo CD "+what+" "+service, pause, func() (bool, string) {
		found, err := a.o.try(t.Context(), "argocd", name)
		if err != nil {
			return false, err.Error()
		}
		_, isWaiting := found.GetAnnotations()["argocd.argoproj.io/refresh"]
		return !isWaiting && holds(func(names ...string) string {
			text, _, _ := unstructured.NestedString(found.Object, append([]string{"status"}, names...)...)
			return text
		}), fmt.Sprint(found.Object["status"])
	})
}

func (a *argoCD) restarts() string { return "kubectl-rollout" }
