// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command flux applies a folder of manifests with fluxcd/pkg/ssa in the way of Flux's kustomize-controller: once for each line on
// its standard input, and answers each with a line of JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// concurrency is kustomize-controller's default for --concurrent-ssa.
const concurrency = 4

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "flux:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, dir string) error {
	manager, err := connect(kubeconfig)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		started := time.Now()
		objects, err := read(dir)
		if err != nil {
			return err
		}
		rendered := time.Since(started)
		if _, err := manager.ApplyAllStaged(ctx, objects, ssa.DefaultApplyOptions()); err != nil {
			return err
		}
		answer := map[string]int64{
			"took": int64(time.Since(started)), "rendered": int64(rendered), "objects": int64(len(objects)),
		}
		if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
			return err
		}
	}
	return nil
}

func connect(kubeconfig string) (*ssa.ResourceManager, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // Flux's own limit of 50 a second would be measured otherwise
	c, err := client.New(config, client.Options{})
	if err != nil {
		return nil, err
	}
	manager := ssa.NewResourceManager(c, nil, ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"})
	manager.SetConcurrency(concurrency)
	return manager, nil
}

func read(dir string) (all []*unstructured.Unstructured, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		objects, err := utils.ReadObjects(file)
		_ = file.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, objects...)
	}
	return all, nil
}
