// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

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
	// processes are in the order in which they were started. Start, StartNodes and StartAPIServer alone
	// write it.
	processes []*process
	failed    chan struct{} // closed when err is set

	restarting sync.Mutex // held while components are started or stopped after Start; before mu

	mu       sync.Mutex
	stopping bool
	err      error
}

// runDir is the folder, in the data directory, in which all components run.
const runDir = "run"

// The indexes of the servers among the processes: they are started first.
const (
	etcdPlace = iota
	apiServerPlace
)

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

// waitFor polls until check returns nil. It fails when ctx or a component ends; the error names
// what it waited for and the last result.
func (cp *ControlPlane) waitFor(ctx context.Context, what string, check func(context.Context) error) error {
	const interval = 50 * time.Millisecond
	for {
		last := check(ctx)
		if last == nil {
			return nil
		}
		for _, p := range cp.processes {
			if p.ended() {
				return p.failure()
			}
		}
		if err := sleep(ctx, interval); err != nil {
			newest := cp.processes[len(cp.processes)-1]
			return fmt.Errorf("wait for %s: %w; last answer: %w%s", what, err, last, newest.logTail())
		}
	}
}

// etcdClient returns a client of etcd's socket, through a link that is short enough for the name of
// a socket.
func (cp *ControlPlane) etcdClient() (etcd *client, end func(), err error) {
	dir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		return nil, nil, err
	}
	link := filepath.Join(dir, "s")
	if err := os.Symlink(cp.path(filepath.Join(runDir, "etcd.sock")), link); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	etcd = &client{host: "http://etcd", http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", link)
		},
	}}}
	return etcd, func() {
		etcd.close()
		_ = os.RemoveAll(dir)
	}, nil
}
