// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeapi_test

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/leatdev/leat/services/tunnel/internal/kubeapi"
)

// golden is a request and what an API server reads out of it.
type golden struct {
	Method, Path, Query string
	Want                kubeapi.Attributes
}

// goldens are the answers of RequestInfoFactory of k8s.io/apiserver v0.36.3, with the prefixes that
// kube-apiserver gives it. They were written down because linking it would make the tunnel link the
// whole server.
func goldens(tb testing.TB) []golden {
	tb.Helper()
	file, err := os.Open("testdata/requestinfo.jsonl")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var cases []golden
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var c golden
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			tb.Fatalf("%s: %v", lines.Text(), err)
		}
		cases = append(cases, c)
	}
	if len(cases) < 100 {
		tb.Fatalf("got %d cases, want all of them", len(cases))
	}
	return cases
}

func TestAttributesAreThoseOfTheAPIServer(t *testing.T) {
	t.Parallel()
	for _, c := range goldens(t) {
		got := kubeapi.Parse(c.Method, c.Path, c.Query)
		if diff := cmp.Diff(c.Want, got, cmpopts.IgnoreFields(kubeapi.Attributes{}, "Follow")); diff != "" {
			t.Errorf("%s %s?%s: attributes differ (-want +got):\n%s", c.Method, c.Path, c.Query, diff)
		}
	}
}

func TestEndless(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]bool{
		"GET /api/v1/pods?watch=true":                                    true,
		"GET /api/v1/pods?watch":                                         true,
		"GET /api/v1/watch/pods":                                         true,
		"GET /api/v1/pods?watch=0":                                       false,
		"GET /api/v1/pods":                                               false,
		"GET /api/v1/namespaces/a/pods/b?watch=true":                     false,
		"POST /api/v1/namespaces/a/pods?watch=true":                      false,
		"GET /healthz?watch=true&follow=true":                            false,
		"GET /api/v1/namespaces/a/pods/b/log?follow=true":                true,
		"GET /api/v1/namespaces/a/pods/b/log?follow":                     true,
		"GET /api/v1/namespaces/a/pods/b/log?follow=false":               false,
		"GET /api/v1/namespaces/a/pods/b/log":                            false,
		"GET /api/v1/namespaces/a/pods/b?follow=true":                    false,
		"GET /apis/x.example/v1/namespaces/a/pods/b/log?follow=true":     false,
		"GET /api/v1/namespaces/a/configmaps?fieldSelector=follow%3Dyes": false,
	} {
		method, uri, _ := strings.Cut(request, " ")
		path, query, _ := strings.Cut(uri, "?")
		if got := kubeapi.Parse(method, path, query).Endless(); got != want {
			t.Errorf("%s: got %v, want %v", request, got, want)
		}
	}
}

func TestMalformedEscapeIsNoResource(t *testing.T) {
	t.Parallel()
	want := kubeapi.Attributes{Verb: "get", NonResourceURL: "/api/v1/pods/%zz"}
	if got := kubeapi.Parse("GET", "/api/v1/pods/%zz", ""); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// FuzzParse feeds any bytes. Whatever they are, there is a result, for a resource or for another
// path.
func FuzzParse(f *testing.F) {
	for _, c := range goldens(f) {
		f.Add(c.Method, c.Path, c.Query)
	}
	f.Fuzz(func(t *testing.T, method, path, query string) {
		got := kubeapi.Parse(method, path, query)
		resource := got.APIVersion != "" || got.Resource != "" || got.Name != "" || got.Subresource != "" || got.Namespace != ""
		if resource && got.NonResourceURL != "" {
			t.Errorf("%q %q?%q is both: %+v", method, path, query, got)
		}
		if got.NonResourceURL != "" && got.Endless() {
			t.Errorf("%q %q?%q has no resource and no end: %+v", method, path, query, got)
		}
	})
}
