// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package impersonation gives the tunnel's callers rights in a cluster. The agent impersonates them
// in the groups leat:admins, leat:operators and leat:viewers, which have no rights without a
// binding.
package impersonation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/version"
	rbac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/kubernetes"
	clientrbac "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/leatdev/leat/internal/kit/backoff"
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
	set, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		return "", "", fmt.Errorf("read kubeconfig: %w", err)
	}
	var server apiversion.Info
	content, err := set.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err == nil {
		err = json.Unmarshal(content, &server)
	}
	if err != nil {
		return "", "", fmt.Errorf("ask for the version: %w", err)
	}
	var names []string
	for group, role := range bindings() {
		name := strings.ReplaceAll(group, ":", "-")
		if err := bind(ctx, set.RbacV1().ClusterRoleBindings(), name, group, role); err != nil {
			return "", "", err
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", "), server.GitVersion, nil
}

// bind applies a ClusterRoleBinding. The RBAC rules of a starting control plane appear one after
// the other, so a refusal at first is not permanent.
func bind(ctx context.Context, bindings clientrbac.ClusterRoleBindingInterface, name, group, role string) error {
	binding := rbac.ClusterRoleBinding(name).
		WithRoleRef(rbac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(role)).
		WithSubjects(rbac.Subject().WithAPIGroup(rbacv1.GroupName).WithKind(rbacv1.GroupKind).WithName(group))
	ctx, cancel := context.WithTimeout(ctx, retryFor)
	defer cancel()
	policy := backoff.Policy{Initial: 200 * time.Millisecond, Max: 200 * time.Millisecond}
	err := backoff.Retry(ctx, policy, func(ctx context.Context) error {
		_, err := bindings.Apply(ctx, binding, metav1.ApplyOptions{FieldManager: manager, Force: true})
		return err
	})
	if err != nil {
		return fmt.Errorf("bind %s: %w", group, err)
	}
	return nil
}
