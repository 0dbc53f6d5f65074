// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
)

// releaseNodes ends the leases by which an earlier kwok held the nodes. A new process has another
// identity, and would ignore the nodes' pods until those leases expire.
func (cp *ControlPlane) releaseNodes(ctx context.Context) error {
	const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	if err := cp.client.do(ctx, http.MethodDelete, leases, nil, nil); err != nil {
		return fmt.Errorf("release nodes: %w", err)
	}
	return nil
}

// startNodes creates count nodes, unless they exist, and waits until pods can be scheduled on them.
func (cp *ControlPlane) startNodes(ctx context.Context, count int) error {
	for i := range count {
		if err := cp.client.create(ctx, "/api/v1/nodes", node(fmt.Sprintf("node-%d", i))); err != nil {
			return fmt.Errorf("create node: %w", err)
		}
	}
	if err := cp.client.create(ctx, "/apis/storage.k8s.io/v1/storageclasses", storageClass()); err != nil {
		return fmt.Errorf("create storage class: %w", err)
	}
	if err := cp.waitFor(ctx, "nodes to be ready", cp.nodesReady); err != nil {
		return err
	}
	return cp.waitFor(ctx, "a service account for pods", func(ctx context.Context) error {
		return cp.client.do(ctx, http.MethodGet, "/api/v1/namespaces/default/serviceaccounts/default", nil, nil)
	})
}

func node(name string) object {
	return object{
		"apiVersion": "v1",
		"kind":       "Node",
		"metadata": object{
			"name": name,
			"labels": object{
				"kubernetes.io/hostname": name,
				"kubernetes.io/os":       "linux",
				"kubernetes.io/arch":     runtime.GOARCH,
			},
		},
		// kwok keeps a capacity that a node has. Its default lacks ephemeral storage, which many charts request.
		"status": object{"allocatable": room(), "capacity": room()},
	}
}

// room is more than anything that is tried needs.
func room() object {
	return object{"cpu": "1k", "memory": "1Ti", "pods": "1M", "ephemeral-storage": "1Ti"}
}

// storageClass returns the default storage class, whose volumes kwok's stages pretend to provide.
func storageClass() object {
	return object{
		"apiVersion": "storage.k8s.io/v1",
		"kind":       "StorageClass",
		"metadata": object{
			"name":        "kwok-volume",
			"annotations": object{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		"provisioner":       "kwok.x-k8s.io/volume",
		"reclaimPolicy":     "Delete",
		"volumeBindingMode": "Immediate",
	}
}

// nodesReady returns nil once every node is Ready and has no taint.
func (cp *ControlPlane) nodesReady(ctx context.Context) error {
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct{ Taints []struct{ Key string } }
			Status   struct {
				Conditions []struct{ Type, Status string }
			}
		}
	}
	if err := cp.client.do(ctx, http.MethodGet, "/api/v1/nodes", nil, &list); err != nil {
		return err
	}
	for _, n := range list.Items {
		ready := false
		for _, c := range n.Status.Conditions {
			ready = ready || c.Type == "Ready" && c.Status == "True"
		}
		if !ready {
			return fmt.Errorf("%s is not ready", n.Metadata.Name)
		}
		if len(n.Spec.Taints) > 0 {
			return fmt.Errorf("%s is tainted with %s", n.Metadata.Name, n.Spec.Taints[0].Key)
		}
	}
	return nil
}
