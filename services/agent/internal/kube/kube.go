// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package kube is the adapter to the Kubernetes API server of the agent's own cluster, on top of
// client-go.
//
// It promises the ports of the core: [k8s.API] for objects, [inventory.Store] for records in
// ConfigMaps, and watches that observe every object with Leat's label. It translates the API
// server's answers into the errors of these ports, and never repeats the content of a Secret in
// one.
//
// It retries a request that may succeed a moment later, and nothing else: when to apply again is
// the decision of package reconcile.
package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/kube/watch"
)

// fieldManager is Leat's name in managedFields.
const fieldManager = k8s.FieldManager

// requestTimeout bounds one request that is not a watch.
const requestTimeout = time.Minute

// DefaultNamespace is where an agent keeps its inventories, its identity and its Lease, unless it
// is given another namespace.
const DefaultNamespace = "leat-system"

// Params are the settings and collaborators of New.
type Params struct {
	// Kubeconfig is the path of a file. Empty: the service account of the process's pod. The user's
	// current context is never used unless its file is named.
	Kubeconfig string
	// Namespace is where the agent keeps its own objects. Empty: DefaultNamespace.
	Namespace string
	// UserAgent identifies the program in the API server's log.
	UserAgent string
	Logger    *slog.Logger
}

// Client sends requests to the API server. It is safe for concurrent use.
type Client struct {
	config    *rest.Config
	namespace string // of the agent's own objects
	dynamic   dynamic.Interface
	discovery *discovery.DiscoveryClient
	server    *watch.Server
	kinds     *kinds
	retry     backoff.Policy
	logger    *slog.Logger
	tenants   *tenants

	// agent is the client of the agent itself, and account the one that this client acts as. Both
	// are zero in the agent's own client.
	agent   *Client
	account k8s.Account
}

var _ k8s.API = (*Client)(nil)

// tenants holds the clients that act as service accounts, one for each account that a service has
// named. They are never dropped: a client costs a few hundred bytes, and all share their
// connections.
type tenants struct {
	mu      sync.Mutex
	clients map[k8s.Account]*Client
}

// New returns a client. It does not connect.
func New(p Params) (*Client, error) {
	config, err := load(p.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = p.UserAgent
	// The API server's own priority and fairness limits requests better than a fixed rate could.
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make discovery client: %w", err)
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make HTTP client: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("parse API server's address: %w", err)
	}
	return &Client{
		config: config, namespace: cmp.Or(p.Namespace, DefaultNamespace), dynamic: dynamicClient, discovery: discoveryClient, server: watch.NewServer(base, httpClient),
		kinds:  newKinds(requestTimeout, newDiscoverer(base, httpClient, discoveryClient).fetch),
		retry:  backoff.Policy{Initial: 200 * time.Millisecond, Max: 5 * time.Second, Multiplier: 3, MaxAttempts: 4},
		logger: p.Logger, tenants: &tenants{clients: map[k8s.Account]*Client{}},
	}, nil
}

func load(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("find the pod's service account (outside a cluster, name a kubeconfig): %w", err)
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	return config, nil
}

// Ready returns an error unless the API server reports that it is ready.
func (c *Client) Ready(ctx context.Context) error {
	if err := c.discovery.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return fmt.Errorf("ask API server: %w", err)
	}
	return nil
}

// Version returns the API server's version, such as "v1.36.3".
func (c *Client) Version(ctx context.Context) (string, error) {
	content, err := c.discovery.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", fmt.Errorf("ask for version: %w", err)
	}
	var server version.Info
	if err := json.Unmarshal(content, &server); err != nil {
		return "", fmt.Errorf("read version: %w", err)
	}
	return server.GitVersion, nil
}
