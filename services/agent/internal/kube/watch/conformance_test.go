// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
)

// apiServer is the part of an API server that the suite needs.
type apiServer struct {
	client *http.Client
	base   string
	put    func(t *testing.T, name, service, value string)
	delete func(t *testing.T, name string)
	forget func(t *testing.T)
}

// TestServerConformance shows that the fake behaves like the real API server in everything that a
// Watcher depends on.
func TestServerConformance(t *testing.T) {
	t.Parallel()
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		fake := newFakeServer()
		_, client, base := (&network{handler: fake}).server(t)
		testServer(t, apiServer{
			client: client, base: base,
			put:    func(_ *testing.T, name, service, value string) { fake.put(name, service, value) },
			delete: func(_ *testing.T, name string) { fake.delete(name) },
			forget: func(*testing.T) { fake.forget() },
		})
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		testServer(t, realServer(kubetest.Borrow(t)))
	})
}

func realServer(cp *localkube.ControlPlane) apiServer {
	const path = "/api/v1/namespaces/default/configmaps/"
	return apiServer{
		client: cp.HTTPClient(), base: cp.Host(),
		put: func(t *testing.T, name, service, value string) {
			t.Helper()
			body := map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"value": value},
			}
			if service != "" {
				body["metadata"] = map[string]any{"name": name, "labels": map[string]any{serviceLabel: service}}
			}
			send(t, cp, http.MethodPatch, path+name+"?fieldManager=test&force=true", body)
		},
		delete: func(t *testing.T, name string) { t.Helper(); send(t, cp, http.MethodDelete, path+name, nil) },
		forget: func(t *testing.T) {
			t.Helper()
			cp.KillAPIServer()
			if err := cp.CompactHistory(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := cp.StartAPIServer(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// send writes to a real API server. Deleting a missing object is not a failure.
func send(t *testing.T, cp *localkube.ControlPlane, method, path string, body map[string]any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, cp.Host()+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/apply-patch+yaml")
	}
	response, err := cp.HTTPClient().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, _ := io.ReadAll(response.Body)
	if response.StatusCode/100 != 2 && (method != http.MethodDelete || response.StatusCode != http.StatusNotFound) {
		t.Fatalf("%s %s: got %s: %s", method, path, response.Status, answer)
	}
}

func testServer(t *testing.T, s apiServer) {
	for i := range 5 {
		s.put(t, fmt.Sprintf("a-%d", i), "web", "1")
	}
	s.put(t, "unlabelled", "", "1")
	testPages(t, s)
	version := testStreamingList(t, s)
	testEvents(t, s, version)
	testEnd(t, s, version)
	testUnknown(t, s)
	s.put(t, "a-0", "web", "last")
	s.forget(t)
	testExpired(t, s, version)
}

// list requests one page.
func (s apiServer) list(t *testing.T, query string) (names []string, meta metav1.ListMeta) {
	t.Helper()
	status, body := s.get(t.Context(), t, "/api/v1/configmaps?labelSelector="+serviceLabel+query)
	defer body.Close()
	var list struct {
		Metadata metav1.ListMeta
		Items    []struct {
			Kind     string
			Metadata metav1.ObjectMeta
		}
	}
	if err := json.NewDecoder(body).Decode(&list); err != nil || status != http.StatusOK {
		t.Fatalf("list: got %d, %v", status, err)
	}
	for _, item := range list.Items {
		names = append(names, item.Metadata.Name)
		if item.Kind != "" {
			t.Errorf("item of a list: got kind %s, want none", item.Kind)
		}
	}
	return names, list.Metadata
}

func (s apiServer) get(ctx context.Context, t *testing.T, path string) (int, io.ReadCloser) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Body
}

func testPages(t *testing.T, s apiServer) {
	t.Helper()
	all, first := s.list(t, "&limit=2")
	for meta := first; meta.Continue != ""; {
		var names []string
		names, meta = s.list(t, "&limit=2&continue="+url.QueryEscape(meta.Continue))
		if all = append(all, names...); meta.ResourceVersion != first.ResourceVersion {
			t.Errorf("version of a page: got %s, want %s as of the first", meta.ResourceVersion, first.ResourceVersion)
		}
	}
	if diff := cmp.Diff([]string{"a-0", "a-1", "a-2", "a-3", "a-4"}, all); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
}

// events is an open watch.
type events struct {
	decoder *json.Decoder
}

type event struct {
	Type   string
	Object unstructured.Unstructured
}

// String describes the parts of an event that a Watcher reads, except versions.
func (e event) String() string {
	value, _, _ := unstructured.NestedString(e.Object.Object, "data", "value")
	end := e.Object.GetAnnotations()[metav1.InitialEventsAnnotationKey]
	return strings.Join(strings.Fields(fmt.Sprint(e.Type, " ", e.Object.GetName(), " ", e.Object.GetLabels()[serviceLabel], " ", value, " ", end)), " ")
}

func (e *events) next(t *testing.T) event {
	t.Helper()
	var raw struct {
		Type   string
		Object map[string]any
	}
	if err := e.decoder.Decode(&raw); err != nil {
		t.Fatalf("read event: %v", err)
	}
	return event{Type: raw.Type, Object: unstructured.Unstructured{Object: raw.Object}}
}

// follow opens a watch that ends with the test.
func (s apiServer) follow(t *testing.T, query string) *events {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	status, body := s.get(ctx, t, "/api/v1/configmaps?watch=true&allowWatchBookmarks=true&labelSelector="+serviceLabel+query)
	t.Cleanup(func() { _ = body.Close() })
	if status != http.StatusOK {
		return &events{decoder: json.NewDecoder(strings.NewReader(fmt.Sprintf(`{"type": "ERROR", "object": {"code": %d}}`, status)))}
	}
	return &events{decoder: json.NewDecoder(body)}
}

func testStreamingList(t *testing.T, s apiServer) (version string) {
	t.Helper()
	w := s.follow(t, "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
	got := map[string]bool{}
	for range 6 {
		e := w.next(t)
		got[e.String()] = true
		version = e.Object.GetResourceVersion()
	}
	want := map[string]bool{
		"ADDED a-0 web 1": true, "ADDED a-1 web 1": true, "ADDED a-2 web 1": true, "ADDED a-3 web 1": true, "ADDED a-4 web 1": true,
		"BOOKMARK true": true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("streaming list (-want +got):\n%s", diff)
	}
	s.put(t, "a-4", "web", "2")
	if e := w.next(t); e.String() != "MODIFIED a-4 web 2" {
		t.Errorf("after the list: got %s, want MODIFIED a-4 web 2", e)
	}
	return version
}

// testEvents reads changes from the end of a list.
func testEvents(t *testing.T, s apiServer, version string) {
	t.Helper()
	s.put(t, "b", "web", "1")
	s.put(t, "b", "api", "2")
	s.put(t, "b", "", "3") // leaves the selection
	s.put(t, "unlabelled", "", "2")
	s.put(t, "b", "web", "4")
	s.delete(t, "b")
	w := s.follow(t, "&resourceVersion="+version)
	last := version
	for _, want := range []string{
		"MODIFIED a-4 web 2", "ADDED b web 1", "MODIFIED b api 2", "DELETED b api 2", "ADDED b web 4", "DELETED b web 4",
	} {
		e := w.next(t)
		if e.String() != want || !older(last, e.Object.GetResourceVersion()) {
			t.Errorf("got %s at %s, want %s after %s", e, e.Object.GetResourceVersion(), want, last)
		}
		last = e.Object.GetResourceVersion()
	}
}

// testEnd has a watch end at its requested time. That is not an error.
func testEnd(t *testing.T, s apiServer, version string) {
	t.Helper()
	w := s.follow(t, "&timeoutSeconds=1&resourceVersion="+version)
	for {
		var raw struct{ Type string }
		err := w.decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil || raw.Type == "ERROR" {
			t.Fatalf("watch of a second: got %q, %v, want its end", raw.Type, err)
		}
	}
}

func testUnknown(t *testing.T, s apiServer) {
	t.Helper()
	status, body := s.get(t.Context(), t, "/api/v1/mills?watch=true")
	_ = body.Close()
	if status != http.StatusNotFound {
		t.Errorf("watch of an unknown collection: got %d, want 404", status)
	}
}

// testExpired requests a version that the server has forgotten. The answer is an error, or an event
// with one.
func testExpired(t *testing.T, s apiServer, version string) {
	t.Helper()
	e := s.follow(t, "&resourceVersion="+version).next(t)
	if code := fmt.Sprint(e.Object.Object["code"]); e.Type != "ERROR" || code != "410" {
		t.Errorf("watch from a version that is forgotten: got %s %v, want ERROR 410", e.Type, e.Object.Object)
	}
}
