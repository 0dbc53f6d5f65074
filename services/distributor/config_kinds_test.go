// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/cloudtest"
	"github.com/leatdev/leat/services/distributor"
)

// hookSecret proves webhooks of the back ends of these tests.
const hookSecret = "hunter2-of-the-webhooks"

// backendOfKind is a back end that services of the project default may refer to, at every path.
func backendOfKind(t *testing.T, name, kind string) *fleetv1.Document {
	t.Helper()
	backend := &fleetv1.ConfigBackend{}
	if err := protojson.Unmarshal([]byte(`{"spec": {`+kind+`, "allowedPaths": ["**"], "projects": ["default"]}}`), backend); err != nil {
		t.Fatal(err)
	}
	backend.Metadata = &typev1.Metadata{Name: name}
	return &fleetv1.Document{Object: &fleetv1.Document_ConfigBackend{ConfigBackend: backend}}
}

// jsonServer gives one JSON object to holders of a bearer token.
type jsonServer struct {
	*httptest.Server

	mu   sync.Mutex
	text string
}

func startJSON(t *testing.T, bearer string) *jsonServer {
	t.Helper()
	s := &jsonServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+bearer {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.URL.Path != "/shop/db" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		_, _ = io.WriteString(w, s.text)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *jsonServer) put(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = text
}

// hook sends a webhook, and returns the answer.
func (h *hub) hook(t *testing.T, name, body, proof string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+"/webhooks/config/"+name, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+proof)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// TestWebhookRotates follows a rotation from the webhook to the agent, and the secret of the webhooks
// through updates.
func TestWebhookRotates(t *testing.T) {
	t.Parallel()
	h := startHub(t, quickly)
	server := startJSON(t, hunter2)
	server.put(`{"password": "` + hunter2 + `-1"}`)
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	document := func(more string) *fleetv1.Document {
		return backendOfKind(t, "web", `"http": {"url": "`+server.URL+`", "bearer": {"token": "`+hunter2+`"}}, "refresh": "86400s"`+more)
	}
	h.apply(t, document(`, "webhookSecret": "`+hookSecret+`"`), referringDocument("app", map[string]string{"PASSWORD": "web://shop/db#password"}))
	agent := h.enrol(t, "one")
	stream := h.watchPlan(t, agent.token, "")
	digest := stream.nextWith(t, content.snapshot.GetDigest()).GetServices()[0].GetConfigDigest()
	rotate := func(value, body string) {
		t.Helper()
		server.put(`{"password": "` + value + `"}`)
		if code, text := h.hook(t, "web", body, hookSecret); code != http.StatusAccepted || text != "{\"entries\":1}\n" {
			t.Fatalf("got %d %s for a webhook", code, text)
		}
		_, digest = stream.configDigest(t, "app", digest)
		got, err := h.config(t, agent.token, "app", digest)
		if err != nil || string(got.GetSecrets()["PASSWORD"]) != value {
			t.Fatalf("the agent has not got the rotated value: %v", err)
		}
	}
	rotate(hunter2+"-2", `{"path": "shop/db"}`)
	rotate(hunter2+"-3", "")
	if code, text := h.hook(t, "web", `{"path": "shop/other"}`, hookSecret); code != http.StatusAccepted || text != "{\"entries\":0}\n" {
		t.Errorf("got %d %s for a path that nobody refers to", code, text)
	}
	for name, proof := range map[string]string{"web": hookSecret + "x", "nobody": hookSecret} {
		if code, text := h.hook(t, name, "", proof); code != http.StatusUnauthorized || strings.Contains(text, "hunter2") {
			t.Errorf("%s: got %d %s without the proof", name, code, text)
		}
	}
	// An update that leaves the secrets out keeps them. An empty one ends webhooks.
	kept := backendOfKind(t, "web", `"http": {"url": "`+server.URL+`", "bearer": {}}, "refresh": "3600s"`)
	shown := protojson.Format(h.apply(t, kept))
	rotate(hunter2+"-4", "")
	h.apply(t, document(`, "webhookSecret": ""`))
	if code, _ := h.hook(t, "web", "", hookSecret); code != http.StatusUnauthorized {
		t.Errorf("got %d after the secret was taken away", code)
	}
	audit, err := h.fleet(t, adminToken).ListAuditRecords(t.Context(), &fleetv1.ListAuditRecordsRequest{PageSize: 1000})
	if err != nil {
		t.Fatal(err)
	}
	text := protojson.Format(audit)
	for _, field := range []string{"spec.webhookSecret", "spec.http.bearer.token"} {
		if !strings.Contains(text, field) {
			t.Errorf("no record says that %s was set", field)
		}
	}
	if strings.Contains(text+shown, "hunter2") {
		t.Error("a secret is shown")
	}
}

// TestCloudsReachAgents reads a secret of each cloud with the hub's identity.
func TestCloudsReachAgents(t *testing.T) {
	t.Parallel()
	clouds := cloudtest.Start(t)
	clouds.PutSecret("shop-db", `{"password": "`+hunter2+`"}`)
	h := startHub(t, quickly, func(c *distributor.Config) {
		c.Keys.KMS.Identity = clouds.Environment(cloudtest.TokenFile(t))
		c.Backends.Clouds = []string{"aws", "gcp", "azure"}
		c.Backends.AWSURL, c.Backends.GoogleURL = clouds.URL+"/aws/secrets", clouds.URL+"/google/secrets"
	})
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	h.apply(t,
		backendOfKind(t, "aws", `"aws": {"region": "`+cloudtest.Region+`"}`),
		backendOfKind(t, "gcp", `"gcp": {"project": "`+cloudtest.Project+`"}`),
		backendOfKind(t, "azure", `"azure": {"url": "`+clouds.URL+`"}`),
		referringDocument("app", map[string]string{"A": "aws://shop-db#password", "B": "gcp://shop-db#password", "C": "azure://shop-db#password"}))
	agent := h.enrol(t, "one")
	plan := h.watchPlan(t, agent.token, "").nextWith(t, content.snapshot.GetDigest())
	got, err := h.config(t, agent.token, "app", plan.GetServices()[0].GetConfigDigest())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"A", "B", "C"} {
		if string(got.GetSecrets()[key]) != hunter2 {
			t.Errorf("%s: the agent has not got the value", key)
		}
	}
}

// TestClosedBackEnds reports what the operator has not opened, in the state of the service.
func TestClosedBackEnds(t *testing.T) {
	t.Parallel()
	h := startHub(t, quickly)
	h.demo(t, newFolder(t, "c1", "one"))
	for kind, want := range map[string]string{
		`"kubernetes": {}`: "--distributor-config-kubernetes-token-file", `"aws": {"region": "eu-central-1"}`: "--distributor-config-clouds",
		`"kubernetes": {"url": "https://kubernetes.example", "hubToken": {}}`: "--distributor-config-token-file",
	} {
		h.apply(t, backendOfKind(t, "closed", kind), referringDocument("app", map[string]string{"A": "closed://shop/db#password"}))
		h.waitService(t, "app", func(s *fleetv1.Service) bool {
			return troubleOf(s) == errorsv1.Reason_REASON_CONFIG_MISSING && strings.Contains(s.GetStatus().GetProblem().GetMessage(), want)
		})
		admin := h.fleet(t, adminToken)
		if err := fleetcalls.Delete[*fleetv1.Service](t.Context(), admin, "app"); err != nil {
			t.Fatal(err)
		}
		if err := fleetcalls.Delete[*fleetv1.ConfigBackend](t.Context(), admin, "closed"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKindsOfBackEnds applies documents of every kind: a refused one names its field, an accepted
// one comes back without its secrets, and a secret stays with the server that it was given for.
func TestKindsOfBackEnds(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	refused := func(field, kind string) {
		t.Helper()
		_, err := h.fleet(t, adminToken).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{backendOfKind(t, "back", kind)}})
		wantReason(t, err, "FIELD_INVALID")
		if got := rpcerr.Metadata(err)[rpcerr.MetadataField]; !strings.HasSuffix(got, field) {
			t.Errorf("%s: got %v about %s, want the field %s", kind, err, got, field)
		}
	}
	refused("spec", `"public": true`)
	refused("spec.kubernetes.url", `"kubernetes": {"url": "http://kubernetes.example", "token": {"token": "t"}}`)
	refused("spec.kubernetes.url", `"kubernetes": {"hubToken": {}}`)
	refused("spec.kubernetes.url", `"kubernetes": {"url": "https://169.254.169.254", "hubToken": {}}`)
	refused("spec.kubernetes", `"kubernetes": {"url": "https://kubernetes.example"}`)
	refused("spec.kubernetes.token.token", `"kubernetes": {"url": "https://kubernetes.example", "token": {}}`)
	refused("spec.kubernetes.ca_pem", `"kubernetes": {"url": "https://kubernetes.example", "hubToken": {}, "caPem": "x"}`)
	refused("spec.http.url", `"http": {}`)
	refused("spec.http.url", `"http": {"url": "https://localhost"}`)
	refused("spec.http.url", `"http": {"url": "https://user:password@settings.example"}`)
	refused("spec.http.url", `"http": {"url": "https://settings.example/?token=x"}`)
	refused("spec.http.bearer.token", `"http": {"url": "https://settings.example", "bearer": {}}`)
	refused("spec.http.bearer.token", `"http": {"url": "https://settings.example", "bearer": {"token": "a\nb"}}`)
	refused("spec.http.client_certificate", `"http": {"url": "https://settings.example", "clientCertificate": {"certificatePem": "x", "keyPem": "y"}}`)
	refused("spec.aws.region", `"aws": {"region": "evil.example/"}`)
	refused("spec.aws.role", `"aws": {"region": "eu-central-1", "role": "admin"}`)
	refused("spec.gcp.project", `"gcp": {"project": "../other"}`)
	refused("spec.azure.url", `"azure": {"url": "https://vault.azure.net.example"}`)
	refused("spec.azure.url", `"azure": {"url": "https://127.0.0.1"}`)
	refused("spec.webhook_secret", `"environment": {}, "webhookSecret": "short"`)

	for name, kind := range map[string]string{
		"own": `"kubernetes": {}`, "lent": `"kubernetes": {"url": "https://kubernetes.example", "hubToken": {}}`,
		"other": `"kubernetes": {"url": "https://kubernetes.example", "token": {"token": "hunter2"}}`,
		"open":  `"http": {"url": "https://settings.example/v1"}`, "bearer": `"http": {"url": "https://settings.example", "bearer": {"token": "hunter2"}}`,
		"aws": `"aws": {"region": "eu-central-1", "role": "arn:aws:iam::123456789012:role/leat"}`, "gcp": `"gcp": {"project": "example"}`,
		"azure": `"azure": {"url": "https://team.vault.azure.net"}`, "hooked": `"environment": {}, "webhookSecret": "hunter2-hunter2-hunter2"`,
	} {
		document := backendOfKind(t, name, kind)
		h.apply(t, document)
		got, err := fleetcalls.Get[*fleetv1.ConfigBackend](t.Context(), h.fleet(t, adminToken), name)
		if err != nil {
			t.Fatal(err)
		}
		want := proto.CloneOf(document.GetConfigBackend().GetSpec())
		want.WebhookSecret = nil
		if token := want.GetKubernetes().GetToken(); token != nil {
			token.Token = nil
		}
		if bearer := want.GetHttp().GetBearer(); bearer != nil {
			bearer.Token = nil
		}
		if !proto.Equal(got.GetSpec(), want) {
			t.Errorf("%s: got %v, want %v", name, got.GetSpec(), want)
		}
	}
	for name, kind := range map[string]string{
		"other": `"kubernetes": {"url": "https://evil.example", "token": {}}`, "bearer": `"http": {"url": "https://evil.example", "bearer": {}}`,
	} {
		_, err := h.fleet(t, adminToken).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{backendOfKind(t, name, kind)}})
		wantReason(t, err, "FIELD_INVALID")
	}
	h.apply(t, backendOfKind(t, "bearer", `"http": {"url": "https://settings.example", "bearer": {}, "caPem": ""}, "refresh": "60s"`))
}
