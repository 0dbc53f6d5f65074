// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/chaos"
)

// TestF28WebSocketOnlyProxy uses pods while both the agent and the caller are behind a proxy that
// supports only HTTP/1.1, and no upgrade except to WebSocket. The agent detects which transport
// works. kubectl's WebSocket passes, and its SPDY does not, because of the proxy.
func TestF28WebSocketOnlyProxy(t *testing.T) {
	r := theRig(t)
	r.startAgentBehind(t, "http1", (*chaos.Proxy).HTTP1Only, "websocket")
	proxy := chaos.Start(t, chaos.Params{Target: r.hub, TLS: r.ca.server(), TargetTLS: r.ca.client()})
	proxy.HTTP1Only()
	w := r.newWay(t, "http1", "http1")
	w.server = "https://" + proxy.Addr() + "/clusters/http1"
	if err := writeJSON(w.dir+"/kubeconfig", r.kubeconfig(t, w)); err != nil {
		t.Fatal(err)
	}
	usePod(t, w, "WebSocket")
}

// TestF28HTTP2OnlyProxy uses pods while the agent is behind a proxy that speaks HTTP/2 to the hub
// and therefore forwards no upgrade. The caller is not behind it: kubectl has no protocol that
// would pass.
func TestF28HTTP2OnlyProxy(t *testing.T) {
	r := theRig(t)
	r.startAgentBehind(t, "http2", (*chaos.Proxy).H2Only, "connect")
	usePod(t, r.newWay(t, "http2", "http2"), "SPDY")
}

// startAgentBehind starts an agent that may use every transport, behind an intermediary, and checks
// which one it chose.
func (r *rig) startAgentBehind(t *testing.T, name string, intermediary func(*chaos.Proxy), want string) {
	t.Helper()
	intermediary(r.door)
	defer r.door.NoHop()
	if err := r.startAgent(t.Context(), name, r.cluster.KubeconfigPath(), nil); err != nil {
		t.Fatal(err)
	}
	sessions, err := tunnelv1connect.NewTunnelServiceClient(r.people, "https://"+r.hub).ListSessions(t.Context(), &tunnelv1.ListSessionsRequest{Cluster: name})
	if err != nil {
		t.Fatal(err)
	}
	for _, session := range sessions.GetSessions() {
		if session.GetTransport() != want {
			t.Errorf("agent %s: got transport %s, want %s", name, session.GetTransport(), want)
		}
	}
	if len(sessions.GetSessions()) == 0 {
		t.Errorf("agent %s: got no session, want one", name)
	}
}

// usePod uses a pod in one of kubectl's protocols, and expects every command to succeed.
func usePod(t *testing.T, w *way, protocol string) {
	t.Helper()
	env, large := protocols[protocol], noise(rand.New(rand.NewPCG(1, 28)), copySize)
	for _, s := range []step{
		k("create", "namespace", "$NS"),
		k("wait", "--for=create", "serviceaccount/default", "--timeout=240s"),
		k("apply", "--filename=-").reads(`{apiVersion: v1, kind: Pod, metadata: {name: box}, spec: {containers: [{name: main, image: "shop:1"}]}}`),
		k("wait", "--for=condition=Ready", "pod/box", "--timeout=240s"),
		k("exec", "box", "--", "sh", "-c", "echo out; echo err >&2").with(env...),
		k("exec", "-i", "box", "--", "sh", "-c", fmt.Sprintf("head -c %d | sha256sum", copySize)).with(env...).reads(string(large)),
		{name: "cp", do: func(ctx context.Context, w *way) (string, error) { return w.copy(ctx, large, env) }},
		{name: "port-forward", do: func(ctx context.Context, w *way) (string, error) { return w.portForward(ctx, large, env) }},
		k("delete", "namespace", "$NS", "--wait=false"),
	} {
		if said := w.take(t.Context(), s); !strings.HasPrefix(said, "exit 0\n") {
			t.Errorf("%s: got\n%s\nwant exit 0", s.name, said)
		}
	}
}

// TestKubectlShowsThatTheAgentIsAway expects kubectl to print the tunnel's message, also while it
// has nothing of discovery in its cache. client-go would repeat requests with a Retry-After until
// its own limit of their rate ends them, and print that.
func TestKubectlShowsThatTheAgentIsAway(t *testing.T) {
	t.Parallel()
	r := theRig(t)
	r.apply(t, &fleetv1.Document{Object: &fleetv1.Document_Cluster{Cluster: &fleetv1.Cluster{Metadata: &typev1.Metadata{Name: "away"}}}})
	w := r.newWay(t, "away", "away")
	code, _, said := w.command(t.Context(), k("get", "nodes"))
	if code != 1 || !strings.Contains(said, "is not connected; check that it runs and reaches the hub") {
		t.Errorf("got exit code %d and\n%s\nwant 1 and what is wrong", code, said)
	}
	if strings.Contains(said, "client rate limiter") {
		t.Errorf("got\n%s\nwant no word of client-go's retries", said)
	}
}

// TestF34OpenAPIBelowThePath reads OpenAPI v3 as kubectl does: from the links of its index, which
// must lead back below the path.
func TestF34OpenAPIBelowThePath(t *testing.T) {
	t.Parallel()
	readOpenAPI(t, transports()[0].name)
}

// TestF34OpenAPIAtTheHostOfACluster reads OpenAPI v3 from the cluster's own host, where the links
// may lead to the root.
func TestF34OpenAPIAtTheHostOfACluster(t *testing.T) {
	t.Parallel()
	readOpenAPI(t, byHost+transports()[0].name)
}

// readOpenAPI compares kubectl's result by that way with its result directly.
func readOpenAPI(t *testing.T, name string) {
	t.Helper()
	w := theRig(t).newWay(t, name, "openapi")
	straight := theRig(t).newWay(t, direct, "openapi")
	for _, s := range []step{
		k("explain", "cronjobs.spec.jobTemplate.spec.template.spec.containers.image"),
		k("get", "--raw", "/openapi/v3"),
		k("get", "--raw", "/openapi/v3/apis/batch/v1"),
		k("apply", "--dry-run=server", "--validate=strict", "--filename=-").reads("{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {nonsense: 1}}").fails(1),
	} {
		got, want := w.take(t.Context(), s), straight.take(t.Context(), s)
		if got != want || !bytes.HasPrefix([]byte(got), []byte("exit "+string(rune('0'+s.code))+"\n")) {
			t.Errorf("%s: got %d bytes, want %d as directly, or an equal exit code; through the tunnel:\n%.500s", s.name, len(got), len(want), got)
		}
	}
}

// TestF09CancelsThroughHubAndAgent cancels requests at random points, and looks for leaks.
func TestF09CancelsThroughHubAndAgent(t *testing.T) {
	r := theRig(t)
	var serving atomic.Int64
	r.front.answer("cancel", func(w http.ResponseWriter, request *http.Request) {
		serving.Add(1)
		defer serving.Add(-1)
		_ = http.NewResponseController(w).EnableFullDuplex()
		for range 20 {
			if _, err := w.Write(make([]byte, 4<<10)); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
		<-request.Context().Done()
	})
	requests := 1_000
	if os.Getenv("LEAT_FAULT_LONG") == "1" {
		requests = 10_000
	}
	client := &http.Client{Transport: bearer{token: r.token, next: &http.Transport{TLSClientConfig: r.ca.client(), ForceAttemptHTTP2: true}}}
	defer client.CloseIdleConnections()
	cancelSome(t, client, r.url(frontCluster)+doublePrefix+"cancel/", 100) // warms up what stays allocated
	await.True(t, "the end of the first requests", func() bool { return serving.Load() == 0 })
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	cancelSome(t, client, r.url(frontCluster)+doublePrefix+"cancel/", requests)
	await.True(t, "the end of all requests at the API server", func() bool { return serving.Load() == 0 })
	await.True(t, "as many goroutines and files as before", func() bool {
		return runtime.NumGoroutine() <= goroutines+50 && openFiles(t) <= files+20
	})
}

// cancelSome sends requests and cancels each after a random time or number of bytes.
func cancelSome(t *testing.T, client *http.Client, url string, n int) {
	t.Helper()
	var group sync.WaitGroup
	next := make(chan int)
	for range 16 {
		group.Go(func() {
			for i := range next {
				random := rand.New(rand.NewPCG(uint64(i), 9))
				ctx, cancel := context.WithCancel(t.Context())
				timer := time.AfterFunc(rand.N(8*time.Millisecond), cancel)
				request, err := http.NewRequestWithContext(ctx, pick(random, "GET", "POST"), url, io.LimitReader(endless{}, random.Int64N(1<<20)))
				if err == nil {
					if response, err := client.Do(request); err == nil {
						_, _ = io.CopyN(io.Discard, response.Body, random.Int64N(100<<10))
						_ = response.Body.Close()
					}
				}
				timer.Stop()
				cancel()
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
}

// endless is an endless body.
type endless struct{}

// Read implements io.Reader.
func (endless) Read(p []byte) (int, error) { return len(p), nil }

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("the system does not report open files")
	}
	return len(entries)
}
