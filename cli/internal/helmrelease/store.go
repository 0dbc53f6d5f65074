// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helmrelease

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/leatdev/leat/cli/internal/kubeclient"
	"github.com/leatdev/leat/render"
)

const (
	// releaseType is the type of Helm's Secrets.
	releaseType = "helm.sh/release.v1"
	// releaseKey is the value of a Secret that holds the release.
	releaseKey = "release"

	maxRevisions = 1000 // of one release; Helm keeps 10 by default
)

// Store reads releases from one cluster. It is safe for concurrent use.
type Store struct {
	metadata  metadata.Interface
	dynamic   dynamic.Interface
	discovery *discovery.DiscoveryClient
}

// NewStore returns a store that reaches the cluster with this configuration.
func NewStore(config *rest.Config) (*Store, error) {
	config = kubeclient.Bounded(config)
	s := &Store{}
	var errs [3]error
	s.metadata, errs[0] = metadata.NewForConfig(config)
	s.dynamic, errs[1] = dynamic.NewForConfig(config)
	s.discovery, errs[2] = discovery.NewDiscoveryClientForConfig(config)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return s, nil
}

// Revision is the Secret of one revision.
type Revision struct {
	Secret  string
	UID     string
	Version int
	Status  string // Helm's word, such as deployed, superseded or pending-upgrade
}

func secrets() schema.GroupVersionResource { return corev1.SchemeGroupVersion.WithResource("secrets") }

// Revisions returns the revisions of a release, the latest first. It reads no content.
func (s *Store) Revisions(ctx context.Context, namespace, release string) ([]Revision, error) {
	selector := labels.Set{"owner": "helm", "name": release}.String()
	list, err := s.metadata.Resource(secrets()).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: maxRevisions})
	if err != nil {
		return nil, fmt.Errorf("list the Secrets of release %s: %w", release, err)
	}
	if list.GetContinue() != "" {
		return nil, fmt.Errorf("release %s has more than %d revisions", release, maxRevisions)
	}
	var all []Revision
	for _, item := range list.Items {
		version, isRevision := strings.CutPrefix(item.GetName(), "sh.helm.release.v1."+release+".v")
		number, err := strconv.Atoi(version)
		if !isRevision || err != nil {
			continue
		}
		all = append(all, Revision{
			Secret: item.GetName(), UID: string(item.GetUID()), Version: number, Status: item.GetLabels()["status"],
		})
	}
	slices.SortFunc(all, func(a, b Revision) int { return b.Version - a.Version })
	return all, nil
}

// Read returns the release of a revision.
func (s *Store) Read(ctx context.Context, namespace string, revision Revision) (Release, error) {
	secret, err := s.dynamic.Resource(secrets()).Namespace(namespace).Get(ctx, revision.Secret, metav1.GetOptions{})
	if err != nil {
		return Release{}, fmt.Errorf("read Secret %s: %w", revision.Secret, err)
	}
	if kind, _, _ := unstructured.NestedString(secret.Object, "type"); kind != releaseType {
		return Release{}, fmt.Errorf("the Secret %s has the type %q, want %s", revision.Secret, kind, releaseType)
	}
	packed, _, _ := unstructured.NestedString(secret.Object, "data", releaseKey)
	data, err := base64.StdEncoding.DecodeString(packed) // the API server's; Helm's own is below it
	if err == nil {
		var release Release
		if release, err = Decode(data); err == nil {
			return release, nil
		}
	}
	return Release{}, fmt.Errorf("the Secret %s %w", revision.Secret, err)
}

// Delete deletes the Secrets of revisions, if they are still the same ones, the oldest first: what an
// interrupted call leaves is the newest part of the history.
func (s *Store) Delete(ctx context.Context, namespace string, revisions []Revision) error {
	for _, revision := range slices.Backward(revisions) {
		uid := types.UID(revision.UID)
		err := s.metadata.Resource(secrets()).Namespace(namespace).Delete(ctx, revision.Secret,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete Secret %s: %w", revision.Secret, err)
		}
	}
	return nil
}

// Facts returns what charts may know of the cluster.
func (s *Store) Facts() (render.ClusterFacts, error) {
	version, err := s.discovery.ServerVersion()
	if err != nil {
		return render.ClusterFacts{}, fmt.Errorf("read the cluster's version: %w", err)
	}
	facts := render.ClusterFacts{KubernetesVersion: version.GitVersion}
	_, lists, err := s.discovery.ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return facts, fmt.Errorf("read the kinds that the cluster serves: %w", err)
	}
	for _, list := range lists {
		facts.APIVersions = append(facts.APIVersions, list.GroupVersion)
		for _, resource := range list.APIResources {
			if !strings.Contains(resource.Name, "/") {
				facts.APIVersions = append(facts.APIVersions, list.GroupVersion+"/"+resource.Kind)
			}
		}
	}
	slices.Sort(facts.APIVersions)
	facts.APIVersions = slices.Compact(facts.APIVersions)
	return facts, nil
}

// Labels returns the labels of each object that exists, in the objects' order: nil for one that the
// cluster does not have. An object without a namespace is looked for in the given one.
func (s *Store) Labels(ctx context.Context, objects []*unstructured.Unstructured, namespace string) ([]map[string]string, error) {
	groups, err := restmapper.GetAPIGroupResources(s.discovery)
	if err != nil {
		return nil, fmt.Errorf("read the kinds that the cluster serves: %w", err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	values := make([]map[string]string, len(objects))
	for i, o := range objects {
		mapping, err := mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
		if meta.IsNoMatchError(err) {
			continue // without its kind there is no object
		}
		if err != nil {
			return nil, fmt.Errorf("find kind %s: %w", o.GetKind(), err)
		}
		client := metadata.ResourceInterface(s.metadata.Resource(mapping.Resource))
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			client = s.metadata.Resource(mapping.Resource).Namespace(namespaceOf(o, namespace))
		}
		live, err := client.Get(ctx, o.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", Describe(o), err)
		}
		if values[i] = live.GetLabels(); values[i] == nil {
			values[i] = map[string]string{}
		}
	}
	return values, nil
}

func namespaceOf(o *unstructured.Unstructured, otherwise string) string {
	if own := o.GetNamespace(); own != "" {
		return own
	}
	return otherwise
}

// Backup returns the Secrets of revisions as a List that kubectl create accepts.
func (s *Store) Backup(ctx context.Context, namespace string, revisions []Revision) ([]byte, error) {
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
	for _, revision := range revisions {
		secret, err := s.dynamic.Resource(secrets()).Namespace(namespace).Get(ctx, revision.Secret, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("read Secret %s: %w", revision.Secret, err)
		}
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
			unstructured.RemoveNestedField(secret.Object, "metadata", field)
		}
		list.Items = append(list.Items, *secret)
	}
	content, err := list.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("write the Secrets: %w", err)
	}
	return content, nil
}
