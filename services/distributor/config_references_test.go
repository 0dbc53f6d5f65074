// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/internal/testkit/vaultdouble"
	"github.com/leatdev/leat/services/distributor"
)

// vaultToken is the token with which the hub reads the double.
const vaultToken = "hvs.hunter2-the-token"

// quickly has the hub look often, at a Vault of this machine.
func quickly(c *distributor.Config) {
	c.AllowLocalAgents = true
	c.Backends.Poll = 20 * time.Millisecond
}

// vaultDocument is a back end that services of the project default may refer to, below shop.
func vaultDocument(url, token string) *fleetv1.Document {
	auth := &fleetv1.VaultToken{}
	if token != "" {
		auth.Token = proto.String(token)
	}
	return &fleetv1.Document{Object: &fleetv1.Document_ConfigBackend{ConfigBackend: &fleetv1.ConfigBackend{
		Metadata: &typev1.Metadata{Name: "vault"},
		Spec: &fleetv1.ConfigBackendSpec{
			Kind:         &fleetv1.ConfigBackendSpec_Vault{Vault: &fleetv1.VaultBackend{Url: url, Auth: &fleetv1.VaultBackend_Token{Token: auth}}},
			AllowedPaths: []string{"shop/**"}, Projects: []string{"default"},
		},
	}}}
}

func referringDocument(name string, references map[string]string) *fleetv1.Document {
	document := serviceDocument(name, "one", "demo", "app")
	document.GetService().Spec.Config = &fleetv1.ServiceConfig{References: references}
	return document
}

func (h *hub) refreshBackend(t *testing.T, path string) {
	t.Helper()
	_, err := h.fleet(t, adminToken).RefreshConfigBackend(t.Context(), &fleetv1.RefreshConfigBackendRequest{Name: "vault", Path: path})
	if err != nil {
		t.Fatal(err)
	}
}

func troubleOf(s *fleetv1.Service) errorsv1.Reason { return s.GetStatus().GetProblem().GetReason() }

func (h *hub) explained(t *testing.T, service string) map[string]*fleetv1.ConfigExplanation {
	t.Helper()
	res, err := h.fleet(t, adminToken).ExplainServiceConfig(t.Context(), &fleetv1.ExplainServiceConfigRequest{Name: service})
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]*fleetv1.ConfigExplanation{}
	for _, key := range res.GetKeys() {
		keys[key.GetKey()] = key
	}
	return keys
}

// TestReferencesReachAgents follows a value of a Vault to the agent: waiting, given, rotated,
// withdrawn, while the Vault is sealed, and through a restart of the hub. Its secrets appear
// nowhere else.
func TestReferencesReachAgents(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); testReferencesReachAgents(t) })
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		database := postgrestest.New(t)
		testReferencesReachAgents(t, func(c *distributor.Config) { c.DatabaseURL = database.Database(t) })
	})
}

func testReferencesReachAgents(t *testing.T, change ...func(*distributor.Config)) {
	log := &notes{}
	h := startHub(t, append(change, quickly, func(c *distributor.Config) {
		c.Telemetry.LogOutput, c.Telemetry.LogLevel = io.MultiWriter(log, t.Output()), "debug"
	})...)
	vault := vaultdouble.Start(t)
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	seen := []string{protojson.Format(h.apply(t, vaultDocument(vault.URL, vault.Token(vaultToken)),
		referringDocument("app", map[string]string{"PASSWORD": "vault://shop/db#password", "EXTRA": "vault://shop/extra#extra?"})))}
	agent := h.enrol(t, "one")
	stream := h.watchPlan(t, agent.token, "")

	waiting := h.waitService(t, "app", func(s *fleetv1.Service) bool {
		return troubleOf(s) == errorsv1.Reason_REASON_CONFIG_MISSING && strings.Contains(s.GetStatus().GetProblem().GetMessage(), "no such entry")
	})
	if got := waiting.GetStatus().GetPhase(); got != typev1.ServicePhase_SERVICE_PHASE_PENDING {
		t.Errorf("got phase %v of a service that waits for a value", got)
	}
	if x := h.explained(t, "app")["PASSWORD"]; x.GetState() != fleetv1.ConfigState_CONFIG_STATE_MISSING || !x.GetSecret() || x.GetLayer() != "service" {
		t.Errorf("got %v of a value that is missing", x)
	}

	vault.Put("secret", "shop/db", map[string]string{"password": hunter2 + "-1"})
	h.refreshBackend(t, "shop/db")
	plan := stream.nextWith(t, content.snapshot.GetDigest())
	digest := plan.GetServices()[0].GetConfigDigest()
	wantSecret := func(when, digest, want string) {
		t.Helper()
		got, err := h.config(t, agent.token, "app", digest)
		if err != nil || got.GetConfigDigest() != digest || len(got.GetSecrets()) != 1 || string(got.GetSecrets()["PASSWORD"]) != want || len(got.GetValues()) != 0 {
			t.Errorf("%s: got %d secrets with digest %s and %v, want one with %s", when, len(got.GetSecrets()), got.GetConfigDigest(), err, digest)
		}
	}
	wantSecret("read", digest, hunter2+"-1")

	vault.Put("secret", "shop/db", map[string]string{"password": hunter2 + "-2"})
	h.refreshBackend(t, "")
	_, rotated := stream.configDigest(t, "app", digest)
	wantSecret("rotated", rotated, hunter2+"-2")
	if x := h.explained(t, "app")["PASSWORD"]; x.GetState() != fleetv1.ConfigState_CONFIG_STATE_CURRENT || x.GetVersion() != "2" || x.GetReadTime() == nil {
		t.Errorf("got %v of a value that was read", x)
	}

	vault.Remove("secret", "shop/db")
	h.refreshBackend(t, "shop/db")
	kept := h.waitService(t, "app", func(s *fleetv1.Service) bool { return troubleOf(s) == errorsv1.Reason_REASON_CONFIG_MISSING })
	if !strings.Contains(kept.GetStatus().GetProblem().GetMessage(), "stays in use") {
		t.Errorf("got %v of a value that was withdrawn", kept.GetStatus().GetProblem())
	}
	wantSecret("withdrawn", rotated, hunter2+"-2")

	h.stop(t)
	vault.Seal(true)
	h.start(t)
	agent.token = h.refresh(t, agent)
	wantSecret("after a restart", rotated, hunter2+"-2")
	vault.Seal(false)
	vault.Put("secret", "shop/db", map[string]string{"password": hunter2 + "-2"})
	h.refreshBackend(t, "shop/db")
	h.waitService(t, "app", func(s *fleetv1.Service) bool { return s.GetStatus().GetProblem() == nil })

	admin := h.fleet(t, adminToken)
	backend, err := fleetcalls.Get[*fleetv1.ConfigBackend](t.Context(), admin, "vault")
	if err != nil || backend.GetStatus().GetEntries() != 2 || backend.GetStatus().GetReadTime() == nil {
		t.Errorf("got %v, %v, want a state of two entries", backend, err)
	}
	audit, err := admin.ListAuditRecords(t.Context(), &fleetv1.ListAuditRecordsRequest{PageSize: 1000})
	if err != nil {
		t.Fatal(err)
	}
	inUse := fleetcalls.Delete[*fleetv1.ConfigBackend](t.Context(), admin, "vault")
	wantReason(t, inUse, "IN_USE")
	explained, err := admin.ExplainServiceConfig(t.Context(), &fleetv1.ExplainServiceConfigRequest{Name: "app"})
	if err != nil {
		t.Fatal(err)
	}
	if text := protojson.Format(audit); !strings.Contains(text, "spec.vault.token.token") {
		t.Error("the record of the back end does not say that its token was set")
	}
	h.stop(t)
	seen = append(seen, log.String(), protojson.Format(waiting), protojson.Format(kept), protojson.Format(backend), protojson.Format(audit),
		protojson.Format(explained), protojson.Format(plan), inUse.Error())
	for _, text := range seen {
		if strings.Contains(text, "hunter2") {
			t.Errorf("a secret is shown in %.2000s", text)
		}
	}
	err = filepath.WalkDir(h.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("hunter2")) {
			t.Errorf("a secret stands in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestReferencesOfManyServices shows that one read serves all services, and that those whose values
// are equal keep their digests when they refer to another place.
func TestReferencesOfManyServices(t *testing.T) {
	t.Parallel()
	h := startHub(t, quickly)
	vault := vaultdouble.Start(t)
	vault.Put("secret", "shop/db", map[string]string{"password": hunter2})
	vault.Put("secret", "shop/copy", map[string]string{"password": hunter2})
	h.demo(t, newFolder(t, "c1", "one"))
	documents := []*fleetv1.Document{vaultDocument(vault.URL, vault.Token(vaultToken))}
	for _, name := range []string{"a", "b", "c", "d"} {
		documents = append(documents, referringDocument(name, map[string]string{"PASSWORD": "vault://shop/db#password"}))
	}
	h.apply(t, documents...)
	agent := h.enrol(t, "one")
	stream := h.watchPlan(t, agent.token, "")
	digests := map[string]string{}
	for len(digests) < 4 {
		for _, s := range stream.next(t).GetServices() {
			if s.GetName() != "app" && len(s.GetBundles()) > 0 {
				digests[s.GetName()] = s.GetConfigDigest()
			}
		}
	}
	if got := vault.Reads("secret", "shop/db"); got != 1 {
		t.Errorf("got %d reads for four services, want one", got)
	}
	h.apply(t, referringDocument("a", map[string]string{"PASSWORD": "vault://shop/copy#password"}))
	h.waitService(t, "a", func(s *fleetv1.Service) bool { return troubleOf(s) != errorsv1.Reason_REASON_CONFIG_MISSING })
	got, err := h.config(t, agent.token, "a", digests["a"])
	if err != nil || got.GetConfigDigest() != digests["a"] {
		t.Errorf("got digest %s, %v, want %s of the same value", got.GetConfigDigest(), err, digests["a"])
	}
}

// TestSecReferencesStayWithinTheirBackEnd refers to closed paths, in every way that a document can.
func TestSecReferencesStayWithinTheirBackEnd(t *testing.T) {
	t.Parallel()
	h := startHub(t, quickly)
	vault := vaultdouble.Start(t)
	vault.Put("secret", "admin/root", map[string]string{"password": hunter2})
	h.demo(t, newFolder(t, "c1", "one"))
	closed := vaultDocument(vault.URL, vault.Token(vaultToken))
	closed.GetConfigBackend().Metadata.Name = "closed"
	closed.GetConfigBackend().Spec.Projects = []string{"other"}
	h.apply(t, vaultDocument(vault.URL, vaultToken), closed)
	refused := func(reference, reason string) string {
		t.Helper()
		_, err := h.fleet(t, adminToken).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{
			referringDocument("app", map[string]string{"A": reference}),
		}})
		wantReason(t, err, reason)
		return err.Error()
	}
	for _, path := range []string{
		"admin/root", "shop", "shopping/db", "shop/../admin/root", "shop/..", "shop//db", "/shop/db", "shop/./db", "shop/%2e%2e/admin/root",
		`shop/..\admin`, "shop/db?x=1", "shop/*", "shop/${A}", "shop/a\x00b", "shop/a\nb", "shop/" + strings.Repeat("a", 600),
	} {
		refused("vault://"+path+"#password", "FIELD_INVALID")
	}
	for _, text := range []string{"", "vault", "vault:/shop/db#a", "vault://", "vault://shop/db#", "vault://shop/db#a#b", "hub://shop/db#a", "cluster://shop#a", "://shop/db#a"} {
		refused(text, "FIELD_INVALID")
	}
	// One that is closed to the project cannot be told from one that does not exist.
	absent, shut := refused("absent://shop/db#a", "REFERENCE_NOT_FOUND"), refused("closed://shop/db#a", "REFERENCE_NOT_FOUND")
	if strings.ReplaceAll(absent, "absent", "closed") != shut {
		t.Errorf("got %q for a back end that does not exist, and %q for one that is closed", absent, shut)
	}
	if got := vault.Reads("secret", "admin/root"); got != 0 {
		t.Errorf("got %d reads of what is not allowed", got)
	}
	// A stored token does not go to another server.
	moved := vaultDocument("http://127.0.0.1:1", "")
	_, err := h.fleet(t, adminToken).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{moved}})
	wantReason(t, err, "FIELD_INVALID")
	h.apply(t, vaultDocument(vault.URL, "")) // but it stays where it belongs
}

// TestBackEndIsClosedToAProject withdraws a back end from a service that has its value: that stays,
// and a rotation no longer reaches it.
func TestBackEndIsClosedToAProject(t *testing.T) {
	t.Parallel()
	h := startHub(t, quickly)
	vault := vaultdouble.Start(t)
	vault.Put("secret", "shop/db", map[string]string{"password": hunter2 + "-1"})
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	h.apply(t, vaultDocument(vault.URL, vault.Token(vaultToken)), referringDocument("app", map[string]string{"PASSWORD": "vault://shop/db#password"}))
	agent := h.enrol(t, "one")
	plan := h.watchPlan(t, agent.token, "").nextWith(t, content.snapshot.GetDigest())
	closed := vaultDocument(vault.URL, "")
	closed.GetConfigBackend().Spec.Projects = nil
	h.apply(t, closed)
	h.waitService(t, "app", func(s *fleetv1.Service) bool {
		return troubleOf(s) == errorsv1.Reason_REASON_CONFIG_MISSING && strings.Contains(s.GetStatus().GetProblem().GetMessage(), "not open to this project")
	})
	vault.Put("secret", "shop/db", map[string]string{"password": hunter2 + "-2"})
	before := vault.Reads("secret", "shop/db")
	h.refreshBackend(t, "")
	await.True(t, "the hub to read", func() bool { return vault.Reads("secret", "shop/db") > before })
	digest := plan.GetServices()[0].GetConfigDigest()
	got, err := h.agents(t, agent.token).GetServiceConfig(t.Context(), &distributorv1.GetServiceConfigRequest{Service: "app", ConfigDigest: digest})
	if err != nil || got.GetConfigDigest() != digest || string(got.GetSecrets()["PASSWORD"]) != hunter2+"-1" {
		t.Errorf("got digest %s, %v, want what the service had", got.GetConfigDigest(), err)
	}
}

// TestBackEndOfFiles reads what the operator of the hub has opened.
func TestBackEndOfFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "web.json"), []byte(`{"replicas": 3, "greeting": "hello"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	h := startHub(t, quickly, func(c *distributor.Config) { c.Backends.Folders = []string{"ops=" + dir} })
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	h.apply(t, &fleetv1.Document{Object: &fleetv1.Document_ConfigBackend{ConfigBackend: &fleetv1.ConfigBackend{
		Metadata: &typev1.Metadata{Name: "ops"},
		Spec: &fleetv1.ConfigBackendSpec{
			Kind:         &fleetv1.ConfigBackendSpec_Files{Files: &fleetv1.FilesBackend{Root: "ops"}},
			AllowedPaths: []string{"*.json"}, Projects: []string{"*"}, Public: true,
		},
	}}}, referringDocument("app", map[string]string{"REPLICAS": "ops://web.json#replicas", "ALL": "ops://web.json"}))
	agent := h.enrol(t, "one")
	plan := h.watchPlan(t, agent.token, "").nextWith(t, content.snapshot.GetDigest())
	got, err := h.config(t, agent.token, "app", plan.GetServices()[0].GetConfigDigest())
	if err != nil || len(got.GetSecrets()) != 0 || got.GetValues()["REPLICAS"] != "3" || got.GetValues()["ALL"] != `{"greeting":"hello","replicas":"3"}` {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestExampleOfConfiguration applies the documents that docs/guides/configuration.md shows, except
// the address and the credential.
func TestExampleOfConfiguration(t *testing.T) {
	t.Parallel()
	const path = "../../examples/backends/vault.yaml"
	page, err := os.ReadFile("../../docs/guides/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```yaml\n"+string(example)+"```") {
		t.Error("docs/guides/configuration.md does not show the example")
	}
	h := startHub(t, quickly)
	vault := vaultdouble.Start(t)
	vault.Put("secret", "shop/db", map[string]string{"user": "shop", "password": hunter2})
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	documents := exampleDocuments(t, path)
	spec := documents[1].GetConfigBackend().Spec.GetVault()
	spec.Url = vault.URL
	spec.GetAppRole().RoleId, spec.GetAppRole().SecretId = vaultdouble.RoleID, proto.String(vaultdouble.SecretID)
	h.apply(t, documents...)
	agent := h.enrol(t, "berlin")
	plan := h.watchPlan(t, agent.token, "").nextWith(t, content.snapshot.GetDigest())
	got, err := h.config(t, agent.token, "shop", plan.GetServices()[0].GetConfigDigest())
	if err != nil || string(got.GetSecrets()["DB_USER"]) != "shop" || string(got.GetSecrets()["DB_PASSWORD"]) != hunter2 ||
		len(got.GetSecrets()) != 2 || got.GetValues()["REPLICAS"] != "3" {
		t.Errorf("got %d secrets and %v, %v, want what the page says", len(got.GetSecrets()), got.GetValues(), err)
	}
}
