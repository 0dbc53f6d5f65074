// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/bench/internal/process"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/internal/testkit/loopback"
)

// replica is a tunnel service.
type replica struct {
	*process.Process

	address, url string
	restart      func(b *testing.B)
}

// hub starts a replica, which writes its audit log into a file as it would beside a collector, and
// returns when it is ready. Replicas that share a Redis form one hub. Settings are added to its
// environment.
func (s *bench) hub(b *testing.B, d *distributor, encrypted bool, redis string, settings ...string) *replica {
	b.Helper()
	binary := s.service(b, "tunnel")
	audit, err := os.Create(filepath.Join(b.TempDir(), "audit.log"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = audit.Close() })
	r := &replica{address: loopback.Addr(b)}
	r.url = "http://" + r.address
	internal, peers := loopback.Addr(b), loopback.Addr(b)
	args := []string{"--listen-addr", r.address, "--internal-listen-addr", internal}
	if encrypted {
		r.url = "https://" + r.address
		args = append(args, "--tls-cert-file", s.certFile, "--tls-key-file", s.keyFile)
	}
	env := []string{"LEAT_DISTRIBUTOR_URL=" + d.url, "LEAT_SERVICE_SECRET=" + hubkeys.Secret(identity.ServiceTunnel), "LEAT_SERVICE_KEYS=" + strings.Join(hubkeys.List(), ","), "LEAT_LOG_LEVEL=error"}
	if redis != "" {
		env = append(env, "LEAT_REDIS_URL="+redis, "LEAT_TUNNEL_PEER_LISTEN_ADDR="+peers, "LEAT_TUNNEL_ADVERTISE_URL="+strings.Replace(r.url, r.address, peers, 1), "LEAT_TUNNEL_PEER_CA_FILE="+s.certFile)
	}
	env = append(env, settings...)
	r.restart = func(b *testing.B) {
		b.Helper()
		r.Process = process.Start(b, process.Params{Binary: binary, Args: args, Env: env, Stdout: audit})
		client := s.over(b, false)
		await(b, "a ready hub", func() bool { return s.ready(b, client, "http://"+internal) })
	}
	r.restart(b)
	return r
}

func (s *bench) ready(b *testing.B, client *http.Client, url string) bool {
	b.Helper()
	status, err := get(b.Context(), client, url+"/readyz", "", nil)
	return err == nil && status == http.StatusOK
}

// agent starts a real agent for a cluster whose API server is the double. It does not wait for its
// connection.
func (s *bench) agent(b *testing.B, binary string, d *distributor, cluster, api string) *process.Process {
	b.Helper()
	dir := b.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, kubeconfigForm, api, s.certFile), 0o600); err != nil {
		b.Fatal(err)
	}
	return process.Start(b, process.Params{
		Binary: binary, Args: []string{"--listen-addr", loopback.Addr(b)},
		Env: []string{
			"LEAT_AGENT_HUB_URL=" + d.url, "LEAT_AGENT_HUB_CA_FILE=" + s.certFile, "LEAT_AGENT_JOIN_TOKEN=" + joinToken + cluster,
			"LEAT_AGENT_DATA_DIR=" + filepath.Join(dir, "data"), "LEAT_AGENT_KUBECONFIG=" + kubeconfig,
			"LEAT_AGENT_LOCAL_IDENTITY=true", "LEAT_AGENT_CLUSTER_VIEW=false", "LEAT_LOG_LEVEL=error",
		},
	})
}

const kubeconfigForm = `apiVersion: v1
kind: Config
clusters:
- name: edge
  cluster: {server: "https://%s", certificate-authority: "%s"}
users:
- name: agent
  user: {token: "agent"}
contexts:
- name: edge
  context: {cluster: edge, user: agent}
current-context: edge
`

// leat starts hub and agent, with a link between them. Settings are the hub's.
func (s *bench) leat(b *testing.B, api string, rtt time.Duration, settings ...string) *side {
	b.Helper()
	d := startDistributor(b)
	hub := s.hub(b, d, true, "", settings...)
	d.sendTo("https://" + s.link(b, hub.address, rtt))
	agent := s.agent(b, s.service(b, "agent"), d, "edge", api)
	l := &side{bench: s, name: "leat", url: "https://" + hub.address + "/clusters/edge", token: d.user(b, "ada"), hub: hub.Process, agent: agent}
	l.others = func(b *testing.B) string { b.Helper(); return d.user(b, "grace") }
	l.await(b)
	return l
}

// await returns when requests reach the API server.
func (s *side) await(b *testing.B) {
	b.Helper()
	client := &http.Client{Transport: s.fresh()} // not the client whose first requests failed
	await(b, s.name, func() bool {
		status, err := get(b.Context(), client, s.url+pathSmall, s.token, nil)
		return err == nil && status == http.StatusOK
	})
}
