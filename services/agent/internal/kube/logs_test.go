// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// kubelet answers the API server's requests for logs, for a node of that name.
func (c *cluster) kubelet(t *testing.T, node string, logs map[string]string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(r.URL.Path, "/") // /containerLogs/NAMESPACE/POD/CONTAINER
		text, ok := logs[parts[len(parts)-1]]
		if !ok {
			http.NotFound(w, r)
			return
		}
		lines := strings.SplitAfter(text, "\n")
		count, err := strconv.Atoi(r.URL.Query().Get("tailLines"))
		if err != nil {
			http.Error(w, "want tailLines", http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, strings.Join(lines[max(len(lines)-1-count, 0):], ""))
	}))
	t.Cleanup(server.Close)
	host, port, err := net.SplitHostPort(strings.TrimPrefix(server.URL, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	c.must(t, http.MethodPost, "/api/v1/nodes", "application/json", fmt.Sprintf(`{"metadata":{"name":%q}}`, node))
	c.must(t, http.MethodPatch, "/api/v1/nodes/"+node+"/status", mergePatch, fmt.Sprintf(
		`{"status":{"addresses":[{"type":"InternalIP","address":%q}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%s}}}}`, host, port))
}

// pod creates a Pod of a Job on a node, whose containers ended with these exit codes.
func (c *cluster) pod(t *testing.T, node, name, job, phase string, codes map[string]int) {
	t.Helper()
	var containers, statuses []string
	for _, container := range []string{"app", "sidecar"} {
		containers = append(containers, fmt.Sprintf(`{"name":%q,"image":"x"}`, container))
		statuses = append(statuses, fmt.Sprintf(`{"name":%q,"image":"x","imageID":"x","ready":false,"restartCount":0,"state":{"terminated":{"exitCode":%d}}}`,
			container, codes[container]))
	}
	c.must(t, http.MethodPost, "/api/v1/namespaces/default/pods", "application/json", fmt.Sprintf(
		`{"metadata":{"name":%q,"labels":{"batch.kubernetes.io/controller-uid":%q}},"spec":{"nodeName":%q,"containers":[%s]}}`,
		name, job, node, strings.Join(containers, ",")))
	c.must(t, http.MethodPatch, "/api/v1/namespaces/default/pods/"+name+"/status", mergePatch, fmt.Sprintf(
		`{"status":{"phase":%q,"containerStatuses":[%s]}}`, phase, strings.Join(statuses, ",")))
}

// TestLogs reads the ends of logs through a real API server, from a fake kubelet.
func TestLogs(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.must(t, http.MethodPost, "/api/v1/namespaces/default/serviceaccounts", "application/json", `{"metadata":{"name":"default"}}`)
	long := strings.Repeat("line\n", 100) + "the end\n"
	huge := strings.Repeat("x", 100<<10) + "end\n"
	c.kubelet(t, "one", map[string]string{"app": long, "sidecar": "also\n"})
	c.kubelet(t, "two", map[string]string{"app": huge})
	c.pod(t, "one", "ok", "job-1", "Succeeded", nil)
	c.pod(t, "one", "bad", "job-1", "Failed", map[string]int{"app": 1})
	c.pod(t, "one", "both", "job-2", "Failed", map[string]int{"app": 1, "sidecar": 2})
	c.pod(t, "two", "huge", "job-3", "Failed", map[string]int{"app": 1})

	read := func(kind, name, uid string) string {
		t.Helper()
		ref := inventory.Ref{Key: inventory.Key{Kind: kind, Namespace: "default", Name: name}, Version: "v1"}
		if kind == "Job" {
			ref.Group = "batch"
		}
		text, err := c.client.Logs(t.Context(), inventory.Object{Ref: ref, UID: uid})
		if err != nil {
			t.Errorf("read logs of %s: %v", name, err)
		}
		return text
	}
	tail := strings.Repeat("line\n", 19) + "the end\n"
	for name, test := range map[string]struct{ got, want string }{
		"the pod that failed": {read("Job", "j", "job-1"), tail},
		"both containers":     {read("Job", "j", "job-2"), "==> app\n" + tail + "==> sidecar\nalso\n"},
		"a pod":               {read("Pod", "bad", ""), tail},
		"no pods":             {read("Job", "j", "job-none"), ""},
		"another kind":        {read("ConfigMap", "c", ""), ""},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %q, want %q", name, test.got, test.want)
		}
	}
	if got := read("Job", "j", "job-3"); len(got) > 64<<10+1 || !strings.HasSuffix(got, "xend\n") {
		t.Errorf("a long line: got %d bytes that end with %q, want at most 64 KiB, and the end", len(got), got[max(len(got)-10, 0):])
	}
}

// TestTestLog shows that the report has the end of a failed test's log, and no secret in it.
func TestTestLog(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.must(t, http.MethodPost, "/api/v1/namespaces/default/serviceaccounts", "application/json", `{"metadata":{"name":"default"}}`)
	c.kubelet(t, "node", map[string]string{"app": "GET /health\npassword correct-horse was refused\ngot 500\n"})
	files := map[string]string{"app.yaml": configMap("checked", "1"), "job.yaml": job("probe", testPhase)}
	c.configure(t, "checked", files, plan.Spec{}, &render.Variables{Secrets: map[string]string{"PASSWORD": "correct-horse"}})
	const path = "/apis/batch/v1/namespaces/default/jobs/probe"
	live := c.until(t, path, func(o map[string]any) bool { return part(o, "metadata", "uid") != nil })
	uid, _ := part(live, "metadata", "uid").(string)
	c.pod(t, "node", "probe-1", uid, "Failed", map[string]int{"app": 1})
	now := "2026-01-01T00:00:00Z"
	c.must(t, http.MethodPatch, path+"/status", mergePatch, fmt.Sprintf(`{"status":{"startTime":%[1]q,"failed":1,"conditions":[
		{"type":"FailureTarget","status":"True","lastTransitionTime":%[1]q},
		{"type":"Failed","status":"True","reason":"BackoffLimitExceeded","message":"Job has reached the specified backoff limit","lastTransitionTime":%[1]q}]}}`, now))
	got := c.await(t, "checked", func(got report.Status) bool {
		return got.Problem != nil && got.Problem.Reason == reason.TestFailed
	})
	if want := "GET /health\npassword (masked) was refused\ngot 500\n"; len(got.Tests) != 1 || got.Tests[0].LogTail != want {
		t.Errorf("tests: got %+v, want the log %q", got.Tests, want)
	}
	if !strings.Contains(got.Problem.Message, "backoff limit; its log ends with: GET /health | password (masked) was refused | got 500") {
		t.Errorf("problem: got %q, want the end of the log in it", got.Problem.Message)
	}
}
