// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command gitopsengine applies a folder of manifests with gitops-engine in the way of Argo CD, by server-side apply: once for each
// line on its standard input, and answers each with a line of JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/cache"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/diff"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/engine"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// mark is the annotation of managed objects, as Argo CD's tracking annotation does.
const mark = "bench.leat.dev/managed"

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "gitopsengine:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, dir, namespace string) error {
	config, err := connect(kubeconfig)
	if err != nil {
		return err
	}
	live := cache.NewClusterCache(config, cache.SetLogr(logr.Discard()), cache.SetPopulateResourceInfoHandler(
		func(o *unstructured.Unstructured, _ bool) (any, bool) {
			managed := o.GetAnnotations()[mark] != ""
			return managed, managed
		}))
	work := engine.NewEngine(config, live, engine.WithLogr(logr.Discard()))
	stop, err := work.Run()
	if err != nil {
		return err
	}
	defer stop()
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		started := time.Now()
		objects, err := read(dir)
		if err != nil {
			return err
		}
		rendered := time.Since(started)
		if err := reconcile(ctx, work, live, objects, namespace); err != nil {
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

// reconcile compares, and syncs what is out of sync, as Argo CD's automatic sync does.
func reconcile(
	ctx context.Context, work engine.GitOpsEngine, live cache.ClusterCache, objects []*unstructured.Unstructured, namespace string,
) error {
	managed := func(r *cache.Resource) bool { return r.Info == true }
	existing, err := live.GetManagedLiveObjs(objects, managed)
	if err != nil {
		return err
	}
	result := sync.Reconcile(objects, existing, namespace, live)
	difference, err := diff.DiffArray(result.Target, result.Live, diff.WithLogr(logr.Discard()))
	if err != nil || !difference.Modified {
		return err
	}
	_, err = work.Sync(ctx, objects, managed, "1", namespace, sync.WithServerSideApply(true),
		sync.WithServerSideApplyManager("argocd-controller"), sync.WithLogr(logr.Discard()))
	return err
}

func connect(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // Argo CD's own limit of 50 a second would be measured otherwise
	return config, nil
}

func read(dir string) (all []*unstructured.Unstructured, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		objects, err := kube.SplitYAML(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, o := range objects {
			annotations := o.GetAnnotations()
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[mark] = "yes"
			o.SetAnnotations(annotations)
		}
		all = append(all, objects...)
	}
	return all, nil
}
