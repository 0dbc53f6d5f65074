// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package attack_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/internal/testkit/selfsigned"
)

// rig is a hub and an agent as an operator runs them, each part in a separate process, and the
// peers for the comparison.
type rig struct {
	dir   string
	redis *redistest.Server

	gitcache, distributor, tunnel, agent *server
	secureTunnel                         *server // another replica, with TLS and without Redis
	peer, securePeer                     *server
	// peers is the address at which the tunnel listens for other replicas.
	peers string

	probe   agentKey // key of an agent for normal requests
	hostile agentKey // key of an agent that attacks
}

// startRig starts all processes.
func startRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir(), redis: redistest.Start(t)}
	if answer := r.ask(t, "CONFIG SET requirepass "+redisPassword); !strings.HasPrefix(answer, "+OK") {
		t.Fatalf("give Redis a password: %s", answer)
	}
	redis := "redis://:" + redisPassword + "@" + r.redis.Addr() + "/0"
	r.peer = r.startPeer(t, "net/http")
	certificate, key := selfsigned.New(t).Write(t, r.dir)
	r.securePeer = r.startPeer(t, "net/http, TLS", certificate, key)
	r.peers = loopback.Addr(t)
	gitcache, distributor, tunnel := loopback.Addr(t), loopback.Addr(t), loopback.Addr(t)
	r.gitcache = r.startService(t, "gitcache", gitcache, append(trusted("gitcache"),
		"LEAT_REDIS_URL="+redis, "LEAT_GITCACHE_DATA_DIR="+r.folder(t, "gitcache"), "LEAT_GITCACHE_ADVERTISE_URL=http://"+gitcache,
		"LEAT_GITCACHE_WEBHOOK_SECRET=a-secret-of-the-webhooks-of-this-test"))
	r.distributor = r.startService(t, "distributor", distributor, append(trusted("distributor"),
		"LEAT_GITCACHE_URL=http://"+gitcache, "LEAT_TUNNEL_URL=http://"+tunnel, "LEAT_DISTRIBUTOR_DATA_DIR="+r.folder(t, "distributor"),
		"LEAT_DISTRIBUTOR_DATABASE_URL=sqlite://"+filepath.Join(r.dir, "catalog.db"), "LEAT_DISTRIBUTOR_ADMIN_TOKEN="+adminToken))
	r.probe, r.hostile = r.enrol(t, "probe"), r.enrol(t, hostileCluster)
	hub := append(trusted("tunnel"), "LEAT_DISTRIBUTOR_URL=http://"+distributor)
	r.tunnel = r.startService(t, "tunnel", tunnel, append(hub,
		"LEAT_REDIS_URL="+redis, "LEAT_TUNNEL_PEER_LISTEN_ADDR="+r.peers, "LEAT_TUNNEL_ADVERTISE_URL=http://"+r.peers))
	r.secureTunnel = r.startService(t, "tunnel", loopback.Addr(t), append(hub, "LEAT_TLS_CERT_FILE="+certificate, "LEAT_TLS_KEY_FILE="+key))
	r.agent = r.startService(t, "agent", loopback.Addr(t), []string{
		"LEAT_AGENT_HUB_URL=http://" + distributor, "LEAT_AGENT_JOIN_TOKEN=" + r.joinToken(t, "attacked"),
		"LEAT_AGENT_DATA_DIR=" + r.folder(t, "agent"), "LEAT_AGENT_KUBECONFIG=" + r.kubeconfig(t), "LEAT_AGENT_LOCAL_IDENTITY=true",
		"LEAT_AGENT_CLUSTER_VIEW=false",
	})
	if r.tunnel.public == r.tunnel.internal { // so that peer and service have the same number of ports
		r.peer.internal, r.securePeer.internal = r.peer.public, r.securePeer.public
	}
	return r
}

// all returns every server that may be attacked.
func (r *rig) all() []*server {
	return []*server{r.peer, r.securePeer, r.gitcache, r.distributor, r.tunnel, r.secureTunnel, r.agent}
}

func (r *rig) folder(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(r.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// These are flags that not every service has.
const (
	// internalPort sets a separate port for health, metrics and reflection.
	internalPort = "--internal-listen-addr"
	// proxyProtocol and trustedProxies are for connections through a load balancer.
	proxyProtocol, trustedProxies = "--proxy-protocol", "--trusted-proxies"
)

// startService starts a program with the limits of its pod. The program gets a second port if it
// has the flag for one.
func (r *rig) startService(t *testing.T, program, addr string, env []string) *server {
	t.Helper()
	binary, pod := build(t, "services/"+program+"/cmd/"+program), shipped(t, program)
	s := &server{
		name: program, service: program, args: []string{binary, "--listen-addr", addr}, limit: pod.memory,
		env: append(append(pod.env, "LEAT_LOG_LEVEL=error"), env...), public: addr, internal: addr, procedures: proceduresOf(program),
	}
	for _, variable := range env {
		s.secure = s.secure || strings.HasPrefix(variable, "LEAT_TLS_CERT_FILE=")
	}
	if s.secure {
		s.name += ", TLS"
	}
	s.log = filepath.Join(r.dir, strings.ReplaceAll(s.name, ", ", "-")+".log")
	help, err := exec.CommandContext(t.Context(), binary, "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%s --help: %v\n%s", program, err, help)
	}
	if strings.Contains(string(help), internalPort) {
		s.internal = loopback.Addr(t)
		s.args = append(s.args, internalPort, s.internal)
	}
	if strings.Contains(string(help), proxyProtocol) {
		s.proxied = true
		s.args = append(s.args, proxyProtocol, trustedProxies, balancer)
	}
	t.Cleanup(s.stop)
	s.run(t)
	return s
}

// startPeer starts net/http. The kernel chooses its ports, so a restart would change them. It is
// never restarted: it has no limit, and does not end.
func (r *rig) startPeer(t *testing.T, name string, files ...string) *server {
	t.Helper()
	s := &server{
		name: name, service: "peer", args: append([]string{build(t, "test/attack/cmd/peer")}, files...), secure: len(files) > 0,
		log: filepath.Join(t.TempDir(), "log"), procedures: proceduresOf("peer"),
	}
	t.Cleanup(s.stop)
	s.start(t)
	await.True(t, "the addresses that "+name+" prints", func() bool {
		file, err := os.Open(s.log)
		if err != nil {
			return false
		}
		defer file.Close()
		var addrs []string
		for lines := bufio.NewScanner(file); lines.Scan(); {
			addrs = append(addrs, lines.Text())
		}
		if len(addrs) == 2 {
			s.public, s.internal = addrs[0], addrs[1]
		}
		return len(addrs) == 2
	})
	s.idle, _ = s.memory()
	return s
}

// kubeconfig writes a kubeconfig for an API server that answers 404 to everything.
func (r *rig) kubeconfig(t *testing.T) string {
	t.Helper()
	cluster := httptest.NewUnstartedServer(http.NotFoundHandler())
	cluster.Config.ErrorLog = log.New(io.Discard, "", 0)
	cluster.Start()
	t.Cleanup(cluster.Close)
	file := filepath.Join(r.dir, "kubeconfig")
	content, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "it",
		"clusters": []any{map[string]any{"name": "it", "cluster": map[string]any{"server": cluster.URL}}},
		"users":    []any{map[string]any{"name": "it", "user": map[string]any{"token": "the agent's own"}}},
		"contexts": []any{map[string]any{"name": "it", "context": map[string]any{"cluster": "it", "user": "it"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// anyCertificate returns a configuration that accepts any certificate: the rig has just made it.
func anyCertificate() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// client returns a client that opens a new connection for each request, as occasional users do.
func (s *server) client() *http.Client {
	return &http.Client{Timeout: answerWithin, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: anyCertificate(),
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return s.dial(ctx, addr, normalAddress, normalLoopback)
		},
	}}
}
