// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package renderworker_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/rendertest"
	"github.com/leatdev/leat/render/renderworker"
)

// The size of a cluster that is heavy on kustomize, and of each of its services.
const kustomizations, objectsOfEach = 45, 20

// overlay returns a kustomization with a base, as services have it: a namespace, a prefix, labels,
// images, a patch, and a generated ConfigMap.
func overlay(service int) *render.Files {
	var base strings.Builder
	for i := range objectsOfEach / 2 {
		fmt.Fprintf(&base, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web-%d}\nspec:\n  selector: {matchLabels: {app: web-%d}}\n  template:\n"+
			"    metadata: {labels: {app: web-%d}}\n    spec:\n      containers: [{name: app, image: registry.example/app:1.0, envFrom: [{configMapRef: {name: settings}}]}]\n---\n"+
			"apiVersion: v1\nkind: Service\nmetadata: {name: web-%d}\nspec: {selector: {app: web-%d}, ports: [{port: 80}]}\n---\n", i, i, i, i, i)
	}
	return files(map[string]string{
		"base/kustomization.yaml": "resources: [all.yaml]\nconfigMapGenerator: [{name: settings, literals: [LEVEL=info]}]\n", "base/all.yaml": base.String(),
		"kustomization.yaml": fmt.Sprintf("resources: [base]\nnamePrefix: s%d-\nnamespace: apps\nlabels: [{pairs: {team: x}, includeSelectors: true}]\n"+
			"images: [{name: registry.example/app, newTag: '2.%d'}]\npatches: [{target: {kind: Deployment}, patch: '[{\"op\": \"add\", \"path\": \"/spec/replicas\", \"value\": 3}]'}]\n", service, service),
	})
}

// BenchmarkColdStart renders 45 kustomizations of 20 objects as an agent does after its start, with
// one worker that has to be started first, and the same with kustomize build of each, in turns. It
// reports time, and the CPU time of all processes.
func BenchmarkColdStart(b *testing.B) {
	binaries, err := localkube.Build(b.Context(), localkube.BuildParams{Kustomize: true})
	if err != nil {
		b.Fatal(err)
	}
	var trees []*render.Files
	var folders []string
	for i := range kustomizations {
		trees = append(trees, overlay(i))
		folders = append(folders, rendertest.Write(b, trees[i]))
	}
	sides := map[string]func(){
		"leat": func() {
			pool := renderworker.NewPool(renderworker.Config{}, render.Limits{})
			defer pool.Close()
			for _, tree := range trees {
				if _, err := build(b.Context(), pool, tree, ""); err != nil {
					b.Fatal(err)
				}
			}
		},
		"program": func() {
			for _, folder := range folders {
				cmd := exec.CommandContext(b.Context(), binaries.Kustomize, "build", folder)
				cmd.Env = []string{"HOME=" + folder, "PATH="}
				if output, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, output)
				}
			}
		},
	}
	took, cpu := map[string]time.Duration{}, map[string]time.Duration{}
	for b.Loop() {
		for name, side := range sides {
			began, used := time.Now(), cpuOfAll(b)
			side()
			took[name] += time.Since(began)
			cpu[name] += cpuOfAll(b) - used
		}
	}
	for name := range sides {
		b.ReportMetric(took[name].Seconds()/float64(b.N), name+"-s")
		b.ReportMetric(cpu[name].Seconds()/float64(b.N), name+"-cpu-s")
	}
	b.ReportMetric(cpu["leat"].Seconds()/cpu["program"].Seconds(), "leat/program")
	b.ReportMetric(0, "ns/op")
}

// cpuOfAll returns the CPU time of this process and of its children that have ended.
func cpuOfAll(b *testing.B) (total time.Duration) {
	b.Helper()
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var usage syscall.Rusage
		if err := syscall.Getrusage(who, &usage); err != nil {
			b.Fatal(os.NewSyscallError("getrusage", err))
		}
		total += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	return total
}
