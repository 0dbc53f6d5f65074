// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/await"
)

// place is where a pod of the tests connects from.
type place struct {
	namespace string
	labels    []string
	// reaches are the targets that answer; all others do not.
	reaches []string
}

// checkPolicies connects from pods of several namespaces to every port of the hub and of the agent.
// The network enforces policies some time after a pod has started, so each row is read until it is
// right.
func (h *trial) checkPolicies(t *testing.T) {
	targets := h.targets(t)
	for name, p := range map[string]place{
		"another namespace": {namespace: "elsewhere", reaches: []string{"tunnel", "node"}},
		"an ingress":        {namespace: "ingress", labels: []string{"leat.dev/ingress=true"}, reaches: []string{"tunnel", "distributor", "gitcache", "node"}},
		"a monitoring":      {namespace: "monitoring", labels: []string{"leat.dev/monitoring=true"}, reaches: []string{"tunnel", "gitcache health", "distributor health", "tunnel health", "agent", "node"}},
		"the hub's own":     {namespace: "leat", reaches: nil},
		"the agent's":       {namespace: "leat-system", reaches: []string{"tunnel", "distributor", "gitcache", "node"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if p.namespace != "leat" && p.namespace != "leat-system" {
				h.namespace(t, p.namespace, append(p.labels, "pod-security.kubernetes.io/enforce=restricted")...)
			}
			h.apply(t, `apiVersion: v1
kind: Pod
metadata: { name: caller, namespace: `+p.namespace+` }
spec:
  terminationGracePeriodSeconds: 0
  securityContext: `+restrictedPod+`
  containers: [{ name: caller, image: "busybox:1.37", command: [sleep, "86400"], securityContext: `+restrictedContainer+` }]
`)
			t.Cleanup(func() { h.kubectl(t, "--namespace", p.namespace, "delete", "pod", "caller", "--wait=false") })
			h.kubectl(t, "--namespace", p.namespace, "wait", "--for=condition=Ready", "pod/caller", patience)
			want := map[string]bool{}
			for target := range targets {
				want[target] = slices.Contains(p.reaches, target)
			}
			await.Success(t, "the policies for "+name, func(context.Context) error {
				if got := h.connects(t, p.namespace, targets); !maps.Equal(got, want) {
					return fmt.Errorf("got %v, want %v", got, want)
				}
				return nil
			})
		})
	}
}

// targets returns a host and port for each port of the hub and of the agent, and a server of the
// test outside of the cluster.
func (h *trial) targets(t *testing.T) map[string]string {
	t.Helper()
	address := func(namespace, service, port string) string {
		return net.JoinHostPort(h.pods(t, namespace, service)[0].Status.PodIP, port)
	}
	return map[string]string{
		"redis": address("leat", "redis", "6379"), "postgres": address("leat", "postgres", "5432"),
		"gitcache": address("leat", "gitcache", "8702"), "gitcache health": address("leat", "gitcache", "8790"),
		"distributor": address("leat", "distributor", "8700"), "distributor health": address("leat", "distributor", "8790"),
		"tunnel": address("leat", "tunnel", "8701"), "tunnel health": address("leat", "tunnel", "8790"), "tunnel peers": address("leat", "tunnel", "8705"),
		"agent": address("leat-system", "leat-agent", "8703"), "node": net.JoinHostPort(h.address, "80"),
	}
}

// connects returns which targets the caller's pod of a namespace can connect to.
func (h *trial) connects(t *testing.T, namespace string, targets map[string]string) map[string]bool {
	t.Helper()
	var script strings.Builder
	for name, target := range targets {
		host, port, _ := net.SplitHostPort(target)
		fmt.Fprintf(&script, "(nc -z -w 2 %s %s && echo '%s') &\n", host, port, name)
	}
	script.WriteString("wait\n")
	out := h.kubectl(t, "--namespace", namespace, "exec", "caller", "--", "sh", "-c", script.String())
	open := map[string]bool{}
	for name := range targets {
		open[name] = slices.Contains(strings.Split(out, "\n"), name)
	}
	return open
}
