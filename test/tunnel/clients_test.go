// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// TestClientGo uses client-go like controllers do, by every way.
func TestClientGo(t *testing.T) {
	t.Parallel()
	script := func(name string, run func(c *clients, ctx context.Context) (string, error)) step {
		return step{name: name, do: func(ctx context.Context, w *way) (string, error) {
			c, err := newClients(w)
			if err != nil {
				return "", err
			}
			return run(c, ctx)
		}}
	}
	compare(t, theRig(t), "client-go", names(true, true), []step{
		k("create", "namespace", "$NS"),
		script("discovery", (*clients).discover),
		script("server-side apply", (*clients).apply),
		script("pages", (*clients).pages),
		script("informer", (*clients).inform),
		script("dynamic client", (*clients).dynamic),
		script("leader election", (*clients).lead),
		k("delete", "namespace", "$NS", "--wait=false"),
	})
}

// clients are the clients of one way.
type clients struct {
	config    *rest.Config
	typed     *kubernetes.Clientset
	untyped   *dynamic.DynamicClient
	namespace string
}

func newClients(w *way) (*clients, error) {
	text, err := os.ReadFile(filepath.Join(w.dir, "kubeconfig"))
	if err != nil {
		return nil, err
	}
	c := &clients{namespace: w.namespace}
	if c.config, err = clientcmd.RESTConfigFromKubeConfig(text); err != nil {
		return nil, err
	}
	c.config.QPS, c.config.Burst = 500, 1000
	if c.typed, err = kubernetes.NewForConfig(c.config); err != nil {
		return nil, err
	}
	c.untyped, err = dynamic.NewForConfig(c.config)
	return c, err
}

// discover lists all resources, which aggregated discovery returns in one answer.
func (c *clients) discover(context.Context) (string, error) {
	groups, lists, err := c.typed.Discovery().ServerGroupsAndResources()
	if err != nil {
		return "", err
	}
	var said []string
	for _, group := range groups {
		said = append(said, fmt.Sprintln(group.Name, group.PreferredVersion.GroupVersion))
	}
	for _, list := range lists {
		for _, resource := range list.APIResources {
			said = append(said, fmt.Sprintln(list.GroupVersion, resource.Name, resource.Kind, resource.Verbs))
		}
	}
	slices.Sort(said) // the client's own order is random
	return strings.Join(said, ""), nil
}

func (c *clients) apply(ctx context.Context) (string, error) {
	want := applycorev1.ConfigMap("applied", c.namespace).WithData(map[string]string{"colour": "green"})
	if _, err := c.typed.CoreV1().ConfigMaps(c.namespace).Apply(ctx, want, metav1.ApplyOptions{FieldManager: "one"}); err != nil {
		return "", err
	}
	want.WithData(map[string]string{"colour": "red"})
	_, conflict := c.typed.CoreV1().ConfigMaps(c.namespace).Apply(ctx, want, metav1.ApplyOptions{FieldManager: "two"})
	got, err := c.typed.CoreV1().ConfigMaps(c.namespace).Apply(ctx, want, metav1.ApplyOptions{FieldManager: "two", Force: true})
	if err != nil {
		return "", err
	}
	return fmt.Sprint(conflict, got.Data), nil
}

// pages reads a list page by page.
func (c *clients) pages(ctx context.Context) (string, error) {
	var said strings.Builder
	options := metav1.ListOptions{Limit: 7}
	for {
		page, err := c.typed.RbacV1().ClusterRoles().List(ctx, options)
		if err != nil {
			return said.String(), err
		}
		for _, role := range page.Items {
			if strings.HasPrefix(role.Name, "system:") {
				fmt.Fprintln(&said, role.Name)
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return said.String(), nil
		}
	}
}

// inform follows creations, changes and deletions.
func (c *clients) inform(ctx context.Context) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactoryWithOptions(c.typed, 0, informers.WithNamespace(c.namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "followed=yes" }))
	defer factory.Shutdown()
	defer cancel()
	informer := factory.Core().V1().ConfigMaps().Informer()
	events := make(chan string, 100)
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { events <- "added " + name(o) },
		UpdateFunc: func(_, o any) { events <- "changed " + name(o) },
		DeleteFunc: func(o any) { events <- "removed " + name(o) },
	}); err != nil {
		return "", err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return "", context.Cause(ctx)
	}
	maps := c.typed.CoreV1().ConfigMaps(c.namespace)
	var said []string
	for i := range 5 {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("followed-", i), Labels: map[string]string{"followed": "yes"}}}
		if _, err := maps.Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return "", err
		}
		o.Data = map[string]string{"n": fmt.Sprint(i)}
		if _, err := maps.Update(ctx, o, metav1.UpdateOptions{}); err != nil {
			return "", err
		}
		if err := maps.Delete(ctx, o.Name, metav1.DeleteOptions{}); err != nil {
			return "", err
		}
		for range 3 {
			select {
			case event := <-events:
				said = append(said, event)
			case <-ctx.Done():
				return strings.Join(said, "\n"), context.Cause(ctx)
			}
		}
	}
	return strings.Join(said, "\n"), nil
}

func name(o any) string {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o)
	if err != nil {
		return err.Error()
	}
	return key
}

func (c *clients) dynamic(ctx context.Context) (string, error) {
	maps := c.untyped.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(c.namespace)
	watch, err := maps.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=loose"})
	if err != nil {
		return "", err
	}
	defer watch.Stop()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "loose"}, "data": map[string]any{"a": "b"},
	}}
	if _, err := maps.Create(ctx, o, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	if err := maps.Delete(ctx, "loose", metav1.DeleteOptions{}); err != nil {
		return "", err
	}
	var said []string
	for range 2 {
		select {
		case event := <-watch.ResultChan():
			said = append(said, string(event.Type))
		case <-ctx.Done():
			return strings.Join(said, " "), context.Cause(ctx)
		}
	}
	slices.Sort(said)
	return strings.Join(said, " "), nil
}

// lead wins an election, and hands over to another candidate.
func (c *clients) lead(ctx context.Context) (string, error) {
	var said strings.Builder
	for _, candidate := range []string{"one", "two"} {
		ctx, cancel := context.WithCancel(ctx)
		lock := &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Name: "throne", Namespace: c.namespace}, Client: c.typed.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: candidate},
		}
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RetryPeriod: time.Second, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) {
					fmt.Fprintln(&said, candidate, "leads")
					cancel()
				},
				OnStoppedLeading: func() {},
			},
		})
		cancel()
	}
	lease, err := c.typed.CoordinationV1().Leases(c.namespace).Get(ctx, "throne", metav1.GetOptions{})
	if err != nil {
		return said.String(), err
	}
	return fmt.Sprint(said.String(), *lease.Spec.LeaseTransitions), nil
}
