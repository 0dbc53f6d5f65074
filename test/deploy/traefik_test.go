// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/program"
	"github.com/leatdev/leat/internal/testkit/selfsigned"
	"github.com/leatdev/leat/test/charts"
)

const (
	// traefikHome is the variable with the folder of tools/traefik, by which the test knows that it is
	// in its own network.
	traefikHome = "LEAT_TEST_TRAEFIK"
	// inNetwork is the address of that network where everything listens. API servers refuse loopback
	// addresses as endpoints.
	inNetwork = "10.99.0.1"
	// publicHost is how callers name the hub.
	publicHost = "leat.example.com"
)

// TestSlowTraefik runs a real Traefik as docs/operations/ways-in.md has it, which reads what the chart
// makes from a real API server: Ingresses, and routes of the Gateway API. Doubles of the hub's
// services are behind it.
func TestSlowTraefik(t *testing.T) {
	if os.Getenv("LEAT_SLOW") == "" {
		t.Skip("LEAT_SLOW is not set: Traefik is left to `make slow`")
	}
	home := os.Getenv(traefikHome)
	if home == "" {
		runInNetwork(t, program.Build(t, "traefik"))
		return
	}
	c := startCluster(t)
	c.mustRun(t, "", "delete", "customresourcedefinition", "httproutes.gateway.networking.k8s.io") // a short form of it
	c.mustRun(t, "", "apply", "--server-side", "-f", filepath.Join(home, "crds"))
	c.mustRun(t, "", "wait", "--for=condition=Established", "customresourcedefinitions", "--all", "--timeout=300s")
	certificate := selfsigned.New(t, publicHost)
	for _, w := range []struct{ name, routes, more string }{
		{"Ingress", "kind: ingress, className: traefik, tlsSecretName: leat-public", ""},
		{"Gateway", "kind: gateway, gateway: { name: public }", `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: traefik }
spec: { controllerName: traefik.io/gateway-controller }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: public, namespace: hub }
spec:
  gatewayClassName: traefik
  listeners:
    - { name: https, port: 8443, protocol: HTTPS, hostname: ` + publicHost + `, tls: { certificateRefs: [{ name: leat-public }] } }
`},
	} {
		t.Run(w.name, func(t *testing.T) {
			values := fmt.Sprintf("{ hub: { url: \"https://%s\" }, database: { cidrs: [10.1.0.0/16] }, routes: { %s } }", publicHost, w.routes)
			objects := render(t, installation{chart: charts.Hub, values: values})
			c.namespace(t, "hub")
			c.apply(t, "{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, metadata: {name: leat-public, namespace: hub}, data: {tls.crt: "+
				base64.StdEncoding.EncodeToString(certificate.PEM)+", tls.key: "+base64.StdEncoding.EncodeToString(certificate.KeyPEM)+"}}")
			for service, addr := range startDoubles(t, net.JoinHostPort(inNetwork, "0"), nil) {
				_, port, _ := net.SplitHostPort(addr)
				c.apply(t, string(objects["Service/"+service]))
				c.apply(t, fmt.Sprintf(endpoints, service, inNetwork, port))
			}
			if w.more != "" {
				c.apply(t, w.more)
			}
			for name, text := range objects {
				if strings.HasPrefix(name, "Ingress/") || strings.HasPrefix(name, "HTTPRoute/") {
					c.apply(t, string(text))
				}
			}
			f := c.startTraefik(t, home, w.name, certificate)
			routed, _ := ingressPaths(t, render(t, installation{
				chart: charts.Hub, values: strings.Replace(values, w.routes, "kind: ingress", 1),
			}))
			f.wantPaths(t, routed)
			f.wantQuietStream(t)
			f.wantUpgrades(t)
			if w.name == "Gateway" { // which follows the appProtocol of the distributor's Service
				f.wantStreams(t, "/leat.distributor.v1.DistributorService/WatchPlan")
			}
		})
	}
}

// endpoints are where a Service is, as the controllers of a whole cluster would write it down.
const endpoints = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: %[1]s, namespace: hub, labels: { kubernetes.io/service-name: %[1]s } }
addressType: IPv4
endpoints: [{ addresses: ["%[2]s"], conditions: { ready: true } }]
ports: [{ name: http, port: %[3]s }]
`

// runInNetwork runs the test again in a network of its own, in which the address is one of the
// machine's.
func runInNetwork(t *testing.T, home string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "unshare", "--user", "--map-root-user", "--net", "sh", "-ec",
		`ip link set lo up; ip address add `+inNetwork+`/32 dev lo; exec "$0" "$@"`, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	command.Env = append(os.Environ(), traefikHome+"="+home)
	out, err := command.CombinedOutput()
	t.Logf("in a network of its own:\n%s", out)
	if err != nil {
		t.Errorf("%v; this takes Linux with user namespaces, unshare and ip", err)
	}
}

// flagsOf are the flags of Traefik in a block of the page.
var flagsOf = regexp.MustCompile(`(?m)^\s*(--\S+)$`)

// startTraefik starts Traefik with the flags that the page has for a kind of route, and waits until it
// has the chart's routes.
func (c *cluster) startTraefik(t *testing.T, home, kind string, certificate selfsigned.Certificate) *front {
	t.Helper()
	page := string(read(t, top, "docs", "operations", "ways-in.md"))
	_, block, isThere := strings.Cut(page, "# Traefik: "+kind+"\n")
	block, _, isClosed := strings.Cut(block, "```")
	if !isThere || !isClosed {
		t.Fatalf("the page has no flags of Traefik for %s", kind)
	}
	var args []string
	for _, flag := range flagsOf.FindAllStringSubmatch(block, -1) {
		args = append(args, strings.Replace(flag[1], "=:8443", "="+inNetwork+":8443", 1))
	}
	c.apply(t, "{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: traefik}, spec: {controller: traefik.io/ingress-controller}}")
	// The process ends in a cleanup, before which the context has ended.
	command := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(home, "traefik"), append(args, "--global.checknewversion=false")...)
	command.Env = append(os.Environ(), "KUBECONFIG="+c.KubeconfigPath(), "HOME="+c.home)
	traefik := program.Start(t, command)
	f := newFront(t, publicHost, net.JoinHostPort(inNetwork, "8443"), certificate)
	traefik.Await(t, func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", f.addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	for _, path := range []string{"/ui/", "/clusters/x", "/v1/bundles/x", "/webhooks/x", "/leat.fleet.v1.FleetService/Get"} {
		await.True(t, "Traefik leads "+path, func() bool { return f.isLed(t, path) })
	}
	return f
}
