// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/app"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/render/renderworker"
	"github.com/leatdev/leat/services/agent/internal/accounts"
	"github.com/leatdev/leat/services/agent/internal/carrier"
	"github.com/leatdev/leat/services/agent/internal/kube"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/uplink"
)

// Config holds the agent's settings. A field that is zero takes the default of its flag, except
// switches.
type Config struct {
	// Serve is for health and metrics only: callers never need to reach the agent. Telemetry has the
	// settings of all services.
	Serve     serve.Config
	Telemetry telemetry.Config
	// HubURL is the base URL of the distributor. Required, unless the hub dials the agent.
	HubURL string
	// TunnelURL is the base URL of the tunnel, for an agent that cannot use the one that the hub gives to
	// people and agents, such as one in a network of the hub's own. Empty: the hub's.
	TunnelURL string
	// ListenTunnelAddr is where the hub dials the agent, host:port, in clusters that may open no
	// connections: the agent then opens none to the hub. Empty: the agent dials the hub.
	ListenTunnelAddr string
	// TunnelListener is used instead of ListenTunnelAddr when it is set. Run closes it.
	TunnelListener net.Listener
	// HubKeys are the public keys by which an agent that is dialled knows the hub, as leat cluster
	// create prints them. Required with ListenTunnelAddr.
	HubKeys []string
	// HubCAFile holds the certificates to trust for distributor and tunnel, in PEM. Empty means the
	// system's.
	HubCAFile string
	// JoinToken enrols the agent. It is used when there is no identity in DataDir yet, or when the
	// hub rejects that one and the token was not used before. Empty means that the agent cannot
	// enrol.
	JoinToken secret.Text
	// Cluster is the name that the agent proposes for its cluster where JoinToken is a bootstrap token.
	// Empty: the hub makes one.
	Cluster string
	// DataDir holds the agent's key, its last plan, its bundles, and what it knows of applied
	// objects. Required, and one replica's alone.
	DataDir string
	// Kubeconfig is the file that leads to the cluster. Empty means the pod's service account; a
	// user's own current context is never used unless its file is named here.
	Kubeconfig string
	// Namespace is where the agent keeps inventories, identity and Lease. Agents of different hubs
	// can share a cluster if each has a namespace of its own. Empty: leat-system.
	Namespace string
	// Workers is how many services are worked on at once.
	Workers int
	// RefreshInterval is how often a service that nothing happened to is checked again, ±25 %. Its
	// bundles are compared with their digests; objects are applied only where they differ.
	RefreshInterval time.Duration
	// ApplyTimeout bounds one run of one service, and each of its waves. Waiting for health does
	// not count.
	ApplyTimeout time.Duration
	// CacheSize bounds the bundles on disk. Bundles of the plan are never evicted.
	CacheSize config.Bytes
	// LocalIdentity keeps the agent's identity in DataDir only. Otherwise it is in a Secret of the
	// cluster, too, so that it survives the loss of DataDir.
	LocalIdentity bool
	// ClusterView watches nodes, pods and warnings of the cluster, and tells the hub of them. Bind
	// sets it.
	ClusterView bool
	// TunnelTransports are the ways to open the tunnel that are tried, in order. Empty means all.
	TunnelTransports []string
	// LeaderElection lets one of several replicas work, while the others wait.
	LeaderElection bool
	// PodUID is the uid of the agent's own Pod, to which it attaches events. Empty: it makes none.
	PodUID string
	// Version is the agent's version in place of the program's. Not a flag.
	Version string
	// StallTimeout is how long a reader at the hub may take no byte of an answer before the API
	// server is told to stop.
	StallTimeout time.Duration
	// AllowedUsers and AllowedGroups bound the identities under which the hub may act in the
	// cluster. A name may hold at most one "*". Empty: any user, and the groups that begin with
	// "leat:". The agent always rejects Kubernetes' own identities, system:….
	AllowedUsers  []string
	AllowedGroups []string
	// LockDown refuses services without an account, regardless of the hub. AllowedAccounts are the
	// accounts that services may have then, as patterns namespace/name. Nil: every account outside of
	// Namespace. An empty list is an error.
	LockDown        bool
	AllowedAccounts []string
	// ServiceProxyAllow are the services that people may reach through the tunnel, such as
	// shop/web:8080. Empty: none.
	ServiceProxyAllow []string
	// ServiceProxyCAFile holds the certificates to trust for those with TLS, in PEM. Empty means
	// the cluster's CA.
	ServiceProxyCAFile string
	// ServiceDial connects to them instead of the network's own dialer, which refuses addresses of
	// this machine, if it is set. Not a flag.
	ServiceDial func(ctx context.Context, network, address string) (net.Conn, error)
	// DebugAddr serves profiles, on a loopback address. Empty: nowhere.
	DebugAddr string
	// Render configures the processes that build kustomizations.
	Render renderworker.Config
}

// Bind binds the fields.
func (c *Config) Bind(s *config.Set) {
	c.bind(s)
	c.Render.Bind(s)
	s.Check(c.check)
}

// bind binds the agent's own fields, and the listener's.
func (c *Config) bind(s *config.Set) {
	c.Serve.BindListener(s)
	c.Telemetry.Bind(s)
	work := reconcile.DefaultSettings()
	s.Group("Agent")
	s.String(&c.HubURL, "agent-hub-url", "", "base URL of the distributor")
	s.String(&c.TunnelURL, "agent-tunnel-url", "", "base URL at which the agent reaches the tunnel; empty: the one that the hub gives to all agents")
	s.String(&c.HubCAFile, "agent-hub-ca-file", "", "certificates to trust for distributor and tunnel, in PEM, instead of the system's")
	s.String(&c.ListenTunnelAddr, "agent-listen-tunnel-addr", "",
		"address, host:port, at which the hub dials the agent, whose cluster has to have an agentEndpoint; the agent opens no connection to the hub then. Empty: the agent dials the hub")
	s.Strings(&c.HubKeys, "agent-hub-keys", nil,
		"public keys by which an agent that is dialled knows the hub, as leat cluster create prints them; needed with --agent-listen-tunnel-addr")
	s.Secret(&c.JoinToken, "agent-join-token", "", "enrols the agent, once: the join token of its cluster, or a bootstrap token, with which the hub makes the cluster")
	s.String(&c.Cluster, "agent-cluster", "",
		"name that the agent proposes for its cluster with a bootstrap token, whose prefix it begins with; without it the hub makes a name of the prefix and the uid of kube-system")
	s.String(&c.DataDir, "agent-data-dir", "/var/lib/leat-agent", "folder for key, plan and bundles, and for configurations and fingerprints, which are sealed; of this replica alone")
	s.String(&c.Kubeconfig, "agent-kubeconfig", "", "file that leads to the cluster; without it the pod's service account is used")
	s.String(&c.Namespace, "agent-namespace", kube.DefaultNamespace, "namespace of the agent's own objects: inventories, identity and Lease")
	s.Int(&c.Workers, "agent-workers", work.Workers, "services that are worked on at once")
	s.Duration(&c.RefreshInterval, "agent-refresh-interval", work.Refresh,
		"how often a service that nothing happened to is looked at again, ±25 %: its bundles are compared with their digests, and objects applied only where they differ")
	s.Duration(&c.ApplyTimeout, "agent-apply-timeout", work.ApplyTimeout, "how long one run of one service, or one wave of it, may take without waiting for health")
	s.Size(&c.CacheSize, "agent-cache-size", 2*config.GiB, "bundles kept on disk; those of the plan are kept in any case")
	s.Bool(&c.LocalIdentity, "agent-local-identity", false, "keep the agent's key in its folder only, and not in Secret leat-agent-identity, too")
	s.Bool(&c.ClusterView, "agent-cluster-view", true, "tell the hub of nodes, pods by phase and warnings, for which they are watched")
	s.Bool(&c.LeaderElection, "agent-leader-election", false,
		"let one of several replicas work while the others wait; one of another version waits until it would do what the last one did")
	s.String(&c.PodUID, "agent-pod-uid", "", "uid of the agent's pod, to which it attaches an event if it may not take over; without it, only its log says so")
	s.Duration(&c.StallTimeout, "agent-stall-timeout", 2*time.Minute,
		"how long a person may take no byte of an answer that waits before its request to the API server is ended")
	s.Strings(&c.TunnelTransports, "agent-tunnel-transports", transportNames(),
		"ways to open the tunnel, tried in this order; what works is remembered. HTTPS_PROXY, HTTP_PROXY and NO_PROXY are obeyed")
	s.Strings(&c.AllowedUsers, "agent-allowed-users", nil,
		"users that the hub may be in this cluster, by names with one * at most, such as *@example.com; any without it, and never one of Kubernetes' own (system:…)")
	s.Strings(&c.AllowedGroups, "agent-allowed-groups", []string{uplink.DefaultGroups},
		"groups in which the hub may come to this cluster, by names with one * at most, such as leat:viewers,leat:group:*; never one of Kubernetes' own (system:…)")
	s.Bool(&c.LockDown, "agent-lock-down", false,
		"apply and delete nothing with the agent's own rights, whatever the hub says: each service needs a service account")
	s.Allow(&c.AllowedAccounts, "agent-allowed-accounts",
		"service accounts that services may have, with --agent-lock-down: patterns namespace/name, in which * stands for any text; without it every account "+
			"that services name, outside of the agent's namespace")
	s.Strings(&c.ServiceProxyAllow, "agent-service-proxy-allow", nil,
		"services that people may reach through the tunnel: namespace/service:port, or namespace/https:service:port for TLS, separated by commas; none without it")
	s.String(&c.ServiceProxyCAFile, "agent-service-proxy-ca-file", "",
		"certificates to trust for services with TLS, in PEM, instead of the cluster's CA")
	s.String(&c.DebugAddr, "agent-debug-addr", "", "loopback address to serve profiles on (pprof); empty means nowhere")
}

func (c *Config) check() error {
	var errs []error
	if c.HubURL == "" && !c.dialled() {
		errs = append(errs, config.Missing("agent-hub-url"))
	}
	if at, err := url.Parse(c.TunnelURL); c.TunnelURL != "" && (err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http") {
		errs = append(errs, fmt.Errorf("--agent-tunnel-url: got %q, want https://host or http://host", c.TunnelURL))
	}
	if c.TunnelURL != "" && c.dialled() {
		errs = append(errs, errors.New("--agent-tunnel-url: got a URL, want none with --agent-listen-tunnel-addr, by which the hub dials the agent"))
	}
	if c.dialled() && len(c.HubKeys) == 0 {
		errs = append(errs, config.Missing("agent-hub-keys"))
	}
	if _, err := identity.ParseHubKeys(c.HubKeys); err != nil {
		errs = append(errs, fmt.Errorf("--agent-hub-keys: %w", err))
	}
	if problems := validation.IsDNS1123Label(c.Cluster); c.Cluster != "" && len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--agent-cluster: got %q, want the name of a cluster, without its project", c.Cluster))
	}
	if c.dialled() && identity.IsBootstrapToken(c.JoinToken.Reveal()) {
		errs = append(errs, errors.New("--agent-join-token: got a bootstrap token, want the join token of the cluster, because the hub dials the agent and has to know it before"))
	}
	if c.DataDir == "" {
		errs = append(errs, config.Missing("agent-data-dir"))
	}
	if problems := validation.IsDNS1123Label(c.Namespace); c.Namespace != "" && len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--agent-namespace: got %q, want the name of a namespace", c.Namespace))
	}
	if c.Workers < 0 {
		errs = append(errs, fmt.Errorf("--agent-workers: got %d, want at least 1", c.Workers))
	}
	if c.StallTimeout < 0 {
		errs = append(errs, fmt.Errorf("--agent-stall-timeout: got %s, want at least 1s", c.StallTimeout))
	}
	for _, name := range c.TunnelTransports {
		if !slices.Contains(transportNames(), name) {
			errs = append(errs, fmt.Errorf("--agent-tunnel-transports: got %q, want some of %s", name, strings.Join(transportNames(), ", ")))
		}
	}
	if _, err := uplink.NewPeople(c.AllowedUsers, nil); err != nil {
		errs = append(errs, fmt.Errorf("--agent-allowed-users: %w", err))
	}
	if _, err := uplink.NewPeople(nil, c.AllowedGroups); err != nil {
		errs = append(errs, fmt.Errorf("--agent-allowed-groups: %w", err))
	}
	if _, err := c.lock(); err != nil {
		errs = append(errs, fmt.Errorf("--agent-allowed-accounts: %w", err))
	}
	if _, err := c.services(); err != nil {
		errs = append(errs, fmt.Errorf("--agent-service-proxy-allow: %w", err))
	}
	if c.DebugAddr != "" && !loopback(c.DebugAddr) {
		errs = append(errs, fmt.Errorf("--agent-debug-addr: got %q, want a loopback address such as 127.0.0.1:6060", c.DebugAddr))
	}
	errs = append(errs, c.Render.Check())
	if c.LeaderElection && c.LocalIdentity {
		errs = append(errs, errors.New("--agent-local-identity: got true, want false with --agent-leader-election, which needs the identity in the cluster"))
	}
	return errors.Join(errs...)
}

// lock returns the cluster's own bound of the accounts of services.
func (c *Config) lock() (accounts.Lock, error) {
	return accounts.NewLock(c.LockDown, c.AllowedAccounts, c.namespace())
}

// namespace returns the agent's own namespace.
func (c *Config) namespace() string { return cmp.Or(c.Namespace, kube.DefaultNamespace) }

// version returns the agent's version.
func (c *Config) version() string { return cmp.Or(c.Version, app.Version()) }

// dialled reports whether the hub dials the agent.
func (c *Config) dialled() bool { return c.ListenTunnelAddr != "" || c.TunnelListener != nil }

// tunnelURL returns what finds the tunnel: a fixed URL, or the one of the hub's latest answer.
func (c *Config) tunnelURL(ofHub func() string) func() string {
	if c.TunnelURL == "" {
		return ofHub
	}
	return func() string { return c.TunnelURL }
}

func transportNames() []string {
	var names []string
	for _, transport := range carrier.Transports() {
		names = append(names, string(transport))
	}
	return names
}

func (c *Config) transports() []carrier.Transport {
	var transports []carrier.Transport
	for _, name := range c.TunnelTransports {
		transports = append(transports, carrier.Transport(name))
	}
	return transports
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

func (c *Config) bundleDir() string {
	return filepath.Join(c.DataDir, "bundles")
}

// services are the services that people may reach through the tunnel.
func (c *Config) services() ([]uplink.Service, error) {
	var services []uplink.Service
	var errs []error
	for _, text := range c.ServiceProxyAllow {
		service, err := uplink.ParseService(text)
		if err != nil {
			errs = append(errs, err)
		}
		services = append(services, service)
	}
	return services, errors.Join(errs...)
}
