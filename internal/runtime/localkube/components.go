// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/leatdev/leat/internal/runtime/localkube/keys"
)

// Addresses inside the cluster. They are not routed.
const (
	serviceRange = "10.0.0.0/16" // keys.ServiceIP is in it
	podRange     = "10.244.0.0/16"
)

// etcdSocket is where etcd listens, relative to runDir. A socket in a private folder cannot be
// reached by other users and takes no port, and a relative path stays below the 108 bytes that the
// name of a socket may have.
const etcdSocket = "unix://etcd.sock"

// auditPolicy records the caller, the request and the outcome, without bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1

kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

func (cp *ControlPlane) command(name, path string, args ...string) command {
	return command{name: name, path: path, args: args, dir: cp.path(runDir), log: filepath.Join(cp.LogDir(), name+".log")}
}

func (cp *ControlPlane) etcd(p Params) command {
	const peerSocket = "unix://etcd-peer.sock"
	return cp.command("etcd", p.Binaries.Etcd,
		"--data-dir", cp.path("etcd"),
		"--listen-client-urls", etcdSocket,
		"--advertise-client-urls", etcdSocket,
		"--listen-peer-urls", peerSocket,
		"--initial-advertise-peer-urls", peerSocket,
		"--initial-cluster", "default="+peerSocket,
		// The data has to survive the end of the process, but not a crash of the machine.
		"--unsafe-no-fsync",
		"--log-level", "warn",
	)
}

func (cp *ControlPlane) apiServer(p Params, files keys.Dir, port int) (command, error) {
	args := []string{
		"--etcd-servers", etcdSocket,
		"--bind-address", "127.0.0.1",
		"--advertise-address", "127.0.0.1",
		"--secure-port", strconv.Itoa(port),
		"--tls-cert-file", files.Path(keys.ServerCert),
		"--tls-private-key-file", files.Path(keys.ServerKey),
		"--client-ca-file", files.Path(keys.CACert),
		"--authorization-mode", "RBAC",
		"--allow-privileged",
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", files.Path(keys.AccountPub),
		"--service-account-signing-key-file", files.Path(keys.AccountKey),
		"--service-cluster-ip-range", serviceRange,
		// The addresses behind the service kubernetes.default, which no pod
		// here can use. Keeping them would cost time at every stop.
		"--endpoint-reconciler-type", "none",
		"--profiling=false",
	}
	if p.APIServerOnly {
		// Without a controller that makes service accounts, no pod would be admitted.
		args = append(args, "--disable-admission-plugins", "ServiceAccount")
	}
	if p.Simulated { // it proves itself to the API of metrics
		args = append(args,
			"--proxy-client-cert-file", files.Path(keys.AdminCert), "--proxy-client-key-file", files.Path(keys.AdminKey))
	}
	if p.Audit {
		policy := cp.path("audit-policy.yaml")
		if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
			return command{}, fmt.Errorf("write audit policy: %w", err)
		}
		args = append(args, "--audit-policy-file", policy, "--audit-log-path", cp.AuditLogPath())
	}
	return cp.command("kube-apiserver", p.Binaries.APIServer, args...), nil
}

func (cp *ControlPlane) controllerManager(p Params, files keys.Dir) command {
	args := append(cp.clientFlags(),
		"--service-account-private-key-file", files.Path(keys.AccountKey),
		"--root-ca-file", files.Path(keys.CACert),
		// Simulated nodes do not fail: one that is silent for 50 s runs on a machine that is busy, or
		// was asleep. As not ready it would lose its pods, and by kwok's stages its addresses.
		"--node-monitor-grace-period", "1h",
	)
	if p.Simulated { // so that an autoscaler settles while a person watches
		args = append(args, "--horizontal-pod-autoscaler-sync-period", "3s")
	}
	return cp.command("kube-controller-manager", p.Binaries.ControllerManager, args...)
}

func (cp *ControlPlane) scheduler(p Params) command {
	return cp.command("kube-scheduler", p.Binaries.Scheduler, cp.clientFlags()...)
}

// clientFlags are for those components of Kubernetes that use the API server. They need no leader
// election, serve nothing, and are not limited to their default of 20 requests a second.
func (cp *ControlPlane) clientFlags() []string {
	return []string{
		"--kubeconfig", cp.KubeconfigPath(),
		"--leader-elect=false",
		"--secure-port", "0",
		"--kube-api-qps", "500",
		"--kube-api-burst", "1000",
		"--profiling=false",
	}
}

func (cp *ControlPlane) kwok(ctx context.Context, p Params) (command, error) {
	stages := cp.path("kwok-stages.yaml")
	if err := os.WriteFile(stages, kwokStages, 0o600); err != nil {
		return command{}, fmt.Errorf("write stages: %w", err)
	}
	args := []string{
		"--kubeconfig", cp.KubeconfigPath(),
		"--config", stages,
		"--manage-all-nodes",
		"--node-ip", "127.0.0.1",
		"--cidr", podRange,
		"--node-lease-duration-seconds", "40",
	}
	if p.Simulated {
		simulated := cp.path("simulated.yaml")
		if err := os.WriteFile(simulated, simulatedStages, 0o600); err != nil {
			return command{}, fmt.Errorf("write stages: %w", err)
		}
		args = append(args, "--config", simulated)
	}
	if p.Kubelet != "" {
		more, err := cp.kubelet(ctx, p)
		if err != nil {
			return command{}, err
		}
		args = append(args, more...)
	}
	c := cp.command("kwok", p.Binaries.Kwok, args...)
	c.env = []string{"KWOK_WORKDIR=" + cp.path("kwok")} // ignore the configuration in the user's home
	return c, nil
}

// kubelet makes kwok serve the kubelet API, with its own certificate, which the API server does not
// verify.
func (cp *ControlPlane) kubelet(ctx context.Context, p Params) ([]string, error) {
	config := cp.path("kubelet.yaml")
	if err := os.WriteFile(config, []byte(p.Kubelet), 0o600); err != nil {
		return nil, fmt.Errorf("write kubelet's configuration: %w", err)
	}
	port, err := freePort(ctx, 0)
	if err != nil {
		return nil, err
	}
	number := strconv.Itoa(port)
	return []string{"--config", config, "--node-port", number, "--server-address", net.JoinHostPort("127.0.0.1", number)}, nil
}
