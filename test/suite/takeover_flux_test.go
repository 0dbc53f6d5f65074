// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/program"
)

// flux is the source-controller and the kustomize-controller of Flux.
type flux struct {
	o         *takeover
	home      string
	storage   string
	artifacts string // the address where the storage is served, also after a restart
	running   []*program.Program
	requests  int
}

// TestSlowTakeoverFromFlux takes services over from the controllers of Flux, and gives them back.
func TestSlowTakeoverFromFlux(t *testing.T) {
	o := startTakeover(t, "flux", "kustomize-controller", func(o *takeover) rival {
		return &flux{o: o, home: program.Build(t, "flux"), storage: t.TempDir(), artifacts: loopback.Addr(t)}
	})
	t.Run("an overlay", func(t *testing.T) { o.tell(t, "shop", "site") })
	t.Run("plain manifests", func(t *testing.T) { o.tell(t, "site", "shop") })
}

const fluxSource = `apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: deploy, namespace: flux-system}
spec: {url: %q, ref: {branch: main}, interval: 1h}
`

const fluxService = `apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: %[1]s, namespace: flux-system}
spec:
  sourceRef: {kind: GitRepository, name: deploy}
  path: ./%[2]s
  targetNamespace: %[1]s
  prune: true
  wait: true
  interval: 1h
`

func (f *flux) install(t *testing.T) {
	t.Helper()
	f.o.run(t, f.o.kubectl, "create", "namespace", "flux-system")
	f.o.define(t, "-f", filepath.Join(f.home, "crds"))
	f.o.feed(t, fmt.Sprintf(fluxSource, f.o.repo.URL()), f.o.kubectl, "apply", "-f", "-")
}

func (f *flux) start(t *testing.T) {
	t.Helper()
	for name, args := range map[string][]string{
		"source-controller":    {"--storage-path", f.storage, "--storage-addr", f.artifacts, "--storage-adv-addr", f.artifacts},
		"kustomize-controller": {"--requeue-dependency", "1s"},
	} {
		// The process ends with this program, and not with the part of the test that started it.
		command := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(f.home, name), append(args, "--enable-leader-election=false",
			"--metrics-addr", "127.0.0.1:0", "--health-addr", "127.0.0.1:0", "--interval-jitter-percentage", "0")...)
		command.Env = append(f.o.env, "RUNTIME_NAMESPACE=flux-system")
		f.running = append(f.running, program.Start(t, command))
	}
}

func (f *flux) stop() {
	for _, p := range f.running {
		p.End(syscall.SIGTERM)
	}
	f.running = nil
}

func (f *flux) deliver(t *testing.T, service, folder string) {
	t.Helper()
	f.o.feed(t, fmt.Sprintf(fluxService, service, folder), f.o.kubectl, "apply", "-f", "-")
}

func (f *flux) reconcile(t *testing.T, service, commit string) {
	t.Helper()
	f.requests++
	request := fmt.Sprintf("request-%d", f.requests)
	for _, name := range []string{"gitrepository/deploy", "kustomization/" + service} {
		f.o.run(t, f.o.kubectl, "--namespace", "flux-system", "annotate", "--overwrite", name, "reconcile.fluxcd.io/requestedAt="+request)
		await.Poll(t, "Flux to reconcile "+name, pause, func() (bool, string) {
			found, err := f.o.try(t.Context(), "flux-system", name)
			if err != nil {
				return false, err.Error()
			}
			handled, _, _ := unstructured.NestedString(found.Object, "status", "lastHandledReconcileAt")
			conditions, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
			isReady := false
			for _, c := range conditions {
				condition, _ := c.(map[string]any)
				isReady = isReady || condition["type"] == "Ready" && condition["status"] == "True"
			}
			status := fmt.Sprint(found.Object["status"])
			return handled == request && isReady && strings.Contains(status, commit), status
		})
	}
}

// restarts is what the documentation of Flux says: what kubectl has changed by another name, Flux takes back.
func (f *flux) restarts() string { return "flux-client-side-apply" }

// look does nothing: Flux does not compare what is suspended.
func (f *flux) look(*testing.T, string, string) {}
