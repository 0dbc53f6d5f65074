// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/leatdev/leat/gen/go/leat/agent/v1"
	"github.com/leatdev/leat/gen/go/leat/agent/v1/agentv1connect"
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/canarytest"
	"github.com/leatdev/leat/internal/testkit/otlptest"
	"github.com/leatdev/leat/services/agent"
)

// ageIdentity opens the files of render/sops/testdata.
const ageIdentity = "AGE-SECRET-KEY-1AC3FHNUDZ7T7LVFN2X240TLCRA0NUCM0TE9XDJE3Y4Z0EA9LKAGQ04MJRH"

// record has the hub keep what agents send, except the credentials that each call carries.
func (h *hub) record(sent io.Writer) {
	handler := h.server.Handler
	h.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := r.Header.Clone()
		header.Del("Authorization")
		_, _ = fmt.Fprintln(sent, r.Method, r.URL, header)
		if !strings.HasSuffix(r.URL.Path, "/Enroll") && !strings.HasSuffix(r.URL.Path, "/RefreshToken") {
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(r.Body, sent), r.Body}
		}
		handler.ServeHTTP(w, r)
	})
}

// created posts an object as an administrator, and returns the answer.
func created(t *testing.T, cp *localkube.ControlPlane, path, body string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, cp.Host()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/yaml")
	response, err := cp.HTTPClient().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// got returns what a URL answers.
func got(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: got %s, %v", url, response.Status, err)
	}
	return string(answer)
}

// secretManifest returns the manifest of a Secret.
func secretManifest(namespace, name, kind string, data map[string]string) string {
	text := fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: %s}\ntype: %s\ndata:\n", name, namespace, kind)
	for key, value := range data {
		text += fmt.Sprintf("  %s: %s\n", key, base64.StdEncoding.EncodeToString([]byte(value)))
	}
	return text
}

// nest is an agent with canaries in every place that it reads, keeps or is given.
type nest struct {
	cp  *localkube.ControlPlane
	hub *hub
	dir string
	// log, sent and events are the agent's log, its messages to the hub, and its events about
	// services.
	log, sent, events *notes
	set               *canarytest.Set
	// control is part of the names of services. It is never masked, so each channel that names
	// services shows it: a search for canaries there would find one.
	control    *canarytest.Set
	controlled string
}

// configureAll gives a service of the plan a whole configuration.
func (h *hub) configureAll(service string, config *distributorv1.GetServiceConfigResponse) {
	h.change(func() {
		if h.configs == nil {
			h.configs = map[string]*distributorv1.GetServiceConfigResponse{}
		}
		config.ConfigDigest = "hmac-sha256:" + service
		h.configs[service] = config
		h.plan = proto.CloneOf(h.plan)
		for _, s := range h.plan.GetServices() {
			if s.GetName() == service {
				s.ConfigDigest = config.GetConfigDigest()
			}
		}
		h.plan.Version = config.GetConfigDigest()
	})
}

// plant puts Secrets into the cluster, and deploys services that read, make and fail with secrets.
func (n *nest) plant(t *testing.T) {
	t.Helper()
	secret := func(namespace, name, kind string, data map[string]string) {
		t.Helper()
		created(t, n.cp, "/api/v1/namespaces", "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+namespace+"}\n")
		created(t, n.cp, "/api/v1/namespaces/"+namespace+"/secrets", secretManifest(namespace, name, kind, data))
	}
	n.set.Add("the age key", ageIdentity)
	n.set.Add("an encrypted manifest", "canary-password")
	secret("leat-system", "leat-sops", "Opaque", map[string]string{"all.agekey": ageIdentity})
	secret("leat-system", "pull", "kubernetes.io/dockerconfigjson", map[string]string{
		".dockerconfigjson": fmt.Sprintf(`{"auths":{"registry.example":{"username":"u","password":%q}}}`, n.set.PlantWord("the agent's pull secret")),
	})
	secret("vault", "db", "Opaque", map[string]string{"password": n.set.Plant("a reference"), "unused": n.set.Plant("beside a reference")})
	secret("others", "hidden", "Opaque", map[string]string{"password": n.set.Plant("another namespace")})

	encrypted, err := os.ReadFile("../../render/sops/testdata/data.enc.yaml")
	if err != nil {
		t.Fatal(err)
	}
	deploy := func(service string, files map[string]string, policy *typev1.SyncPolicy) string {
		t.Helper()
		name := service + "-" + n.controlled
		n.hub.deployAs(t, name, files, &distributorv1.ApplySpec{Prune: true, Policy: policy})
		return name
	}
	deploy("encrypted", map[string]string{"a.yaml": string(encrypted)}, nil)
	deploy("tampered", map[string]string{"a.yaml": strings.Replace(string(encrypted), "name: shop", "name: other", 1)}, nil)

	// A configuration is applied, refused by the API server, quoted by a health rule and missing.
	quoting := &typev1.SyncPolicy{HealthRules: []*typev1.HealthRule{
		{Kind: "ConfigMap", Degraded: "true", Message: "'says ' + self.data.url + base64.encode(bytes('u:' + self.data.url))"},
		{Kind: "Secret", Degraded: "true", Message: "'says ' + self.data.password + self.metadata.name"},
	}}
	configured := func(service, manifest string, policy *typev1.SyncPolicy) {
		t.Helper()
		name := deploy(service, map[string]string{"a.yaml": manifest}, policy)
		n.hub.configureAll(name, &distributorv1.GetServiceConfigResponse{
			Values:     map[string]string{"OPEN": "1"},
			Secrets:    map[string][]byte{"PASSWORD": []byte(n.set.Plant("the configuration of " + service)), "WORD": []byte(n.set.PlantWord("a word of " + service))},
			References: map[string]string{"DB": "cluster://vault/db#password"},
		})
	}
	configured("quoted", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: quoted}\ndata: {url: '${PASSWORD} ${DB}'}\n---\n"+
		"apiVersion: v1\nkind: Secret\nmetadata: {name: quoted}\nstringData: {password: '${PASSWORD}'}\n", quoting)
	configured("refused", "apiVersion: v1\nkind: Service\nmetadata: {name: refused}\nspec: {type: '${WORD}', ports: [{port: 80}]}\n", nil)
	configured("number", "apiVersion: v1\nkind: Service\nmetadata: {name: number}\nspec: {ports: [{port: '${WORD}'}]}\n", nil)
	configured("shown", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shown, annotations: {a: '${PASSWORD}'}}\n", nil)
	configured("missing", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: missing}\ndata: {a: '${PASSWORD}${GONE}'}\n", nil)
	configured("drifted", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: drifted}\ndata: {a: '${PASSWORD}'}\n",
		&typev1.SyncPolicy{Drift: typev1.DriftMode_DRIFT_MODE_REPORT})

	// Secrets in manifests, and in templates that fail.
	plain := n.set.Plant("a Secret in a manifest")
	inBase64 := base64.StdEncoding.EncodeToString([]byte(plain))
	deploy("plain", map[string]string{"a.yaml": secretManifest("default", "plain", "Opaque", map[string]string{"password": plain})}, quoting)
	deploy("not-base64", map[string]string{"a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: bad}\ndata: {password: '" + n.set.PlantWord("a Secret that is not base64") + "!'}\n"}, nil)
	deploy("immutable", map[string]string{"a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: fixed}\nimmutable: true\ndata: {password: " + inBase64 + "}\n"}, nil)

	// Conditions and references of services over Secrets.
	for i, condition := range []string{
		"int(self.data.password) > 1", "timestamp(self.data.password) > timestamp(0)", "self[self.data.password] == 1", "string(self.data) == ''",
	} {
		deploy(fmt.Sprint("waits-", i), map[string]string{"a.yaml": configMap(fmt.Sprint("waits-", i), "1")}, &typev1.SyncPolicy{DependsOn: []*typev1.Dependency{{
			Object: &typev1.DependencyObject{ApiVersion: "v1", Kind: "Secret", Namespace: "others", Name: "hidden"}, Condition: condition,
		}}})
	}
	deploy("home", map[string]string{"a.yaml": configMap("home", "1")}, &typev1.SyncPolicy{DependsOn: []*typev1.Dependency{{
		Object: &typev1.DependencyObject{ApiVersion: "v1", Kind: "Secret", Namespace: "leat-system", Name: "pull"}, Condition: "self.type == ''",
	}}})
}

// search looks for canaries in everything of a kind that the agent shows.
func (n *nest) search(t *testing.T, where, text string, isNamed bool) {
	t.Helper()
	if isNamed && len(n.control.Find(text)) == 0 {
		t.Errorf("%s names no service, so that a secret would not be found either", where)
	}
	n.set.Check(t, where, text)
}

// TestSecCanariesOfAnAgent puts a secret into every place that an agent keeps, reads or is given
// one, has services work and fail with them, and searches everything that leaves the agent: what it
// sends to the hub, what it answers through the tunnel, its log, its metrics, its traces, its
// objects in the cluster that are not Secrets, and its disk. It is not parallel: exporters are set
// up by the environment.
func TestSecCanariesOfAnAgent(t *testing.T) {
	collected := otlptest.Traces(t)
	internal, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &nest{cp: kubetest.Borrow(t), hub: newHub(t), dir: t.TempDir(), log: &notes{}, sent: &notes{}, events: &notes{}, set: &canarytest.Set{}, control: &canarytest.Set{}}
	n.controlled = n.control.PlantWord("the name of a service")
	join := n.set.PlantWord("the join token")
	n.hub.joins[join], n.hub.secret = true, n.set.PlantWord("the access token")
	n.hub.record(n.sent)
	tun, caFile := startTunnel(t, n.hub)
	bindAdmins(t, n.cp)
	options := func(c *agent.Config) {
		c.HubCAFile, c.Serve.Listener, c.Telemetry.LogOutput, c.Telemetry.TracesExporter = caFile, internal, n.log, "otlp"
	}
	stop := startAgent(t, n.cp, n.hub.url(), n.dir, join, options)
	via, _ := tun.accept(t)
	n.follow(t, via)
	n.plant(t)
	reported := func(service string, phase typev1.ServicePhase, words ...string) {
		t.Helper()
		n.hub.awaitReport(t, service+"-"+n.controlled, func(got *distributorv1.ServiceReport) bool {
			for _, word := range words {
				if !strings.Contains(got.GetProblem().GetMessage(), word) {
					return false
				}
			}
			return got.GetPhase() == phase
		})
	}
	const degraded, pending = typev1.ServicePhase_SERVICE_PHASE_DEGRADED, typev1.ServicePhase_SERVICE_PHASE_PENDING
	reported("encrypted", healthy)
	reported("tampered", failed, "MAC differs")
	reported("quoted", degraded, "says (masked)")
	reported("refused", failed, "spec.type")
	for _, service := range []string{"number", "shown", "missing", "not-base64"} {
		reported(service, failed)
	}
	reported("plain", degraded, "says")
	for i := range 4 {
		reported(fmt.Sprint("waits-", i), pending, "Secret others/hidden")
	}
	reported("home", pending, "the agent's own")
	reported("immutable", healthy)
	reported("drifted", healthy)

	// Changes of a Secret that is immutable, and of an object that holds a secret.
	n.hub.deploy(t, "immutable-"+n.controlled, map[string]string{"a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: fixed}\nimmutable: true\ndata: {password: " +
		base64.StdEncoding.EncodeToString([]byte(n.set.Plant("an immutable Secret's second value"))) + "}\n"})
	reported("immutable", failed)
	send(t, via, http.MethodPatch, "/kubernetes/api/v1/namespaces/default/configmaps/drifted", `{"data":{"a":"other"}}`, http.Header{
		"Impersonate-User": {"alice"}, "Impersonate-Group": {"leat:admins"}, "Content-Type": {"application/merge-patch+json"},
	})
	n.hub.awaitReport(t, "drifted-"+n.controlled, func(got *distributorv1.ServiceReport) bool { return len(got.GetDrift()) > 0 })

	n.searchAnswers(t, via)
	n.set.Add("the agent's key", n.ownSecrets(t))
	metrics := got(t, http.DefaultClient, "http://"+internal.Addr().String()+"/metrics")
	for _, name := range []string{"leat_reconcile_duration", `leat_reconcile_objects_total{leat_object_result="applied"`, `leat_render_outputs_total{leat_render_result="remembered"`} {
		if !strings.Contains(metrics, name) {
			t.Errorf("got metrics without the agent's own %s:\n%s", name, metrics)
		}
	}
	stop() // exports the last spans
	n.search(t, "the metrics", metrics, false)
	n.search(t, "the hub", n.sent.String(), true)
	n.search(t, "an event", n.events.String(), true)
	n.search(t, "the log", n.log.String(), true)
	var spans strings.Builder
	for _, span := range collected.Spans() {
		spans.WriteString(protojson.Format(span.Span))
	}
	n.search(t, "a trace", spans.String(), true)
	for _, kind := range []string{"/api/v1/configmaps", "/api/v1/events", "/apis/events.k8s.io/v1/events", "/apis/coordination.k8s.io/v1/leases", "/api/v1/namespaces"} {
		n.searchObjects(t, kind)
	}
	n.searchDisk(t)
}

// follow keeps the events of all services until the test ends.
func (n *nest) follow(t *testing.T, via http.RoundTripper) {
	t.Helper()
	ctx, info := connect.NewClientContext(t.Context())
	info.RequestHeader().Set("Leat-Subject", "user:alice")
	events, err := agentv1connect.NewAgentServiceClient(&http.Client{Transport: via}, "http://agent").WatchEvents(ctx, &agentv1.WatchEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for events.Receive() {
			_, _ = fmt.Fprintln(n.events, protojson.Format(events.Msg()))
		}
	}()
}

// searchAnswers looks through what the agent answers to people who may see a service.
func (n *nest) searchAnswers(t *testing.T, via http.RoundTripper) {
	t.Helper()
	client := agentv1connect.NewAgentServiceClient(&http.Client{Transport: via}, "http://agent")
	ctx, info := connect.NewClientContext(await.Context(t))
	info.RequestHeader().Set("Leat-Subject", "user:alice")
	n.hub.mu.Lock()
	services := proto.CloneOf(n.hub.plan).GetServices()
	n.hub.mu.Unlock()
	var all strings.Builder
	for _, service := range services {
		diff, err := client.Diff(ctx, &agentv1.DiffRequest{Service: service.GetName()})
		_, _ = fmt.Fprintln(&all, protojson.Format(diff), err)
		inventory, err := client.GetInventory(ctx, &agentv1.GetInventoryRequest{Service: service.GetName()})
		_, _ = fmt.Fprintln(&all, protojson.Format(inventory), err)
		_, err = client.Reconcile(ctx, &agentv1.ReconcileRequest{Service: service.GetName()})
		_, _ = fmt.Fprintln(&all, err)
	}
	n.search(t, "an answer through the tunnel", all.String(), true)
}

// ownSecrets returns the private key of the agent as its Secret holds it.
func (n *nest) ownSecrets(t *testing.T) string {
	t.Helper()
	var identity struct{ Data map[string][]byte }
	text := got(t, n.cp.HTTPClient(), n.cp.Host()+"/api/v1/namespaces/leat-system/secrets/leat-agent-identity")
	if err := json.Unmarshal([]byte(text), &identity); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(n.dir, "agent.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range bytes.Split(key, []byte("\n")) {
		if len(line) > 40 { // of the PEM, the line with the key
			return string(line)
		}
	}
	t.Fatalf("got no key in %d bytes", len(key))
	return ""
}

// searchObjects looks through objects that people may read, except objects that services put
// secrets into.
func (n *nest) searchObjects(t *testing.T, kind string) {
	t.Helper()
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal([]byte(got(t, n.cp.HTTPClient(), n.cp.Host()+kind)), &list); err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Items {
		var object struct {
			Metadata struct{ Namespace, Name string }
		}
		if err := json.Unmarshal(item, &object); err != nil {
			t.Fatal(err)
		}
		if m := object.Metadata; m.Namespace != "default" || m.Name != "quoted" && m.Name != "drifted" {
			n.search(t, kind+" "+m.Namespace+"/"+m.Name, string(item), strings.HasPrefix(m.Name, "leat-inventory."))
		}
	}
}

// searchDisk looks through the agent's folder, except for its key and the bundles, which hold the
// content of Git.
func (n *nest) searchDisk(t *testing.T) {
	t.Helper()
	var all bytes.Buffer
	sealed := 0
	err := filepath.WalkDir(n.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "agent.key" {
			return err
		}
		if inside, err := filepath.Rel(n.dir, path); err != nil || strings.HasPrefix(inside, "bundles"+string(filepath.Separator)) {
			return err
		}
		if strings.HasSuffix(path, ".sealed") {
			sealed++
		}
		content, err := os.ReadFile(path)
		all.Write(content)
		return err
	})
	if err != nil || sealed == 0 {
		t.Errorf("got %d sealed files, %v, want some", sealed, err)
	}
	n.search(t, "the disk", all.String(), true)
}
