// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/heap"
	"github.com/leatdev/leat/services/agent/internal/kube/watch"
)

// BenchmarkLargeCluster measures a list of 10 000 ConfigMaps of Leat in a cluster with 50 000:
// bytes on the wire, the peak of the live heap, and the memory that stays. Creating them takes a
// minute, so run it with -benchtime 1x.
func BenchmarkLargeCluster(b *testing.B) {
	const all, ours = 50_000, 10_000
	cp := kubetest.Start(b, func(p *localkube.Params) { p.APIServerOnly = true })
	fill(b, cp, all, ours)
	for _, paged := range []bool{false, true} {
		b.Run(fmt.Sprintf("paged=%t", paged), func(b *testing.B) {
			for b.Loop() {
				list(b, cp, paged, ours)
			}
		})
	}
}

func list(b *testing.B, cp *localkube.ControlPlane, paged bool, want int) {
	b.Helper()
	received := new(atomic.Int64)
	transport := countingTransport(b, cp, received)
	if paged {
		transport = noStreams{transport}
	}
	address, err := url.Parse(cp.Host())
	if err != nil {
		b.Fatal(err)
	}
	probe, known, before := &probe{done: make(chan struct{})}, watch.NewKnown(), heap.Live()
	run(b, watch.New(watch.Params{
		Server: watch.NewServer(address, &http.Client{Transport: transport}), Collection: configMaps(),
		Handler: probe, Known: known, Logger: quiet(),
	}))
	<-probe.done
	if known.Len() != want || probe.seen != want {
		b.Fatalf("got %d objects, %d known, want %d", probe.seen, known.Len(), want)
	}
	b.ReportMetric(float64(received.Load()), "wire-B/op")
	b.ReportMetric(float64(probe.peak-before), "peak-heap-B/op")
	b.ReportMetric(float64(heap.Live()-before), "kept-heap-B/op")
}

// probe is a Handler that samples the live heap.
type probe struct {
	seen int
	peak int64
	done chan struct{}
}

// Seen implements watch.Handler.
func (p *probe) Seen(*unstructured.Unstructured) {
	if p.seen++; p.seen%250 == 0 {
		p.peak = max(p.peak, heap.Live())
	}
}

// Gone implements watch.Handler.
func (p *probe) Gone(watch.Object, string) {}

// Synced implements watch.Handler.
func (p *probe) Synced() { close(p.done) }

// Denied implements watch.Handler.
func (p *probe) Denied(error) {}

// fill creates ConfigMaps of about a kilobyte, the given number of them with Leat's label.
func fill(t testing.TB, cp *localkube.ControlPlane, all, ours int) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(16)
	random := rand.NewChaCha8([32]byte{})
	value := make([]byte, 500)
	for i := range all {
		labels := ""
		if i%(all/ours) == 0 {
			labels = fmt.Sprintf(`, "labels": {"%s": "service-%d"}`, serviceLabel, i%50)
		}
		_, _ = random.Read(value) // never fails; in hexadecimal it compresses as much as text does
		body := fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "filler-%d"%s}, "data": {"value": "%x"}}`, i, labels, value)
		group.Go(func() error { return post(t.Context(), cp, body) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

func post(ctx context.Context, cp *localkube.ControlPlane, body string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, cp.Host()+"/api/v1/namespaces/default/configmaps", strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := cp.HTTPClient().Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		return fmt.Errorf("create: got %s", response.Status)
	}
	return nil
}

// countingTransport counts the bytes that come in, as they are on the wire.
func countingTransport(t testing.TB, cp *localkube.ControlPlane, received *atomic.Int64) http.RoundTripper {
	t.Helper()
	original, ok := cp.HTTPClient().Transport.(*http.Transport)
	if !ok {
		t.Fatalf("transport: got %T", cp.HTTPClient().Transport)
	}
	transport := original.Clone()
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &countedConn{Conn: conn, received: received}, err
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

type countedConn struct {
	net.Conn

	received *atomic.Int64
}

// Read implements net.Conn.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	return n, err
}
