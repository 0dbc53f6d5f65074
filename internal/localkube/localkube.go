// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package localkube builds and runs a real Kubernetes control plane on the loopback interface, for
// tests and for trying Leat out: etcd, kube-apiserver, and, unless only these two are requested,
// kube-controller-manager, kube-scheduler and kwok, which simulates nodes whose pods become Ready
// without running anything.
//
// Build compiles the components once from the pinned modules in tools/kube and caches them. Start
// runs a control plane in a data directory. A later start in the same directory has the same
// objects and certificates and, if it is free, the same port. Any number of control planes can run
// side by side, each in its own directory.
//
//	binaries, err := localkube.Build(ctx, localkube.BuildParams{Progress: show})
//	cp, err := localkube.Start(ctx, localkube.Params{Binaries: binaries, DataDir: dir})
//	defer cp.Stop(ctx)
//
// Tests call kubetest.Start instead. The package imports no library of others, so that its
// users do not link a Kubernetes client.
package localkube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/durable"
)

// startTimeout bounds Start. A start takes some seconds; the bound is for very busy machines.
const startTimeout = 3 * time.Minute

// Params describes what Start runs, and where.
type Params struct {
	Binaries Binaries // from Build
	DataDir  string   // made when absent; holds all state, logs and credentials; required

	Name          string // of the kubeconfig's cluster, user and context; empty means "leat-local"
	Nodes         int    // how many nodes to make, unless earlier starts made them; 0 means 1
	APIServerOnly bool   // no controllers, no scheduler, no nodes: objects stay as they are written
	// NodesLater: Start returns when the API server is ready, and StartNodes runs the other
	// components. Start then needs the binaries of etcd and kube-apiserver alone.
	NodesLater bool
	// Simulated: the control plane gives what a cloud would give. Load balancers and ingresses get
	// addresses, at which nothing answers, and pods and nodes have metrics, by which they idle.
	// Without it they wait for both.
	Simulated bool
	Audit     bool // record every request's metadata, see AuditLogPath

	// Kubelet is a configuration for kwok, in YAML: what exec, attach, logs and port-forward do to
	// its pods (ClusterExec, ClusterAttach, ClusterLogs, ClusterPortForward). With it kwok serves
	// what a kubelet serves, on the loopback interface, without authentication. A ClusterExec runs
	// its commands on this machine, as this user: for tests only. Empty: kwok serves nothing.
	Kubelet string
}

// ControlPlane is a control plane that was started. Its methods are safe for
// concurrent use. Its processes die with the one that started it.
type ControlPlane struct {
	dir        string
	host       string
	kubeconfig []byte
	audit      bool
	client     *client
	lock       io.Closer      // of dir
	metrics    *metricsServer // nil unless Params.Simulated
	processes  []*process     // in the order in which they were started; Start, StartNodes and StartAPIServer alone write it
	failed     chan struct{}  // closed when err is set

	restarting sync.Mutex // held while components are started or stopped after Start; before mu

	mu       sync.Mutex
	stopping bool
	err      error
}

// Start runs a control plane and returns when it is ready: the API server
// answers /readyz with ok and, unless p.APIServerOnly or p.NodesLater, all nodes
// are Ready and the default namespace accepts pods. The control plane outlives
// ctx: end it with Stop. After an error nothing is left running.
func Start(ctx context.Context, p Params) (*ControlPlane, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()

	cp, err := open(p)
	if err != nil {
		return nil, fmt.Errorf("open control plane: %w", err)
	}
	if err := cp.start(ctx, p); err != nil {
		cp.kill()
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	for _, process := range cp.processes {
		go cp.watch(process)
	}
	return cp, nil
}

// open creates and locks p.DataDir.
func open(p Params) (*ControlPlane, error) {
	if p.DataDir == "" {
		return nil, errors.New("no data directory given")
	}
	dir, err := filepath.Abs(p.DataDir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, runDir), 0o700); err != nil {
		return nil, err
	}
	held, err := lock(filepath.Join(dir, "lock"))
	if errors.Is(err, durable.ErrLocked) {
		return nil, fmt.Errorf("%s is in use: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	return &ControlPlane{dir: dir, audit: p.Audit, lock: held, failed: make(chan struct{})}, nil
}

// lock takes the lock on a file.
func lock(path string) (io.Closer, error) {
	held, err := durable.Lock(path)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, errors.New("a local control plane needs Linux or macOS: use your own cluster with --kubeconfig")
	}
	return held, err
}

// start runs the components in the order of their dependencies.
func (cp *ControlPlane) start(ctx context.Context, p Params) error {
	keys, err := ensurePKI(cp.path("pki"))
	if err != nil {
		return err
	}
	if _, err := cp.run(cp.etcd(p)); err != nil {
		return err
	}
	if err := cp.startAPIServer(ctx, p, keys); err != nil {
		return err
	}
	if p.APIServerOnly {
		return nil
	}
	if err := cp.recordEtcdVersion(ctx); err != nil || p.NodesLater {
		return err
	}
	return cp.startUsers(ctx, p, keys)
}

// StartNodes runs, after a Start with p.NodesLater, the components that use the API server. It
// returns when all nodes are Ready and the default namespace accepts pods. p is what Start had,
// with the remaining binaries. After an error the control plane must be stopped.
func (cp *ControlPlane) StartNodes(ctx context.Context, p Params) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cp.restarting.Lock()
	defer cp.restarting.Unlock()
	cp.mu.Lock()
	stopping := cp.stopping
	cp.mu.Unlock()
	const servers = apiServerPlace + 1
	if stopping || len(cp.processes) > servers {
		return errors.New("start nodes: the control plane was stopped, or has nodes")
	}
	keys, err := ensurePKI(cp.path("pki"))
	if err != nil {
		return fmt.Errorf("start nodes: %w", err)
	}
	err = cp.startUsers(ctx, p, keys)
	for _, process := range cp.processes[servers:] {
		go cp.watch(process)
	}
	if err != nil {
		return fmt.Errorf("start nodes: %w", err)
	}
	return nil
}

// startUsers runs the components that use the API server.
func (cp *ControlPlane) startUsers(ctx context.Context, p Params, keys pki) error {
	if err := cp.releaseNodes(ctx); err != nil {
		return err
	}
	if p.Simulated {
		var err error
		if cp.metrics, err = serveMetrics(ctx, cp.client, keys); err != nil {
			return err
		}
	}
	nodes, err := cp.kwok(ctx, p)
	if err != nil {
		return err
	}
	for _, c := range []command{cp.controllerManager(p, keys), cp.scheduler(p), nodes} {
		if _, err := cp.run(c); err != nil {
			return err
		}
	}
	return cp.startNodes(ctx, max(p.Nodes, 1))
}

// Host returns the URL of the API server.
func (cp *ControlPlane) Host() string { return cp.host }

// Kubeconfig returns a self-contained kubeconfig in YAML for an administrator.
func (cp *ControlPlane) Kubeconfig() []byte { return bytes.Clone(cp.kubeconfig) }

// KubeconfigPath returns the path of the kubeconfig file.
func (cp *ControlPlane) KubeconfigPath() string { return cp.path("kubeconfig") }

// HTTPClient returns a client that calls Host as an administrator.
func (cp *ControlPlane) HTTPClient() *http.Client { return cp.client.http }

// LogDir returns the folder with one log file per component.
func (cp *ControlPlane) LogDir() string { return cp.path("logs") }

// AuditLogPath returns the file with one JSON audit event per line and request, each complete once
// the request has been answered. It is empty without Params.Audit.
func (cp *ControlPlane) AuditLogPath() string {
	if !cp.audit {
		return ""
	}
	return cp.path(filepath.Join("logs", "audit.log"))
}

// Failed is closed when a component ends unexpectedly. Err then returns which component, why, and
// its last output. The others run until Stop.
func (cp *ControlPlane) Failed() <-chan struct{} { return cp.failed }

// Err returns nil until Failed is closed.
func (cp *ControlPlane) Err() error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	return cp.err
}

func (cp *ControlPlane) path(name string) string { return filepath.Join(cp.dir, name) }

// run starts a component.
func (cp *ControlPlane) run(c command) (*process, error) {
	p, err := startProcess(c)
	if err != nil {
		return nil, err
	}
	cp.processes = append(cp.processes, p)
	return p, nil
}

// watch waits for the end of a component and records it, unless it was expected.
func (cp *ControlPlane) watch(p *process) {
	<-p.done
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.stopping || p.expected || cp.err != nil {
		return
	}
	cp.err = p.failure()
	close(cp.failed)
}
