// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor"
)

// hunter2 is the secret that must not turn up anywhere.
const hunter2 = "hunter2-the-secret-of-this-test"

// notes keeps the log.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

func configDocument(name, cluster string, values, secrets map[string]string) *fleetv1.Document {
	document := serviceDocument(name, cluster, "demo", "app")
	document.GetService().Spec.Config = &fleetv1.ServiceConfig{Values: values, Secrets: secrets}
	return document
}

// configDigest waits for the plan in which the service has another configuration than before.
func (p *planStream) configDigest(t *testing.T, service, before string) (*distributorv1.Plan, string) {
	t.Helper()
	for {
		plan := p.next(t)
		for _, s := range plan.GetServices() {
			if s.GetName() == service && s.GetConfigDigest() != before {
				return plan, s.GetConfigDigest()
			}
		}
	}
}

func (h *hub) config(t *testing.T, token, service, digest string) (*distributorv1.GetServiceConfigResponse, error) {
	t.Helper()
	return h.agents(t, token).GetServiceConfig(t.Context(), &distributorv1.GetServiceConfigRequest{Service: service, ConfigDigest: digest})
}

func TestConfigurationGoesToItsClusterOnly(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	h.apply(t, clusterDocument("two"), serviceDocument("plain", "two", "demo", "app"),
		configDocument("app", "one", map[string]string{"REPLICAS": "3"}, map[string]string{"PASSWORD": hunter2}))
	one, two := h.enrol(t, "one"), h.enrol(t, "two")
	_, digest := h.watchPlan(t, one.token, "").configDigest(t, "app", "")

	want := &distributorv1.GetServiceConfigResponse{
		ConfigDigest: digest, Values: map[string]string{"REPLICAS": "3"}, Secrets: map[string][]byte{"PASSWORD": []byte(hunter2)},
	}
	got, err := h.config(t, one.token, "app", digest)
	if diff := cmp.Diff(want, got, protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("got %v (-want +got):\n%s", err, diff)
	}
	if got, err := h.config(t, two.token, "plain", ""); err != nil || got.GetConfigDigest() != "" || len(got.GetValues())+len(got.GetSecrets()) > 0 {
		t.Errorf("got %v, %v, want nothing for a service without a configuration", got, err)
	}
	// A service of another cluster is refused in the words that one which does not exist is refused
	// in.
	_, foreign := h.config(t, two.token, "app", digest)
	_, absent := h.config(t, two.token, "ghost", digest)
	wantReason(t, foreign, "NOT_FOUND")
	if a, b := foreign.Error(), strings.ReplaceAll(absent.Error(), "ghost", "app"); a != b || strings.Contains(a, hunter2) {
		t.Errorf("got %q for another cluster's service and %q for none, want no difference", a, b)
	}
	for _, token := range []string{"", adminToken, serviceToken(t)} {
		if _, err := h.config(t, token, "app", digest); err == nil {
			t.Error("somebody who is no agent was given the configuration")
		}
	}
}

// TestConfigurationIsNotCached asks as something in between would see it.
func TestConfigurationIsNotCached(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	agent := h.enrol(t, "one")
	address := h.url + distributorv1connect.DistributorServiceGetServiceConfigProcedure
	for service, status := range map[string]int{"app": http.StatusOK, "ghost": http.StatusNotFound} {
		message := `{"service":"` + service + `"}`
		post, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(message))
		if err != nil {
			t.Fatal(err)
		}
		post.Header.Set("Content-Type", "application/json")
		query := url.Values{"connect": {"v1"}, "encoding": {"json"}, "message": {message}}
		get, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"?"+query.Encode(), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for _, req := range []*http.Request{post, get} {
			res, err := h.client(t, agent.token).HTTP.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if got := res.Header.Get("Cache-Control"); res.StatusCode != status || got != "no-store" {
				t.Errorf("%s %s: got status %d and Cache-Control %q, want %d and no-store", req.Method, service, res.StatusCode, got, status)
			}
		}
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	log := &notes{}
	h := startHub(t, func(c *distributor.Config) {
		c.Telemetry.LogOutput, c.Telemetry.LogLevel = io.MultiWriter(log, t.Output()), "debug"
	})
	h.demo(t, newFolder(t, "c1", "one"))
	document := configDocument("app", "one", map[string]string{"REPLICAS": "3"}, map[string]string{"PASSWORD": hunter2})
	seen := []string{protojson.Format(h.apply(t, document))}
	admin := h.fleet(t, adminToken)
	got, err := fleetcalls.Get[*fleetv1.Service](t.Context(), admin, "app")
	if err != nil {
		t.Fatal(err)
	}
	if secrets := got.GetSpec().GetConfig().GetSecrets(); len(secrets) != 1 || secrets["PASSWORD"] != "" {
		t.Errorf("got %v, want the key alone", secrets)
	}
	listed, err := admin.List(t.Context(), &fleetv1.ListRequest{Kind: "Service"})
	if err != nil {
		t.Fatal(err)
	}
	watched := h.waitService(t, "app", func(*fleetv1.Service) bool { return true })
	updated, err := fleetcalls.Update(t.Context(), admin, got)
	if err != nil || updated.GetMetadata().GetGeneration() != got.GetMetadata().GetGeneration() {
		t.Errorf("got %v, %v, want what was read to change nothing", updated, err)
	}
	again := h.apply(t, document)
	if action := again.GetOutcomes()[0].GetAction(); action != fleetv1.ApplyAction_APPLY_ACTION_UNCHANGED {
		t.Errorf("got %v, want unchanged: the secret is the same", action)
	}
	// A refusal repeats no secret either.
	_, refused := admin.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{
		configDocument("app", "one", nil, map[string]string{"NOT-A-NAME": hunter2}),
	}})
	wantReason(t, refused, "FIELD_INVALID")
	if field := rpcerr.Metadata(refused)[rpcerr.MetadataField]; field != "documents[0].spec.config.secrets[NOT-A-NAME]" {
		t.Errorf("got field %q", field)
	}
	h.stop(t)

	seen = append(seen, protojson.Format(got), protojson.Format(listed), protojson.Format(watched), protojson.Format(updated),
		protojson.Format(again), refused.Error(), log.String())
	for _, text := range seen {
		if strings.Contains(text, "hunter2") {
			t.Errorf("the secret is shown in %.2000s", text)
		}
	}
	files := 0
	err = filepath.WalkDir(h.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte("hunter2")) {
			t.Errorf("the secret stands in %s", path)
		}
		files++
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("looked into %d files: %v", files, err)
	}
}

// TestConfigurationAloneChangesOnePlan shows that only the plan of the service's cluster changes,
// that no bundle is asked for, and that a restart brings the same digests.
func TestConfigurationAloneChangesOnePlan(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	h.apply(t, clusterDocument("two"), configDocument("app", "one", nil, map[string]string{"PASSWORD": hunter2}),
		configDocument("other", "two", nil, map[string]string{"PASSWORD": hunter2}))
	one, two := h.enrol(t, "one"), h.enrol(t, "two")
	stream := h.watchPlan(t, one.token, "")
	digest := stream.nextWith(t, content.snapshot.GetDigest()).GetServices()[0].GetConfigDigest()
	unaffected := h.watchPlan(t, two.token, "").nextWith(t, content.snapshot.GetDigest())
	foreign := unaffected.GetServices()[0].GetConfigDigest()
	if digest == foreign {
		t.Error("two services with the same secret have the same digest")
	}
	h.download(t, one.token, content.snapshot.GetDigest(), nil)
	downloads := h.git.count(&h.git.downloads)

	h.apply(t, configDocument("app", "one", nil, map[string]string{"PASSWORD": hunter2 + "3"}))
	_, changed := stream.configDigest(t, "app", digest)
	h.apply(t, configDocument("app", "one", nil, map[string]string{"PASSWORD": hunter2}))
	back, again := stream.configDigest(t, "app", changed)
	if again != digest {
		t.Errorf("got digest %s, want %s of the same configuration", again, digest)
	}
	if got := h.git.count(&h.git.downloads); got != downloads {
		t.Errorf("got %d downloads, want %d: no bundle changed", got, downloads)
	}
	h.stop(t)
	h.start(t)
	for _, agent := range []struct {
		*agentKey

		known string
	}{{one, back.GetVersion()}, {two, unaffected.GetVersion()}} {
		token := h.refresh(t, agent.agentKey)
		plan, err := h.agents(t, token).GetPlan(t.Context(), &distributorv1.GetPlanRequest{KnownVersion: agent.known})
		if err != nil || !plan.GetUnchanged() {
			t.Errorf("got %v, %v, want the plan unchanged", plan, err)
		}
	}
}

// TestConfigurationCountsAsApplied lets an agent report the content without the configuration, and
// then with it.
func TestConfigurationCountsAsApplied(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	h.apply(t, configDocument("app", "one", map[string]string{"A": "1"}, nil))
	agent := h.enrol(t, "one")
	plan := h.watchPlan(t, agent.token, "").nextWith(t, content.snapshot.GetDigest())
	entry := plan.GetServices()[0]
	report := &distributorv1.ServiceReport{
		Service: "app", ServiceUid: entry.GetUid(), Phase: typev1.ServicePhase_SERVICE_PHASE_HEALTHY, ObservedSpecDigest: entry.GetSpecDigest(),
		AppliedDigests: []string{content.snapshot.GetDigest()},
	}
	for sequence, config := range []string{"hmac-sha256:of-another-one", entry.GetConfigDigest()} {
		report.AppliedConfigDigest = config
		if _, err := h.agents(t, agent.token).ReportStatus(t.Context(), &distributorv1.ReportStatusRequest{
			PlanVersion: plan.GetVersion(), Full: true, Instance: "i", Sequence: uint64(sequence) + 1, Services: []*distributorv1.ServiceReport{report},
		}); err != nil {
			t.Fatal(err)
		}
		got := h.waitService(t, "app", func(s *fleetv1.Service) bool { return s.GetStatus().GetReport().GetAppliedConfigDigest() == config })
		if want := config == entry.GetConfigDigest(); got.GetStatus().GetSynced() != want || (got.GetStatus().GetPhase() == typev1.ServicePhase_SERVICE_PHASE_HEALTHY) != want {
			t.Errorf("applied %s: got %v, want synced and healthy: %v", config, got.GetStatus(), want)
		}
	}
}

func TestConfigurationWithoutDatabase(t *testing.T) {
	t.Parallel()
	database := postgrestest.New(t)
	h := startHub(t, func(c *distributor.Config) { c.DatabaseURL = database.Database(t) })
	h.demo(t, newFolder(t, "c1", "one"))
	h.apply(t, configDocument("app", "one", nil, map[string]string{"PASSWORD": hunter2}), serviceDocument("plain", "one", "demo", "app"))
	agent := h.enrol(t, "one")
	_, digest := h.watchPlan(t, agent.token, "").configDigest(t, "app", "")
	database.Kill()

	_, err := h.config(t, agent.token, "app", digest)
	wantReason(t, err, "DEPENDENCY_UNAVAILABLE")
	if delay, ok := rpcerr.RetryDelay(err); !ok || delay <= 0 {
		t.Errorf("got %v, want to be told when to try again", err)
	}
	if _, err := h.config(t, agent.token, "plain", ""); err != nil {
		t.Errorf("got %v, want an answer where there is nothing to look up", err)
	}
}
