// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command helm renders a chart with Helm's SDK in the way of Flux's helm-controller: action.Install,
// here as a dry run without a cluster. It renders once for each line on its standard input, and
// answers each with a line of JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "helm:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir, version string) error {
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		started, used := time.Now(), cpu()
		objects, err := render(ctx, dir, version)
		if err != nil {
			return err
		}
		answer := map[string]int64{"took": int64(time.Since(started)), "cpu": int64(cpu() - used), "objects": int64(len(objects))}
		if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
			return err
		}
	}
	return nil
}

// render returns the objects of a chart, read from the disk each time, as a controller does with an
// artifact. The controller's client also reads the manifest's text into objects.
func render(ctx context.Context, dir, version string) ([]*unstructured.Unstructured, error) {
	chart, err := loader.Load(dir)
	if err != nil {
		return nil, err
	}
	kubeVersion, err := common.ParseKubeVersion(version)
	if err != nil {
		return nil, err
	}
	install := action.NewInstall(action.NewConfiguration())
	install.ReleaseName, install.Namespace, install.KubeVersion = "demo", "apps", kubeVersion
	install.DryRunStrategy = action.DryRunClient
	made, err := install.RunWithContext(ctx, chart, map[string]any{})
	if err != nil {
		return nil, err
	}
	installed, ok := made.(*release.Release)
	if !ok {
		return nil, fmt.Errorf("got a release of type %T", made)
	}
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq("\n"+installed.Manifest, "\n---\n") {
		fields := map[string]any{}
		if err := yaml.Unmarshal([]byte(document), &fields); err != nil {
			return nil, err
		}
		if len(fields) > 0 {
			objects = append(objects, &unstructured.Unstructured{Object: fields})
		}
	}
	return objects, nil
}

// cpu returns the CPU time of this process.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
