// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package clusterprofile

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/leatdev/leat/cli/internal/kubeclient"
)

const (
	fieldManager = "leat"
	pageSize     = 500
)

var resource = schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}

// Store are the ClusterProfiles in a namespace.
type Store struct{ profiles dynamic.ResourceInterface }

// NewStore returns the profiles in a namespace. config is how the cluster is reached in which tools read them.
func NewStore(config *rest.Config, namespace string) (*Store, error) {
	client, err := dynamic.NewForConfig(kubeclient.Bounded(config))
	if err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	return &Store{client.Resource(resource).Namespace(namespace)}, nil
}

// List returns all profiles in the namespace.
func (s *Store) List(ctx context.Context) ([]*Profile, error) {
	var all []*Profile
	for next := ""; ; {
		page, err := s.profiles.List(ctx, metav1.ListOptions{Limit: pageSize, Continue: next})
		if err != nil {
			return nil, fmt.Errorf("list ClusterProfiles: %w", err)
		}
		for _, item := range page.Items {
			profile, err := read(&item)
			if err != nil {
				return nil, err
			}
			all = append(all, profile)
		}
		if next = page.GetContinue(); next == "" {
			return all, nil
		}
	}
}

func read(object *unstructured.Unstructured) (*Profile, error) {
	profile := &Profile{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, profile); err != nil {
		return nil, fmt.Errorf("read ClusterProfile %s: %w", object.GetName(), err)
	}
	return profile, nil
}

// Apply makes a profile, or changes one: first what it is, and then its state, because the API keeps them apart. It returns the profile
// as List does.
func (s *Store) Apply(ctx context.Context, profile *Profile) (*Profile, error) {
	var live *unstructured.Unstructured
	for _, part := range []struct {
		without string
		of      []string // subresources
	}{{"status", nil}, {"spec", []string{"status"}}} {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(profile)
		if err != nil {
			return nil, fmt.Errorf("write ClusterProfile %s: %w", profile.Name, err)
		}
		delete(content, part.without)
		options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
		if live, err = s.profiles.Apply(ctx, profile.Name, &unstructured.Unstructured{Object: content}, options, part.of...); err != nil {
			return nil, fmt.Errorf("apply ClusterProfile %s: %w", profile.Name, err)
		}
	}
	return read(live)
}

// Remove deletes a profile that List returned. One that is gone, or was made again since, is left alone.
func (s *Store) Remove(ctx context.Context, profile *Profile) error {
	err := s.profiles.Delete(ctx, profile.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &profile.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete ClusterProfile %s: %w", profile.Name, err)
	}
	return nil
}
