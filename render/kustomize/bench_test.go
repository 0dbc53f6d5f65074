// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kustomize_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// heavy returns an overlay with a prefix, labels, images and patches over 200 objects.
func heavy() map[string]string {
	var base strings.Builder
	for i := range 100 {
		fmt.Fprintf(&base, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web-%d}\nspec:\n  selector: {matchLabels: {app: web-%d}}\n"+
			"  template:\n    metadata: {labels: {app: web-%d}}\n    spec:\n      containers: [{name: app, image: registry.example/app:1.0, envFrom: [{configMapRef: {name: conf-%d}}]}]\n---\n"+
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf-%d}\ndata: {a: b}\n---\n", i, i, i, i, i)
	}
	return map[string]string{
		"base/kustomization.yaml": "resources: [all.yaml]\n", "base/all.yaml": base.String(),
		"kustomization.yaml": "resources: [base]\nnamePrefix: eu-\nnamespace: apps\nlabels: [{pairs: {team: x}, includeSelectors: true}]\n" +
			"images: [{name: registry.example/app, newTag: '2.0'}]\npatches: [{target: {kind: Deployment}, patch: '[{\"op\": \"add\", \"path\": \"/spec/replicas\", \"value\": 3}]'}]\n",
	}
}

// BenchmarkKustomization builds 200 objects with an overlay in this process, and with kustomize
// build. It reports the CPU time of each, garbage collection and the program's start included.
func BenchmarkKustomization(b *testing.B) {
	b.Run("leat", benchmarkLeat)
	b.Run("peer=program", benchmarkProgram)
}

func benchmarkLeat(b *testing.B) {
	tree := files(heavy())
	b.ReportAllocs()
	before := ownCPU(b)
	for b.Loop() {
		if _, err := build(b, tree, ""); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((ownCPU(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
}

// ownCPU returns the CPU time of this process.
func ownCPU(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func benchmarkProgram(b *testing.B) {
	dir := b.TempDir()
	for name, text := range heavy() {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			b.Fatal(err)
		}
	}
	var cpu time.Duration
	var memory int64
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), program(b), "build", dir)
		if output, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, output)
		}
		cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			memory = max(memory, usage.Maxrss)
		}
	}
	b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(memory>>10), "MiB")
}
