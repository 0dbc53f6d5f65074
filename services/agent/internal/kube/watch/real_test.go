// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/agent/internal/kube/watch"
)

func TestMain(m *testing.M) { os.Exit(kubetest.Run(m)) }

// scene is a number of Watchers at one real API server, each behind a proxy of its own.
type scene struct {
	cp     *localkube.ControlPlane
	server apiServer
	ways   []*way
	random *rand.Rand
}

// way is one Watcher with its proxy.
type way struct {
	name     string
	proxy    *proxy
	recorder *recorder
	watcher  *watch.Watcher
}

// TestFaults breaks connections between Watchers and a real API server at random points, kills that
// API server, and makes it and etcd forget versions, while objects change. After each round the
// Watchers' state must equal a new list.
func TestFaults(t *testing.T) {
	t.Parallel()
	cp := kubetest.Borrow(t)
	s := &scene{cp: cp, server: realServer(cp), random: rand.New(rand.NewPCG(7, 7))}
	s.ways = []*way{startWay(t, cp, "streams", false), startWay(t, cp, "pages", true)}
	for i := range 60 {
		s.server.put(t, fmt.Sprintf("object-%d", i), "web", "0")
	}
	s.settle(t, "start")
	for round, fault := range s.faults(t) {
		for range 6 {
			fault.do()
			s.edit(t, 4)
		}
		for _, w := range s.ways {
			w.proxy.setFate(nil)
		}
		s.settle(t, fmt.Sprintf("round %d: %s", round, fault.name))
	}
}

func startWay(t *testing.T, cp *localkube.ControlPlane, name string, paged bool) *way {
	t.Helper()
	w := &way{name: name, proxy: startProxy(t, strings.TrimPrefix(cp.Host(), "https://")), recorder: newRecorder()}
	address, err := url.Parse("https://" + w.proxy.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	w.watcher = watch.New(watch.Params{
		Server:     watch.NewServer(address, &http.Client{Transport: newTransport(t, cp, paged)}),
		Collection: configMaps(), Handler: w.recorder, Known: watch.NewKnown(), Logger: quiet(),
		Settings: watch.Settings{
			Silence: 2 * time.Second, ListSilence: time.Second, Lifetime: 4 * time.Second, PageSize: 10,
			Retry: backoff.Policy{Initial: 20 * time.Millisecond, Max: 300 * time.Millisecond},
		},
	})
	run(t, w.watcher)
	return w
}

// newTransport uses HTTP/1.1, so that each watch has a connection of its own.
func newTransport(t *testing.T, cp *localkube.ControlPlane, paged bool) http.RoundTripper {
	t.Helper()
	original, ok := cp.HTTPClient().Transport.(*http.Transport)
	if !ok {
		t.Fatalf("transport: got %T", cp.HTTPClient().Transport)
	}
	transport := &http.Transport{TLSClientConfig: original.TLSClientConfig.Clone(), Protocols: new(http.Protocols)}
	transport.TLSClientConfig.NextProtos = nil
	transport.Protocols.SetHTTP1(true)
	t.Cleanup(transport.CloseIdleConnections)
	if paged {
		return noStreams{transport}
	}
	return transport
}

// noStreams answers like servers without streaming lists.
type noStreams struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (n noStreams) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Get("sendInitialEvents") == "" {
		return n.RoundTripper.RoundTrip(request)
	}
	return &http.Response{StatusCode: http.StatusUnprocessableEntity, Body: http.NoBody, Request: request}, nil
}

// fault is one kind of disturbance.
type fault struct {
	name string
	do   func()
}

// faults lists each fault once for the short test, and repeatedly for the long one.
func (s *scene) faults(t *testing.T) []fault {
	once := []fault{
		{"cut", s.each(func(w *way) { w.proxy.cut() })},
		{"cut after random bytes", s.doom(func() fate { return fate{bytes: 1 + rand.IntN(20_000)} })},
		{"silence after random bytes", s.doom(func() fate { return fate{bytes: 1 + rand.IntN(20_000), silent: true} })},
		{"silence", s.each(func(w *way) { w.proxy.freeze() })},
		{"delay", s.doom(func() fate { return fate{delay: time.Duration(rand.IntN(50)) * time.Millisecond} })},
		{"compaction", func() {
			if err := s.cp.CompactHistory(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.each(func(w *way) { w.proxy.cut() })()
		}},
		{"a list is asked for", s.each(func(w *way) { w.watcher.Relist() })},
		{"kill", s.killOnce(t)},
	}
	if os.Getenv("LEAT_FAULT_LONG") == "" {
		return once
	}
	var all []fault
	for range 20 {
		all = append(all, once[:len(once)-1]...)
		all = append(all, fault{"kill", s.killOnce(t)})
	}
	return all
}

func (s *scene) each(do func(*way)) func() {
	return func() {
		for _, w := range s.ways {
			do(w)
		}
	}
}

// doom ends all connections in the given way.
func (s *scene) doom(end func() fate) func() {
	return s.each(func(w *way) {
		w.proxy.setFate(end)
		w.proxy.cut()
	})
}

// killOnce kills the API server and restarts it without its memory, the first time it is called.
func (s *scene) killOnce(t *testing.T) func() {
	killed := false
	return func() {
		if killed {
			return
		}
		killed = true
		s.edit(t, 3)
		s.cp.KillAPIServer()
		if err := s.cp.CompactHistory(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.cp.StartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *scene) edit(t *testing.T, times int) {
	t.Helper()
	for range times {
		name := fmt.Sprintf("object-%d", s.random.IntN(70))
		if s.random.IntN(3) == 0 {
			s.server.delete(t, name)
		} else {
			s.server.put(t, name, []string{"web", "web", "api", ""}[s.random.IntN(4)], fmt.Sprint(s.random.Int32()))
		}
	}
}

// settle waits until the Watchers' state equals a new list.
func (s *scene) settle(t *testing.T, after string) {
	t.Helper()
	want := s.fresh(t)
	for _, w := range s.ways {
		w.settle(t, after, want)
	}
}

func (w *way) settle(t *testing.T, after string, want map[string]seen) {
	t.Helper()
	ctx := await.Context(t)
	for {
		got, synced, changed := w.recorder.state()
		diff := cmp.Diff(want, got)
		if diff == "" && synced > 0 {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%s, %s: objects (-want +got):\n%s", w.name, after, diff)
		}
	}
	if wrong := w.recorder.mistakes(); len(wrong) > 0 {
		t.Fatalf("%s, %s: told wrongly:\n%s", w.name, after, strings.Join(wrong, "\n"))
	}
}

func (s *scene) fresh(t *testing.T) map[string]seen {
	t.Helper()
	status, body := s.server.get(t.Context(), t, "/api/v1/configmaps?labelSelector="+serviceLabel)
	defer body.Close()
	var list struct{ Items []map[string]any }
	if err := json.NewDecoder(body).Decode(&list); err != nil || status != http.StatusOK {
		t.Fatalf("list: got %d, %v", status, err)
	}
	all := map[string]seen{}
	for _, item := range list.Items {
		o := unstructured.Unstructured{Object: item}
		value, _, _ := unstructured.NestedString(item, "data", "value")
		all[o.GetName()] = seen{UID: string(o.GetUID()), Version: o.GetResourceVersion(), Label: o.GetLabels()[serviceLabel], Value: value}
	}
	return all
}
