// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// Paths of the API server, for objects in namespace default.
const (
	podTemplates    = "/api/v1/namespaces/default/podtemplates/"
	secrets         = "/api/v1/namespaces/default/secrets/"
	services        = "/api/v1/namespaces/default/services/"
	deploymentsPath = "/apis/apps/v1/namespaces/default/deployments/"
	jsonPatch       = "application/json-patch+json"
	plainJSON       = "application/json"
	strategic       = "application/strategic-merge-patch+json"
	plainYAML       = "application/yaml"
)

// audited starts a control plane that records requests.
func audited(p *localkube.Params) { p.APIServerOnly, p.Audit = true, true }

// applyAs server-side-applies as another client, with force.
func (c *cluster) applyAs(t *testing.T, manager, path, body string) {
	t.Helper()
	c.must(t, http.MethodPatch, path+"?force=true&fieldManager="+manager, applyPatch, body)
}

// editAs merges a patch as another client.
func (c *cluster) editAs(t *testing.T, manager, path, body string) {
	t.Helper()
	c.must(t, http.MethodPatch, path+"?fieldManager="+manager, mergePatch, body)
}

// createAs creates an object as another client.
func (c *cluster) createAs(t *testing.T, manager, collection, body string) {
	t.Helper()
	c.must(t, http.MethodPost, strings.TrimSuffix(collection, "/")+"?fieldManager="+manager, plainYAML, body)
}

func (c *cluster) must(t *testing.T, method, path, contentType, body string) map[string]any {
	t.Helper()
	status, answer := c.request(t, method, path, contentType, body)
	if status >= http.StatusBadRequest {
		t.Fatalf("%s %s: got %d, %v", method, path, status, answer["message"])
	}
	return answer
}

func (c *cluster) get(t *testing.T, path string) map[string]any {
	t.Helper()
	return c.must(t, http.MethodGet, path, "", "")
}

// carriedOut waits until s is applied completely, with any result.
func (c *cluster) carriedOut(t *testing.T, s plan.Service) report.Status {
	t.Helper()
	return c.await(t, s.Name, func(got report.Status) bool {
		return got.Phase != report.Syncing && got.Phase != report.Failed && got.Applied.SpecDigest == s.SpecDigest &&
			slices.Equal(got.Applied.Digests, []string{s.Bundles[0].Digest.String()})
	})
}

// until waits until an object matches. It watches the object instead of polling.
func (c *cluster) until(t *testing.T, path string, want func(map[string]any) bool) map[string]any {
	t.Helper()
	cut := strings.LastIndex(path, "/") + 1
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		c.cp.Host()+path[:cut-1]+fmt.Sprintf("?watch=true&timeoutSeconds=%d&fieldSelector=metadata.name%%3D", int(await.Patience.Seconds()))+path[cut:], http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.cp.HTTPClient().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	events, last := json.NewDecoder(response.Body), map[string]any(nil)
	for {
		var event struct{ Object map[string]any }
		if err := events.Decode(&event); err != nil {
			t.Fatalf("waited in vain for %s, last seen %v: %v", path, last, err)
		}
		if last = event.Object; want(last) {
			return last
		}
	}
}

// part finds a part of an object by names of fields, and of items.
func part(value any, path ...string) any {
	for _, name := range path {
		switch container := value.(type) {
		case map[string]any:
			value = container[name]
		case []any:
			i := slices.IndexFunc(container, func(item any) bool { return part(item, "name") == name })
			if i < 0 {
				return nil
			}
			value = container[i]
		default:
			return nil
		}
	}
	return value
}

// ownersOf lists the owners of a field, by their names in managedFields.
func ownersOf(object map[string]any, path ...string) []string {
	all := map[string]bool{}
	entries, _ := part(object, "metadata", "managedFields").([]any)
	for _, entry := range entries {
		if manager, ok := part(entry, "manager").(string); ok && part(entry, append([]string{"fieldsV1"}, path...)...) != nil {
			all[manager] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// writes counts the agent's requests to change an object, according to the API server's audit log.
func (c *cluster) writes(t *testing.T, name string) (count int) {
	t.Helper()
	for _, r := range c.requests(t) {
		if r.name == name && r.verb != "get" && r.verb != "list" && r.verb != "watch" {
			count++
		}
	}
	return count
}
