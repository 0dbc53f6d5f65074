// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	keepName = "leat-agent-identity"
	// keepCluster is the annotation with the uid of the Secret's cluster. A Secret that came with a
	// backup can be another cluster's.
	keepCluster = "leat.dev/cluster-uid"
)

// Keep stores small files in a Secret of the agent's own namespace.
type Keep struct{ client *Client }

// Keep returns the keep in this cluster.
func (c *Client) Keep() *Keep { return &Keep{client: c} }

// Load returns the files that were stored in this very cluster, or nil if there are no such files.
func (k *Keep) Load(ctx context.Context) (map[string][]byte, error) {
	set, uid, err := k.connect(ctx)
	if err != nil {
		return nil, err
	}
	secret, err := set.CoreV1().Secrets(k.client.namespace).Get(ctx, keepName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && secret.Annotations[keepCluster] != uid {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", keepName, err)
	}
	return secret.Data, nil
}

// Store replaces the stored files.
func (k *Keep) Store(ctx context.Context, files map[string][]byte) error {
	set, uid, err := k.connect(ctx)
	if err != nil {
		return err
	}
	if err := k.client.EnsureNamespace(ctx, k.client.namespace); err != nil {
		return err
	}
	body, err := json.Marshal(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: keepName, Namespace: k.client.namespace, Annotations: map[string]string{keepCluster: uid}},
		Data:       files,
	})
	if err != nil {
		return fmt.Errorf("encode Secret: %w", err)
	}
	force := true
	_, err = set.CoreV1().Secrets(k.client.namespace).Patch(ctx, keepName, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
	if err != nil {
		return fmt.Errorf("write Secret %s: %w", keepName, err)
	}
	return nil
}

// UID returns the uid of the cluster.
func (k *Keep) UID(ctx context.Context) (string, error) {
	_, uid, err := k.connect(ctx)
	return uid, err
}

// connect returns a typed client, and the uid of the cluster, which is the uid of its namespace
// kube-system.
func (k *Keep) connect(ctx context.Context) (*kubernetes.Clientset, string, error) {
	set, err := kubernetes.NewForConfig(k.client.config)
	if err != nil {
		return nil, "", fmt.Errorf("make client: %w", err)
	}
	system, err := set.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("read namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return set, string(system.UID), nil
}
