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
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/localkube"
	"github.com/leatdev/leat/internal/localkube/kubetest"
	"github.com/leatdev/leat/services/agent/internal/kube/watch"
)

// TestLargeCluster measures what it costs to list 10 000 ConfigMaps of Leat in a cluster that holds 50 000. The short form
// has a hundredth of them.
func TestLargeCluster(t *testing.T) {
	all, ours := 500, 100
	if os.Getenv("LEAT_FAULT_LONG") != "" {
		all, ours = 50_000, 10_000
	}
	cp := kubetest.Start(t, func(p *localkube.Params) { p.APIServerOnly = true })
	fill(t, cp, all, ours)
	for _, paged := range []bool{false, true} {
		counter := new(atomic.Int64)
		transport := countingTransport(t, cp, counter)
		if paged {
			transport = noStreams{transport}
		}
		address, err := url.Parse(cp.Host())
		if err != nil {
			t.Fatal(err)
		}
		probe := &probe{done: make(chan struct{})}
		before, began, known := heap(), time.Now(), watch.NewKnown()
		w := watch.New(watch.Params{
			Server: watch.NewServer(address, &http.Client{Transport: transport}), Collection: configMaps(),
			Handler: probe, Known: known, Logger: quiet(),
		})
		run(t, w)
		<-probe.done
		took, after := time.Since(began), heap()
		if known.Len() != ours || probe.seen != ours {
			t.Errorf("paged=%t: got %d objects, %d known, want %d", paged, probe.seen, known.Len(), ours)
		}
		t.Logf("paged=%t: %d of %d objects in %v, %d bytes received, %.0f an object; live heap at most %+.1f MiB, %+.1f MiB afterwards, %d bytes an object",
			paged, ours, all, took.Round(time.Millisecond), counter.Load(), float64(counter.Load())/float64(ours),
			float64(probe.peak-before)/(1<<20), float64(after-before)/(1<<20), (after-before)/int64(ours))
	}
}

// probe is a Handler that looks at the live heap now and then.
type probe struct {
	seen int
	peak int64
	done chan struct{}
}

// Seen implements watch.Handler.
func (p *probe) Seen(*unstructured.Unstructured) {
	if p.seen++; p.seen%250 == 0 {
		p.peak = max(p.peak, heap())
	}
}

// Gone implements watch.Handler.
func (p *probe) Gone(watch.Object, string) {}

// Synced implements watch.Handler.
func (p *probe) Synced() { close(p.done) }

// fill creates ConfigMaps of about a kilobyte, the given number of them with Leat's label.
func fill(t *testing.T, cp *localkube.ControlPlane, all, ours int) {
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
func countingTransport(t *testing.T, cp *localkube.ControlPlane, received *atomic.Int64) http.RoundTripper {
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
