// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/kube/watch"
)

// As implements reconcile.Cluster, by impersonation. The agent discovers kinds as itself.
func (c *Client) As(account k8s.Account) (k8s.API, error) {
	client, err := c.tenants.client(c, account)
	if err != nil {
		return nil, err
	}
	return client, nil
}

// client returns the client that acts as an account. c is the agent's own, which is returned for the
// zero account.
func (t *tenants) client(c *Client, account k8s.Account) (*Client, error) {
	if account == (k8s.Account{}) {
		return c, nil
	}
	if account.Namespace == "" || account.Name == "" {
		return nil, fmt.Errorf("make client of service account %q: it is incomplete", account)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.clients[account]; known != nil {
		return known, nil
	}
	config := rest.CopyConfig(c.config)
	config.Impersonate = impersonate(account)
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make client of service account %s: %w", account, err)
	}
	client, err := dynamic.NewForConfigAndClient(config, transport)
	if err != nil {
		return nil, fmt.Errorf("make client of service account %s: %w", account, err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfigAndClient(config, transport)
	if err != nil {
		return nil, fmt.Errorf("make client of service account %s: %w", account, err)
	}
	tenant := &Client{
		config: config, namespace: c.namespace, dynamic: client, discovery: discoverer, server: watch.NewServer(c.server.Base(), transport), kinds: c.kinds, retry: c.retry, logger: c.logger,
		tenants: c.tenants, agent: c, account: account,
	}
	t.clients[account] = tenant
	return tenant, nil
}

// impersonate names an account. The API server adds its groups, which follow from its namespace. To
// name them the agent would need the right to impersonate groups, which allows much more than
// accounts.
func impersonate(a k8s.Account) rest.ImpersonationConfig {
	return rest.ImpersonationConfig{UserName: "system:serviceaccount:" + a.Namespace + ":" + a.Name}
}
