// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Binaries are the absolute paths of the files that a control plane consists of, as returned by
// Build.
type Binaries struct {
	Etcd              string
	APIServer         string
	ControllerManager string
	Scheduler         string
	Kwok              string
	KwokStages        string // YAML: what kwok does to nodes, pods and volumes
	Kubectl           string // not used by Start; of the API server's version, for people
	Helm              string // not used by Start; empty unless BuildParams.Helm asked for it
}

// target is one file that Build makes.
type target struct {
	name      string        // its name in the cache and in progress lines
	module    string        // the module under the source folder that pins it
	component string        // the Go module whose version it carries
	source    string        // the Go package to compile, if it is compiled
	cold      time.Duration // CPU time with empty build caches, measured
	produce   func(b *builder, ctx context.Context, t plannedTarget, out string) error
	assign    func(b *Binaries, path string)
}

// plannedTarget is a target whose pin has been read.
type plannedTarget struct {
	target
	pin  pin
	path string // where it lives once it is built
}

// built reports whether t is in the cache. Files are moved there by renaming them, so a file that
// exists is complete.
func (t plannedTarget) built() bool {
	info, err := os.Stat(t.path)
	return err == nil && info.Mode().IsRegular()
}

// targets lists what a control plane needs, and what p requests in addition, in build order.
func targets(p BuildParams) []target {
	const (
		helm = "helm.sh/helm/v3"
		etcd = "go.etcd.io/etcd/server/v3"
		kube = "k8s.io/kubernetes"
		kwok = "sigs.k8s.io/kwok"
	)
	needed := []target{
		{
			name: "etcd", module: "etcd", component: etcd, source: etcd, cold: 70 * time.Second, produce: (*builder).compile,
			assign: func(b *Binaries, path string) { b.Etcd = path },
		},
		{
			name: "kube-apiserver", module: "kubernetes", component: kube, source: kube + "/cmd/kube-apiserver", cold: 380 * time.Second, produce: (*builder).compile,
			assign: func(b *Binaries, path string) { b.APIServer = path },
		},
		{
			name: "kube-controller-manager", module: "kubernetes", component: kube, source: kube + "/cmd/kube-controller-manager", cold: 100 * time.Second, produce: (*builder).compile,
			assign: func(b *Binaries, path string) { b.ControllerManager = path },
		},
		{
			name: "kube-scheduler", module: "kubernetes", component: kube, source: kube + "/cmd/kube-scheduler", cold: 10 * time.Second, produce: (*builder).compile,
			assign: func(b *Binaries, path string) { b.Scheduler = path },
		},
		{
			name: "kubectl", module: "kubernetes", component: kube, source: kube + "/cmd/kubectl", cold: 40 * time.Second, produce: (*builder).compile,
			assign: func(b *Binaries, path string) { b.Kubectl = path },
		},
		{
			name: "kwok", module: "kwok", component: kwok, source: kwok + "/cmd/kwok", cold: 120 * time.Second, produce: (*builder).compile,
			assign: func(b *Binaries, path string) { b.Kwok = path },
		},
		{
			name: "kwok-stages.yaml", module: "kwok", component: kwok, produce: (*builder).collectStages,
			assign: func(b *Binaries, path string) { b.KwokStages = path },
		},
	}
	if p.Helm {
		needed = append(needed, target{
			name: "helm", module: "helm", component: helm, source: helm + "/cmd/helm", cold: 150 * time.Second, produce: (*builder).compile,
			assign: func(b *Binaries, path string) { b.Helm = path },
		})
	}
	return needed
}

// plan reads the pins below sourceDir and decides where each target belongs.
func plan(params BuildParams, sourceDir, cacheDir string) ([]plannedTarget, error) {
	var planned []plannedTarget
	for _, t := range targets(params) {
		p, err := readPin(filepath.Join(sourceDir, t.module), t.component)
		if err != nil {
			return nil, err
		}
		dir := filepath.Join(cacheDir, t.module, p.version+"-"+cacheKey(t, p))
		planned = append(planned, plannedTarget{target: t, pin: p, path: filepath.Join(dir, t.name)})
	}
	return planned, nil
}

// cacheKey covers everything that determines the bytes of a target except the Go toolchain: a patch
// release of Go does not justify minutes of building.
func cacheKey(t target, p pin) string {
	h := sha256.New()
	h.Write(p.sums)
	fmt.Fprintf(h, "\n%s/%s\n%s\n%s\n", runtime.GOOS, runtime.GOARCH, linkFlags(t, p.version), strings.Join(stageFiles(), "\n"))
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// linkFlags strips symbol tables (a third of the size), and sets Kubernetes' version, as its own
// build scripts would. Without it /version reports v0.0.0-master, and clients that compare versions
// refuse to work.
func linkFlags(t target, version string) string {
	const strip = "-s -w"
	if t.module != "kubernetes" {
		return strip
	}
	const prefix = " -X k8s.io/component-base/version."
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	return strip +
		prefix + "gitVersion=" + version +
		prefix + "gitMajor=" + major +
		prefix + "gitMinor=" + minor +
		prefix + "gitTreeState=clean" +
		prefix + "gitCommit=0" +
		prefix + "buildDate=1970-01-01T00:00:00Z"
}

// stageFiles lists kwok's own behaviours that simulate a working cluster: nodes become ready and
// renew their leases, pods run at once, pods of Jobs complete, deleted pods go, and claims get a
// volume.
func stageFiles() []string {
	return []string{
		"node/fast/node-initialize.yaml",
		"node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
		"pod/fast/pod-ready.yaml",
		"pod/fast/pod-complete.yaml",
		"pod/fast/pod-delete.yaml",
		"volume/fast/pvc-provision.yaml",
		"volume/fast/pvc-delete.yaml",
		"volume/fast/pv-bind.yaml",
		"volume/fast/pv-delete.yaml",
	}
}
