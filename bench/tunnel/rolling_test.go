// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

var (
	rollAgents = flag.Int("tunnel.roll-agents", 3, "real agents in BenchmarkRolling")
	rollRate   = flag.Duration("tunnel.roll-every", 20*time.Millisecond, "how often each client of BenchmarkRolling asks")
	rollCalm   = flag.Duration("tunnel.roll-calm", 3*time.Second, "how long BenchmarkRolling goes on between two restarts")
)

const (
	// rollClients is the number of clients of each kind, for each agent.
	rollClients = 2
	// unready is how long a replica is out of the balancer before it is stopped, as with a pod's
	// preStop pause.
	unready = time.Second
	// told is how many failures are printed.
	told = 5
)

// BenchmarkRolling restarts one replica after another while small objects are requested, and counts
// the failed requests. Clients do not retry. Half of them open a connection for each request. The
// others keep one until the hub closes it gracefully, like kubectl: HTTP/2 reports which requests
// came too late to be processed, and these they send over the next connection. Agents and clients
// find replicas through a balancer. A replica leaves it a second before it is stopped and enters it
// again when it is ready. Run it with -benchtime 1x.
func BenchmarkRolling(b *testing.B) {
	shared := newBench(b)
	d := startDistributor(b)
	first, second := shared.pair(b, d)
	front := startBalancer(b, first.address, second.address)
	d.sendTo("https://" + front.address)
	api, token := shared.apiServer(b), d.user(b, "ada")
	agent := shared.service(b, "agent")
	book := &outcomes{}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var asking sync.WaitGroup
	for i := range *rollAgents {
		shared.agent(b, agent, d, clusterName(i), api)
		way := &side{bench: shared, name: clusterName(i), url: "https://" + front.address + "/clusters/" + clusterName(i), token: token}
		way.await(b)
		for range rollClients {
			kept := shared.client(b).Transport
			asking.Go(func() { way.load(ctx, book, shared.fresh()) })
			asking.Go(func() { way.load(ctx, book, kept) })
		}
	}
	<-time.After(*rollCalm)
	var slowest time.Duration
	for _, r := range []*replica{first, second, first, second} {
		front.leave(r.address)
		<-time.After(unready)
		stopped := time.Now()
		r.Stop(b)
		slowest = max(slowest, time.Since(stopped))
		r.restart(b)
		front.enter(r.address)
		<-time.After(*rollCalm)
	}
	cancel()
	asking.Wait()
	book.report(b)
	b.ReportMetric(slowest.Seconds(), "slowest-stop-s")
}

// load sends requests at a steady rate until ctx ends.
func (s *side) load(ctx context.Context, book *outcomes, way http.RoundTripper) {
	for pace := time.NewTicker(*rollRate); ; {
		select {
		case <-ctx.Done():
			pace.Stop()
			return
		case <-pace.C:
		}
		asked := time.Now()
		err := s.once(way)
		book.note(time.Since(asked), err)
	}
}

// onceTimeout is when a request counts as failed.
const onceTimeout = 10 * time.Second

func (s *side) once(way http.RoundTripper) error {
	ctx, cancel := context.WithTimeout(context.Background(), onceTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+pathSmall, http.NoBody)
	if err != nil {
		return err
	}
	authorize(request, s.token)
	response, err := way.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %.200s", response.Status, body)
	}
	return err
}

// fresh returns a transport that opens a connection for each request, so that none is found dead
// and no request is retried.
func (s *bench) fresh() http.RoundTripper {
	return &http.Transport{TLSClientConfig: s.trusted.Clone(), DisableKeepAlives: true}
}

// outcomes counts requests.
type outcomes struct {
	mu       sync.Mutex
	took     []time.Duration
	failures int
}

func (o *outcomes) note(took time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.took = append(o.took, took)
	if err == nil {
		return
	}
	if o.failures++; o.failures <= told {
		fmt.Fprintf(os.Stderr, "%s failed after %s: %v\n", time.Now().Format(time.TimeOnly), took, err)
	}
}

func (o *outcomes) report(b *testing.B) {
	b.Helper()
	slices.Sort(o.took)
	b.ReportMetric(float64(quantile(o.took, 0.5)), "ns/op")
	b.ReportMetric(float64(len(o.took)), "requests")
	b.ReportMetric(float64(o.failures), "failed")
	b.ReportMetric(micro(quantile(o.took, 0.99)), "p99-µs")
	b.ReportMetric(micro(o.took[len(o.took)-1]), "longest-µs")
}

// balancer forwards connections to replicas in turn. It does not inspect their content.
type balancer struct {
	address string

	mu       sync.Mutex
	replicas []string
	next     int
}

func startBalancer(b *testing.B, replicas ...string) *balancer {
	b.Helper()
	listener, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = listener.Close() })
	front := &balancer{address: listener.Addr().String(), replicas: replicas}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // it was closed
			}
			go front.carry(b.Context(), conn)
		}
	}()
	return front
}

// leave and enter change the targets of new connections.
func (f *balancer) leave(replica string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replicas = slices.DeleteFunc(slices.Clone(f.replicas), func(r string) bool { return r == replica })
}

func (f *balancer) enter(replica string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replicas = append(slices.Clone(f.replicas), replica)
}

func (f *balancer) choose() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	return f.replicas[f.next%len(f.replicas)]
}

func (f *balancer) carry(ctx context.Context, near net.Conn) {
	defer near.Close()
	far, err := new(net.Dialer).DialContext(ctx, "tcp", f.choose())
	if err != nil {
		return
	}
	defer far.Close()
	ended := make(chan struct{}, 2)
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // when either side ends, so does the other
		if tcp, ok := to.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
		ended <- struct{}{}
	}
	go pass(far, near)
	go pass(near, far)
	<-ended
	<-ended
}
