// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/await"
)

// start starts a control plane, which the test or its cleanup stops.
func start(t *testing.T, p localkube.Params) *localkube.ControlPlane {
	t.Helper()
	if p.Binaries == (localkube.Binaries{}) {
		p.Binaries = kubetest.Binaries(t.Context(), t)
	}
	cp, err := localkube.Start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, cp) })
	return cp
}

func stop(t *testing.T, cp *localkube.ControlPlane) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
	defer cancel()
	if err := cp.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// send makes a request and fails the test unless the answer is 2xx.
func send(t *testing.T, cp *localkube.ControlPlane, method, path, body string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, cp.Host()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := cp.HTTPClient().Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode/100 != 2 {
		text, _ := io.ReadAll(response.Body)
		t.Fatalf("%s %s: got %s: %s", method, path, response.Status, text)
	}
	return response
}

func read(t *testing.T, cp *localkube.ControlPlane, path string, into any) {
	t.Helper()
	if err := json.NewDecoder(send(t, cp, http.MethodGet, path, "").Body).Decode(into); err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
}

// watched holds the fields of any object that the tests check.
type watched struct {
	Metadata struct{ Name string }
	Status   struct {
		Phase         string
		ReadyReplicas int
		Succeeded     int

		DesiredReplicas int
		Conditions      []condition
		LoadBalancer    struct{ Ingress []struct{ IP string } }
	}
}

type condition struct{ Type, Status string }

// awaitObject watches the objects at path, a collection, until want likes one.
func awaitObject(t *testing.T, cp *localkube.ControlPlane, path string, want func(watched) bool) {
	t.Helper()
	var last watched
	body := send(t, cp, http.MethodGet, fmt.Sprintf("%s?watch=true&timeoutSeconds=%d", path, int(await.Patience.Seconds())), "").Body
	defer func() { _ = body.Close() }() // an open watch holds up the API server's end
	events := json.NewDecoder(body)
	for {
		var event struct{ Object watched }
		if err := events.Decode(&event); err != nil {
			t.Fatalf("watch %s: %v; last seen: %+v", path, err, last)
		}
		if last = event.Object; want(last) {
			return
		}
	}
}

func TestWorkloadsRun(t *testing.T) {
	t.Parallel()
	p := localkube.Params{DataDir: filepath.Join(t.TempDir(), "data"), Nodes: 2, Audit: true}
	cp := start(t, p)

	send(t, cp, http.MethodPost, "/apis/apps/v1/namespaces/default/deployments", `{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
		"spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
			"metadata": {"labels": {"app": "web"}},
			"spec": {"containers": [{"name": "web", "image": "example.test/web:1", "resources": {"requests": {"ephemeral-storage": "50Mi"}}}]}}}}`)
	send(t, cp, http.MethodPost, "/api/v1/namespaces/default/persistentvolumeclaims", `{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
		"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}`)
	send(t, cp, http.MethodPost, "/apis/batch/v1/namespaces/default/jobs", `{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"},
		"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "once", "image": "example.test/once:1"}],
			"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}}}}`)

	awaitObject(t, cp, "/apis/apps/v1/namespaces/default/deployments", func(o watched) bool { return o.Status.ReadyReplicas == 3 })
	awaitObject(t, cp, "/api/v1/namespaces/default/persistentvolumeclaims", func(o watched) bool { return o.Status.Phase == "Bound" })
	awaitObject(t, cp, "/apis/batch/v1/namespaces/default/jobs", func(o watched) bool { return o.Status.Succeeded == 1 })

	var nodes struct{ Items []watched }
	if read(t, cp, "/api/v1/nodes", &nodes); len(nodes.Items) != 2 {
		t.Errorf("nodes: got %d, want 2", len(nodes.Items))
	}
	checkVersion(t, cp)
	checkAudit(t, cp)
	leavesNoProcess(t, cp, p.DataDir)
	runsAfterRestart(t, p)
}

// TestNodesLater starts what delivers first, and the components that run pods afterwards.
func TestNodesLater(t *testing.T) {
	t.Parallel()
	all := kubetest.Binaries(t.Context(), t)
	dir := t.TempDir()
	p := localkube.Params{
		DataDir: dir, NodesLater: true, Simulated: true,
		Binaries: localkube.Binaries{Etcd: all.Etcd, APIServer: all.APIServer},
	}
	cp := start(t, p)
	send(t, cp, http.MethodPost, "/apis/apps/v1/namespaces/default/deployments", `{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
		"spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
			"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "example.test/web:1"}]}}}}`)
	if got := localkube.EtcdVersion(dir); !strings.HasPrefix(got, "3.") {
		t.Errorf("version of etcd: got %q, want that of the running one", got)
	}
	if got := localkube.EtcdVersion(t.TempDir()); got != "" {
		t.Errorf("version of etcd in an empty folder: got %q", got)
	}
	if got := processesIn(t, dir); len(got) != 2 {
		t.Errorf("processes before the nodes start: got %v, want 2", got)
	}
	p.Binaries = all
	if err := cp.StartNodes(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	awaitObject(t, cp, "/apis/apps/v1/namespaces/default/deployments", func(o watched) bool { return o.Status.ReadyReplicas == 2 })
	if err := cp.StartNodes(t.Context(), p); err == nil {
		t.Error("second start of nodes: got no error")
	}
	leavesNoProcess(t, cp, dir)
	if err := cp.StartNodes(t.Context(), p); err == nil {
		t.Error("start of nodes after the stop: got no error")
	}
}

// leavesNoProcess stops a control plane.
func leavesNoProcess(t *testing.T, cp *localkube.ControlPlane, dir string) {
	t.Helper()
	if got := processesIn(t, dir); len(got) != 5 {
		t.Errorf("processes of a control plane: got %v, want 5", got)
	}
	stop(t, cp)
	if left := processesIn(t, dir); len(left) != 0 {
		t.Errorf("processes after stop: %v", left)
	}
	stop(t, cp) // again
}

func checkVersion(t *testing.T, cp *localkube.ControlPlane) {
	t.Helper()
	var version struct{ GitVersion, Major, Minor string }
	read(t, cp, "/version", &version)
	if want := "v" + version.Major + "." + version.Minor + "."; version.Major == "" || !strings.HasPrefix(version.GitVersion, want) {
		t.Errorf("version: got %+v, want gitVersion to start with major and minor", version)
	}
}

// checkAudit looks for the request that created the deployment.
func checkAudit(t *testing.T, cp *localkube.ControlPlane) {
	t.Helper()
	log, err := os.ReadFile(cp.AuditLogPath())
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(log) {
		var event struct {
			Verb, RequestURI string
			User             struct{ Username string }
		}
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatalf("audit log: %v in %s", err, line)
		}
		if event.Verb == "create" && event.RequestURI == "/apis/apps/v1/namespaces/default/deployments" && event.User.Username == "leat-local-admin" {
			return
		}
	}
	t.Errorf("audit log: the creation of a deployment is not in %s", cp.AuditLogPath())
}

const configMap = `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"key": "value"}}`

// TestSideBySide has two control planes, of which one meets another process at its port first, and
// ends both by force.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	const path = "/api/v1/namespaces/default/configmaps"
	dirOfOne, dirOfOther := t.TempDir(), t.TempDir()
	one := start(t, localkube.Params{DataDir: dirOfOne, APIServerOnly: true})
	other := startAtTakenPort(t, dirOfOther)
	if one.Host() == other.Host() {
		t.Fatalf("both at %s", one.Host())
	}
	for _, cp := range []*localkube.ControlPlane{one, other} {
		port, err := strconv.Atoi(cp.Host()[strings.LastIndexByte(cp.Host(), ':')+1:])
		if err != nil || port >= 32768 {
			t.Errorf("got %s, want a port that Linux gives to no outgoing connection", cp.Host())
		}
	}
	send(t, one, http.MethodPost, path, configMap)

	var list struct{ Items []watched }
	if read(t, other, path, &list); len(list.Items) != 0 {
		t.Errorf("objects of the other control plane: got %+v, want none", list.Items)
	}
	if one.AuditLogPath() != "" {
		t.Errorf("audit log that was not asked for: got %s", one.AuditLogPath())
	}
	t.Run("component dies", func(t *testing.T) { reportsDeath(t, one, dirOfOne) })
	t.Run("stop kills at its deadline", func(t *testing.T) { stopsKilling(t, other, dirOfOther) })
}

// startAtTakenPort starts a control plane, of which another process takes the API server's port
// first.
func startAtTakenPort(t *testing.T, dir string) *localkube.ControlPlane {
	t.Helper()
	p := localkube.Params{Binaries: kubetest.Binaries(t.Context(), t), DataDir: dir, APIServerOnly: true}
	p.Binaries.APIServer = newScript(t, fmt.Sprintf(`
if mkdir "$0.tried"; then echo "listen tcp 127.0.0.1:1: bind: address already in use"; exit 1; fi
exec %q "$@"`, p.Binaries.APIServer))
	cp := start(t, p)
	if _, err := os.Stat(p.Binaries.APIServer + ".tried"); err != nil {
		t.Errorf("the taken port was not tried: %v", err)
	}
	return cp
}

func TestRestart(t *testing.T) {
	t.Parallel()
	const path = "/api/v1/namespaces/default/configmaps"
	p := localkube.Params{DataDir: filepath.Join(t.TempDir(), "data"), APIServerOnly: true, Name: "kept"}

	before := start(t, p)
	send(t, before, http.MethodPost, path, configMap)
	if _, err := localkube.Start(t.Context(), p); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("start in a data directory that is in use: got error %v", err)
	}
	stop(t, before)

	after := start(t, p)
	read(t, after, path+"/kept", &watched{})
	if got, want := string(after.Kubeconfig()), string(before.Kubeconfig()); got != want {
		t.Errorf("kubeconfig after restart: got\n%s\nwant\n%s", got, want)
	}
	if onDisk, err := os.ReadFile(after.KubeconfigPath()); err != nil || !bytes.Equal(onDisk, after.Kubeconfig()) {
		t.Errorf("kubeconfig on disk: got\n%s, %v\nwant\n%s", onDisk, err, after.Kubeconfig())
	}
	stop(t, after)

	t.Run("port taken meanwhile", func(t *testing.T) {
		squatter, err := net.Listen("tcp", strings.TrimPrefix(before.Host(), "https://"))
		if err != nil {
			t.Fatal(err)
		}
		defer squatter.Close()
		moved := start(t, p)
		if moved.Host() == before.Host() {
			t.Errorf("host: got %s, want another", moved.Host())
		}
		read(t, moved, path+"/kept", &watched{})
	})
}

// TestRestartAPIServer stops and starts only the API server, while etcd compacts its history.
func TestRestartAPIServer(t *testing.T) {
	t.Parallel()
	const path = "/api/v1/namespaces/default/configmaps"
	cp := start(t, localkube.Params{DataDir: t.TempDir(), APIServerOnly: true})
	send(t, cp, http.MethodPost, path, configMap)
	if err := cp.StartAPIServer(t.Context()); err == nil {
		t.Error("start of a running API server: got no error")
	}
	for range 2 {
		cp.KillAPIServer()
		if response, err := cp.HTTPClient().Get(cp.Host() + "/readyz"); err == nil {
			_ = response.Body.Close()
			t.Errorf("readyz of a stopped API server: got %s, want no answer", response.Status)
		}
		if err := cp.CompactHistory(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := cp.StartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
		read(t, cp, path+"/kept", &watched{})
	}
	if err := cp.Err(); err != nil {
		t.Errorf("got %v, want no failure of a component", err)
	}
}

// runsAfterRestart creates a pod right after a restart: the new kwok must not wait until the leases
// by which the old one held the nodes expire, which takes longer than await does.
func runsAfterRestart(t *testing.T, p localkube.Params) {
	t.Helper()
	after := start(t, p)
	send(t, after, http.MethodPost, "/api/v1/namespaces/default/pods", `{
		"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "late"},
		"spec": {"containers": [{"name": "late", "image": "example.test/late:1"}]}}`)
	awaitObject(t, after, "/api/v1/namespaces/default/pods", func(o watched) bool {
		return o.Metadata.Name == "late" && o.Status.Phase == "Running"
	})
}

func TestStartCancelled(t *testing.T) {
	t.Parallel()
	p := localkube.Params{Binaries: kubetest.Binaries(t.Context(), t), DataDir: t.TempDir()}
	// The script reports that it runs and then blocks, both on a named pipe.
	p.Binaries.APIServer = newScript(t, `echo running >"$0.pipe"; read -r never <"$0.pipe"`)
	pipe := p.Binaries.APIServer + ".pipe"
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		if _, err := os.ReadFile(pipe); err != nil {
			t.Errorf("wait for the component: %v", err)
		}
	}()
	_, err := localkube.Start(ctx, p)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "wait for kube-apiserver") {
		t.Errorf("got %v, want %v and what it waited for", err, context.Canceled)
	}
	if left := processesIn(t, p.DataDir); len(left) != 0 {
		t.Errorf("processes after a cancelled start: %v", left)
	}
}

func TestStartBroken(t *testing.T) {
	t.Parallel()
	p := localkube.Params{Binaries: kubetest.Binaries(t.Context(), t), DataDir: t.TempDir()}
	p.Binaries.APIServer = newScript(t, "echo some reason; exit 3")
	_, err := localkube.Start(t.Context(), p)
	if got := fmt.Sprint(err); !strings.Contains(got, "kube-apiserver ended: exit status 3") || !strings.Contains(got, "some reason") {
		t.Errorf("got %q, want the component, how it ended and its last words", got)
	}
	if left := processesIn(t, p.DataDir); len(left) != 0 {
		t.Errorf("processes after a broken start: %v", left)
	}
}

// TestSimulatedCloud asks for what a cloud gives: addresses, and metrics by which an autoscaler can
// scale.
func TestSimulatedCloud(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cp := start(t, localkube.Params{DataDir: dir, Simulated: true})
	send(t, cp, http.MethodPost, "/api/v1/namespaces/default/services", `{
		"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
		"spec": {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": 80}]}}`)
	send(t, cp, http.MethodPost, "/apis/networking.k8s.io/v1/namespaces/default/ingresses", `{
		"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "web"},
		"spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}}`)
	send(t, cp, http.MethodPost, "/apis/apps/v1/namespaces/default/deployments", `{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
		"spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
			"metadata": {"labels": {"app": "web"}},
			"spec": {"containers": [{"name": "web", "image": "example.test/web:1", "resources": {"requests": {"cpu": "100m"}}}]}}}}`)
	send(t, cp, http.MethodPost, "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", `{
		"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
		"spec": {"minReplicas": 2, "maxReplicas": 4, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
			"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 99}}}]}}`)
	for _, path := range []string{"/api/v1/namespaces/default/services", "/apis/networking.k8s.io/v1/namespaces/default/ingresses"} {
		awaitObject(t, cp, path, func(o watched) bool {
			return len(o.Status.LoadBalancer.Ingress) == 1 && strings.HasPrefix(o.Status.LoadBalancer.Ingress[0].IP, "198.18.")
		})
	}
	isScaled := func(o watched) bool {
		return o.Status.DesiredReplicas == 2 && slices.ContainsFunc(o.Status.Conditions, func(c condition) bool {
			return c.Type == "ScalingActive" && c.Status == "True"
		})
	}
	const autoscalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
	awaitObject(t, cp, autoscalers, isScaled)
	awaitObject(t, cp, "/apis/apps/v1/namespaces/default/deployments", func(o watched) bool { return o.Status.ReadyReplicas == 2 })

	stop(t, cp)
	again := start(t, localkube.Params{DataDir: dir, Simulated: true})
	awaitObject(t, again, "/apis/apiregistration.k8s.io/v1/apiservices", func(o watched) bool {
		return o.Metadata.Name == "v1beta1.metrics.k8s.io" && slices.Contains(o.Status.Conditions, condition{"Available", "True"})
	})
	var pods, nodes struct {
		Items []struct {
			Metadata   struct{ Name string }
			Containers []struct{ Usage struct{ CPU string } }
		}
	}
	read(t, again, "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods?labelSelector=app%3Dweb", &pods)
	read(t, again, "/apis/metrics.k8s.io/v1beta1/nodes", &nodes)
	if len(pods.Items) != 2 || len(pods.Items[0].Containers) != 1 || pods.Items[0].Containers[0].Usage.CPU == "" || len(nodes.Items) != 1 {
		t.Errorf("got metrics of pods %+v and of nodes %+v, want those of 2 and of 1", pods, nodes)
	}
}
