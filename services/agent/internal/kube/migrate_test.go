// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"

// version is a version of a definition. Objects are stored in the last one of a list.
func version(name string) string {
	return fmt.Sprintf("{name: %s, served: true, storage: STORAGE, schema: {openAPIV3Schema: {type: object, properties: {"+
		"spec: {type: object, properties: {a: {type: string}, b: {type: string}, c: {type: string}}}}}}}", name)
}

// define creates a kind in these versions, or replaces its versions.
func (c *cluster) define(t *testing.T, kind string, versions ...string) {
	t.Helper()
	plural := strings.ToLower(kind) + "s"
	var list []string
	for i, name := range versions {
		list = append(list, strings.Replace(version(name), "STORAGE", fmt.Sprint(i == len(versions)-1), 1))
	}
	c.applyAs(t, "admin", definitions+plural+".example.test", fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"+
		"metadata: {name: %s.example.test}\nspec: {group: example.test, scope: Namespaced, names: {kind: %s, plural: %s}, versions: [%s]}\n",
		plural, kind, plural, strings.Join(list, ", ")))
	// The API server reports a definition as established before it serves the versions, and does
	// not report when it does.
	await.Poll(t, plural+" to be served", 50*time.Millisecond, func() (bool, string) { return c.served(t, plural, versions), "" })
}

// served reports whether the API server serves exactly these versions of a resource.
func (c *cluster) served(t *testing.T, plural string, versions []string) bool {
	t.Helper()
	for _, name := range []string{"v1beta1", "v1"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.cp.Host()+"/apis/example.test/"+name+"/namespaces/default/"+plural, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := c.cp.HTTPClient().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close() // which is no JSON where there is no such version
		if slices.Contains(versions, name) != (response.StatusCode == http.StatusOK) {
			return false
		}
	}
	return true
}

// retire prepares the removal of a version from a definition: no object is stored in it afterwards.
func (c *cluster) retire(t *testing.T, kind, object string) {
	t.Helper()
	plural := strings.ToLower(kind) + "s"
	c.editAs(t, "admin", "/apis/example.test/v1/namespaces/default/"+plural+"/"+object, `{"metadata": {"annotations": {"stored": "again"}}}`)
	c.must(t, http.MethodPatch, definitions+plural+".example.test/status", mergePatch, `{"status": {"storedVersions": ["v1"]}}`)
	c.define(t, kind, "v1")
}

func custom(version, kind, name, spec string) string {
	return fmt.Sprintf("apiVersion: example.test/%s\nkind: %s\nmetadata: {name: %s}\nspec: %s\n", version, kind, name, spec)
}

// testMigration changes the versions of a kind that has an object.
func testMigration(t *testing.T, c *cluster) {
	for name, test := range map[string]struct {
		kind    string
		between func(t *testing.T, kind, object, path string)
		next    string // version that is applied then
		values  map[string]any
		owners  map[string]string
	}{
		"to a version beside the old one": {
			kind: "Beside", next: "v1",
			between: func(t *testing.T, kind, _, _ string) { c.define(t, kind, "v1beta1", "v1") },
			values:  map[string]any{"spec.a": "2", "spec.b": nil},
		},
		"to a version in place of the old one": {
			kind: "Instead", next: "v1",
			between: func(t *testing.T, kind, object, _ string) {
				c.define(t, kind, "v1beta1", "v1")
				c.retire(t, kind, object)
			},
			values: map[string]any{"spec.a": "2", "spec.b": nil},
		},
		"with fields that others have set in the old version": {
			kind: "Shared", next: "v1",
			between: func(t *testing.T, kind, object, path string) {
				c.applyAs(t, "other", path, custom("v1beta1", kind, object, "{c: x}"))
				c.editAs(t, "editor", path, `{"metadata": {"annotations": {"x": "y"}}}`)
				c.define(t, kind, "v1beta1", "v1")
				c.retire(t, kind, object)
			},
			values: map[string]any{"spec.a": "2", "spec.b": nil, "spec.c": "x"}, owners: map[string]string{"f:spec f:c": "other"},
		},
		"of others only": {
			kind: "Foreign", next: "v1",
			between: func(t *testing.T, kind, object, path string) {
				c.applyAs(t, "other", path, custom("v1beta1", kind, object, "{c: x}"))
				c.define(t, kind, "v1beta1", "v1")
				s := c.put(t, object, map[string]string{"a.yaml": custom("v1", kind, object, "{a: '1', b: '1'}")}, plan.Spec{})
				c.carriedOut(t, s)
				c.retire(t, kind, object)
			},
			values: map[string]any{"spec.a": "2", "spec.b": nil, "spec.c": "x"}, owners: map[string]string{"f:spec f:c": "other"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := strings.ToLower(test.kind)
			path := "/namespaces/default/" + object + "s/" + object
			c.define(t, test.kind, "v1beta1")
			c.carriedOut(t, c.put(t, object, map[string]string{"a.yaml": custom("v1beta1", test.kind, object, "{a: '1', b: '1'}")}, plan.Spec{}))
			test.between(t, test.kind, object, "/apis/example.test/v1beta1"+path)
			c.carriedOut(t, c.put(t, object, map[string]string{"a.yaml": custom(test.next, test.kind, object, "{a: '2'}")}, plan.Spec{}))
			live := c.get(t, "/apis/example.test/v1"+path)
			for path, want := range test.values {
				if diff := cmp.Diff(want, part(live, strings.Split(path, ".")...)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", path, diff)
				}
			}
			for path, want := range test.owners {
				if got := strings.Join(ownersOf(live, strings.Split(path, " ")...), ","); got != want {
					t.Errorf("owners of %s: got %q, want %q", path, got, want)
				}
			}
		})
	}
}
