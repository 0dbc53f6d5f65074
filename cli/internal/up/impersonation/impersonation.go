// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package impersonation gives the tunnel's callers rights in a cluster. The agent impersonates them
// in the groups leat:admins, leat:operators and leat:viewers, which have no rights without a
// binding.
package impersonation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	manager = "leat-up"
	// retryFor bounds how long a new API server may still refuse.
	retryFor = 10 * time.Second
)

// bindings maps Leat's groups to ClusterRoles that every cluster has.
func bindings() map[string]string {
	return map[string]string{"leat:admins": "cluster-admin", "leat:operators": "edit", "leat:viewers": "view"}
}

// Grant binds Leat's groups in the cluster of a kubeconfig's current context, and returns the names
// of the bindings and the cluster's version. Repeating it changes nothing.
func Grant(ctx context.Context, kubeconfig string) (granted, version string, err error) {
	restConfig, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return "", "", fmt.Errorf("read kubeconfig: %w", err)
	}
	httpClient, err := rest.HTTPClientFor(restConfig)
	if err != nil {
		return "", "", fmt.Errorf("read kubeconfig: %w", err)
	}
	defer httpClient.CloseIdleConnections()
	c := cluster{host: strings.TrimRight(restConfig.Host, "/"), http: httpClient}
	if version, err = c.version(ctx); err != nil {
		return "", "", err
	}
	var names []string
	for group, role := range bindings() {
		name := strings.ReplaceAll(group, ":", "-")
		if err := c.bind(ctx, name, group, role); err != nil {
			return "", "", err
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", "), version, nil
}

type cluster struct {
	host string
	http *http.Client
}

func (c cluster) version(ctx context.Context) (string, error) {
	var info struct {
		GitVersion string `json:"gitVersion"`
	}
	body, err := c.do(ctx, http.MethodGet, "/version", "", nil)
	if err != nil {
		return "", fmt.Errorf("ask for the version: %w", err)
	}
	if err := json.Unmarshal(body, &info); err != nil {
		return "", fmt.Errorf("ask for the version: %w", err)
	}
	return info.GitVersion, nil
}

// bind applies a ClusterRoleBinding. The RBAC rules of a starting control plane appear one after
// the other, so a refusal at first is not permanent.
func (c cluster) bind(ctx context.Context, name, group, role string) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1",
		"kind":       "ClusterRoleBinding",
		"metadata":   map[string]any{"name": name},
		"roleRef":    map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
		"subjects":   []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}},
	})
	if err != nil {
		return fmt.Errorf("bind %s: %w", group, err)
	}
	path := "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/" + name + "?force=true&fieldManager=" + manager
	ctx, cancel := context.WithTimeout(ctx, retryFor)
	defer cancel()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		if _, err = c.do(ctx, http.MethodPatch, path, "application/apply-patch+yaml", body); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("bind %s: %w", group, err)
		case <-ticker.C:
		}
	}
}

func (c cluster) do(ctx context.Context, method, path, contentType string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.host+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s: %s", response.Status, messageOf(text))
	}
	return text, nil
}

// messageOf returns the message of a Kubernetes Status.
func messageOf(body []byte) string {
	var status struct {
		Message string `json:"message"`
	}
	if err := json.Unmarshal(body, &status); err != nil || status.Message == "" {
		return strings.TrimSpace(string(body))
	}
	return status.Message
}
