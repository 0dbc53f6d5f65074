// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/await"
)

// The number of random requests, always and when there is time.
const (
	fuzzCases     = 300
	fuzzCasesLong = 20_000
)

// tunneled returns the ways that are compared with the direct one: through the replica that the
// agent is connected to, and another.
func tunneled() []string { return []string{frontCluster, overHop + frontCluster} }

// TestF37Fidelity sends random requests to a double of an API server, directly and through hub and
// agent, without and with a hop between replicas, and compares the requests that the double
// received and the answers that the caller received. The number of the case determines both, so
// that a failure can be reproduced.
func TestF37Fidelity(t *testing.T) {
	t.Parallel()
	r := theRig(t)
	d := &differential{rig: r, received: make(map[string]asked), clients: d2clients(t, r)}
	r.front.answer("fidelity", d.serve)
	cases := fuzzCases
	if os.Getenv("LEAT_FAULT_LONG") == "1" {
		cases = fuzzCasesLong
	}
	var group sync.WaitGroup
	next := make(chan int)
	for range 4 {
		group.Go(func() {
			for n := range next {
				d.compare(t, n)
			}
		})
	}
	for n := range cases {
		if t.Failed() {
			break
		}
		next <- n
	}
	close(next)
	group.Wait()
}

// differential sends a request over several ways and compares.
type differential struct {
	rig     *rig
	clients map[string]*http.Client // by way and protocol

	mu       sync.Mutex
	received map[string]asked // the double's requests, by number and way
}

// asked is a request as received by the double.
type asked struct {
	Method, URI string
	Header      http.Header
	Length      int64
	Body        string
}

// told is an answer as received by the caller.
type told struct {
	Status  int
	Header  http.Header
	Length  int64
	Body    string
	Trailer http.Header
	Hints   []http.Header // of 103 answers
	Broken  bool          // the answer broke off
}

// d2clients returns clients directly to the double and through the tunnel, for both versions of
// HTTP.
func d2clients(t *testing.T, r *rig) map[string]*http.Client {
	t.Helper()
	clients := make(map[string]*http.Client)
	for _, version := range []string{"1", "2"} {
		for _, way := range append(tunneled(), direct) {
			transport := &http.Transport{
				TLSClientConfig: r.ca.client(), Protocols: new(http.Protocols), DisableCompression: true,
				ExpectContinueTimeout: 10 * time.Second, MaxResponseHeaderBytes: 1 << 20,
				// A server may close a connection after an early answer, just when the next request
				// is sent on it.
				DisableKeepAlives: version == "1",
			}
			transport.Protocols.SetHTTP1(version == "1")
			transport.Protocols.SetHTTP2(version == "2")
			t.Cleanup(transport.CloseIdleConnections)
			clients[way+version] = &http.Client{
				Transport:     bearer{token: r.token, next: transport},
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			}
		}
	}
	return clients
}

// compare sends case n by all ways.
func (d *differential) compare(t *testing.T, n int) {
	t.Helper()
	ask := newAsk(n)
	wantTold, wantAsked, err := d.send(t.Context(), ask, direct)
	if err != nil {
		t.Errorf("case %d, directly: %v: the test itself is wrong\n%s", n, err, ask)
		return
	}
	for _, way := range tunneled() {
		gotTold, gotAsked, err := d.send(t.Context(), ask, way)
		if err != nil {
			t.Errorf("case %d, through the tunnel by %s: %v\n%s", n, way, err, ask)
			continue
		}
		if diff := cmp.Diff(wantAsked, gotAsked); diff != "" {
			t.Errorf("case %d: what reaches the API server (-direct +%s):\n%s\n%s", n, way, diff, ask)
		}
		refused := gotTold.Status == http.StatusBadGateway || gotTold.Status == http.StatusServiceUnavailable
		if wantTold.Broken && refused && gotTold.Header.Get("Leat-Error-Reason") != "" {
			continue // it broke off before the agent, or the hop, had forwarded any of it, which could then report it
		}
		if wantTold.Broken && gotTold.Broken && min(wantTold.Status, gotTold.Status) == 0 {
			continue // over HTTP/2 a client may see the reset before the earlier head, also directly
		}
		if diff := cmp.Diff(wantTold, gotTold); diff != "" {
			t.Errorf("case %d: what the caller is told (-direct +%s):\n%s\n%s", n, way, diff, ask)
		}
	}
}

// send sends a request by one way.
func (d *differential) send(ctx context.Context, ask *ask, way string) (told, asked, error) {
	ctx, cancel := context.WithTimeout(ctx, await.Patience)
	defer cancel()
	base := d.rig.front.url
	if way != direct {
		base = d.rig.url(way)
	}
	var (
		answer told
		mu     sync.Mutex
	)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			mu.Lock()
			defer mu.Unlock()
			if code == http.StatusEarlyHints {
				answer.Hints = append(answer.Hints, binding(http.Header(header)))
			}
			return nil
		},
	})
	request, err := ask.request(ctx, base, way)
	if err != nil {
		return told{}, asked{}, err
	}
	response, err := d.clients[way+ask.version].Transport.RoundTrip(request) // a Client would follow Location
	if err != nil && ask.answer.aborts && ctx.Err() == nil {
		return told{Broken: true}, d.take(ask.n, way), nil // the reset has overtaken the head
	}
	if err != nil {
		return told{}, asked{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	mu.Lock()
	defer mu.Unlock()
	answer.Status, answer.Header, answer.Length = response.StatusCode, binding(response.Header), response.ContentLength
	answer.Body, answer.Trailer = sum(body), binding(response.Trailer)
	if err != nil { // how much arrived before is random
		answer.Broken, answer.Body, answer.Trailer = true, "", nil
	}
	if len(body) == 0 && err == nil && answer.Length <= 0 {
		// HTTP/2 does not distinguish an empty body of unknown length from one of length zero, and
		// HTTP/1.1 behind it sees the latter.
		answer.Length = 0
		delete(answer.Header, "Content-Length")
	}
	if len(answer.Header) == 0 {
		answer.Header = nil
	}
	if len(answer.Trailer) > 0 {
		answer.Length = -1 // HTTP/1.1 has no length beside trailers
	}
	return answer, d.take(ask.n, way), nil
}

// take waits until the double has finished the request and returns it.
func (d *differential) take(n int, way string) asked {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := fmt.Sprint(n, way)
	defer delete(d.received, key)
	return d.received[key]
}

func sum(body []byte) string {
	hash := sha256.Sum256(body)
	return fmt.Sprintf("%d bytes %s", len(body), hex.EncodeToString(hash[:8]))
}

// unequal are headers that may differ: headers of one hop, Expect, which each hop of HTTP/2 answers
// itself, headers that hub and agent are documented to set or remove, and the time.
var unequal = []string{
	"Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade", "Te", "Trailer", "Expect", "Date",
	"Authorization", "Traceparent", "Leat-Error-Origin", "Proxy-Connection",
	"X-Content-Type-Options", "Content-Security-Policy", "Cross-Origin-Resource-Policy",
}

// binding returns the headers that must not differ.
func binding(header http.Header) http.Header {
	header = maps.Clone(header)
	maps.DeleteFunc(header, func(name string, _ []string) bool {
		return slices.Contains(unequal, name) || strings.HasPrefix(name, "Impersonate-")
	})
	if len(header) == 0 {
		return nil
	}
	return header
}

// opaque returns a URL that is sent verbatim.
func opaque(base, path, query string, mark bool) (*url.URL, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	u.Opaque, u.RawQuery, u.ForceQuery = u.Path+path, query, mark
	return u, nil
}
