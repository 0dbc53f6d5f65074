// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/testkit/heap"
	"github.com/leatdev/leat/internal/testkit/raced"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/kube/watch"
)

// script is a server that answers every streaming list with the same text, and then is silent.
type script struct{ text string }

// RoundTrip implements http.RoundTripper.
func (s script) RoundTrip(request *http.Request) (*http.Response, error) {
	body := struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader(s.text), silence{request}), io.NopCloser(nil)}
	return &http.Response{StatusCode: http.StatusOK, Body: body, Request: request}, nil
}

type silence struct{ request *http.Request }

// Read implements io.Reader.
func (s silence) Read([]byte) (int, error) {
	<-s.request.Context().Done()
	return 0, s.request.Context().Err()
}

// synced is a Handler that waits for the end of a list, and processes objects like a user of this
// package.
type synced struct {
	seen func(*unstructured.Unstructured)
	gone []watch.Object
	done chan struct{}
}

// Seen implements watch.Handler.
func (s *synced) Seen(o *unstructured.Unstructured) { s.seen(o) }

// Gone implements watch.Handler.
func (s *synced) Gone(o watch.Object, _ string) { s.gone = append(s.gone, o) }

// Synced implements watch.Handler.
func (s *synced) Synced() { close(s.done) }

// Denied implements watch.Handler.
func (s *synced) Denied(error) {}

// deployments returns a streaming list of that many Deployments.
func deployments(t testing.TB, count int, uid func(int) string) string {
	t.Helper()
	template, err := json.Marshal(map[string]any{"type": "ADDED", "object": deployment()})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for i := range count {
		r := strings.NewReplacer("NAME", fmt.Sprintf("deployment-number-%05d", i), "NUMBER", strconv.Itoa(500_000_000+i),
			"SPACE", strconv.Itoa(i%20), "SERVICE", strconv.Itoa(i%50), "UID", uid(i))
		_, _ = r.WriteString(&text, string(template)) // a Builder takes everything
	}
	text.WriteString(`{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "900000000", "annotations": {"k8s.io/initial-events-end": "true"}}}}` + "\n")
	return text.String()
}

// deployment is a Deployment that Leat applied, as the API server returns it. The parts that differ
// between objects are in capitals.
func deployment() map[string]any {
	const name = "NAME"
	containers := map[string]any{"name": "main", "image": "registry.example.test/team/image:v1.2.3", "ports": []any{map[string]any{"containerPort": 8080}}}
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{
			"name": name, "namespace": "namespace-SPACE", "uid": "UID", "resourceVersion": "NUMBER", "generation": 1,
			"labels": map[string]any{serviceLabel: "service-SERVICE", "app": name},
			"managedFields": []any{map[string]any{
				"manager": "leat", "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
				"fieldsV1": map[string]any{
					"f:metadata": map[string]any{"f:labels": map[string]any{"f:" + serviceLabel: map[string]any{}, "f:app": map[string]any{}}},
					"f:spec": map[string]any{
						"f:replicas": map[string]any{}, "f:selector": map[string]any{},
						"f:template": map[string]any{"f:spec": map[string]any{"f:containers": map[string]any{
							`k:{"name":"main"}`: map[string]any{".": map[string]any{}, "f:name": map[string]any{}, "f:image": map[string]any{}, "f:ports": map[string]any{}},
						}}},
					},
				},
			}},
		},
		"spec": map[string]any{
			"replicas": 3, "selector": map[string]any{"matchLabels": map[string]any{"app": name}}, "progressDeadlineSeconds": 600,
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": name}},
				"spec":     map[string]any{"containers": []any{containers}, "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"},
			},
		},
		"status": map[string]any{"observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "updatedReplicas": 3, "availableReplicas": 3},
	}
}

func uuid(i int) string { return fmt.Sprintf("3c151b95-652d-4eef-b789-%012d", i) }

// syncOnce reads one streaming list.
func syncOnce(t testing.TB, text string, known *watch.Known, seen func(*unstructured.Unstructured)) *synced {
	t.Helper()
	s := &synced{seen: seen, done: make(chan struct{})}
	w := watch.New(watch.Params{
		Server:     watch.NewServer(&url.URL{Scheme: "http", Host: "script"}, &http.Client{Transport: script{text}}),
		Collection: configMaps(), Handler: s, Known: known, Logger: quiet(),
	})
	run(t, w)
	<-s.done
	return s
}

// TestFootprint measures the memory for 10 000 objects.
func TestFootprint(t *testing.T) {
	raced.Skip(t)
	const objects = 10_000
	for _, test := range []struct {
		name  string
		known *watch.Known
		most  float64
	}{{"names", watch.NewKnown(), 150}, {"UIDs", watch.NewKnownUIDs(), 64}} {
		text := deployments(t, objects, uuid)
		before := heap.Live()
		syncOnce(t, text, test.known, func(*unstructured.Unstructured) {})
		each := float64(heap.Live()-before) / objects
		if test.known.Len() != objects || each > test.most {
			t.Errorf("%s: got %d objects at %.0f bytes each, want %d at most %.0f", test.name, test.known.Len(), each, objects, test.most)
		}
		t.Logf("%s: %.0f bytes an object", test.name, each)
		runtime.KeepAlive(text)
	}
}

// TestStrangeUIDs has objects of servers whose UIDs are not UUIDs.
func TestStrangeUIDs(t *testing.T) {
	t.Parallel()
	strange := []string{"", "1", uuid(2), strings.ToUpper("3c151b95-652d-4eef-b789-00000000000a"), strings.Repeat("x", 36), "3c151b95_652d_4eef_b789_000000000005"}
	testStrangeUIDs(t, strange, watch.NewKnown())
	testStrangeUIDs(t, strange, watch.NewKnownUIDs())
}

func testStrangeUIDs(t *testing.T, strange []string, known *watch.Known) {
	t.Helper()
	uid := func(i int) string { return strange[i%len(strange)] }
	synctest.Test(t, func(t *testing.T) {
		syncOnce(t, deployments(t, len(strange), uid), known, func(*unstructured.Unstructured) {})
		again := syncOnce(t, deployments(t, len(strange), uid), known, func(*unstructured.Unstructured) {})
		if len(again.gone) != 0 {
			t.Errorf("after the same list: got %+v gone, want none", again.gone)
		}
	})
	got := map[string]bool{}
	for _, o := range known.Objects() {
		got[o.UID] = true
	}
	for _, want := range strange {
		if !got[want] {
			t.Errorf("uid %q: got %v", want, got)
		}
	}
	known.Clear(func(watch.Object) {})
	if known.Len() != 0 {
		t.Errorf("after the end: got %d objects", known.Len())
	}
}

// BenchmarkEvent measures an event from its bytes to its recorded state, with and without the
// agent's processing.
func BenchmarkEvent(b *testing.B) {
	for name, seen := range map[string]func(*unstructured.Unstructured){
		"decode":                 func(*unstructured.Unstructured) {},
		"decode and fingerprint": func(o *unstructured.Unstructured) { fingerprint.Live(o, "leat") },
	} {
		b.Run(name, func(b *testing.B) {
			text := deployments(b, b.N, uuid)
			b.SetBytes(int64(len(text) / b.N))
			b.ReportAllocs()
			b.ResetTimer()
			syncOnce(b, text, watch.NewKnown(), seen)
		})
	}
}
