// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package document_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/contract/syncpolicy/policywire"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/contract/upstream/upstreamwire"
)

const fleet = `# A cluster, where it gets its manifests from, and what it runs.
apiVersion: leat.dev/v1
kind: Cluster
metadata:
  name: demo
  labels: {stage: dev, "example.com/team": shop}
spec:
  description: A laptop
---
apiVersion: leat.dev/v1
kind: Repository
metadata:
  name: shop
spec:
  type: git
  url: https://example.com/shop.git
  pollInterval: 1m30s
  credential:
    basic: {username: leat, password: "1234"}
  webhookSecret: sixteen bytes or more
---
---
apiVersion: leat.dev/v1
kind: Service
metadata: {name: shop}
spec:
  cluster: demo
  namespace: shop
  renderer: Kustomize
  sources:
  - repository: shop
    ref: {branch: main}
    path: deploy/overlays/dev
    root: deploy
  - repository: shop
    ref: {semver: "~1.4"}
    folders: [deploy/base]
    files: [VERSION]
    include: ["*.yaml"]
    exclude: ["!keep.yaml", drafts/]
  sync:
    prune: false
    healthTimeout: 2m
status:
  phase: whatever
`

func wantFleet() []*fleetv1.Document {
	prune := false
	return []*fleetv1.Document{
		fleetdoc.Of(&fleetv1.Cluster{
			Metadata: &typev1.Metadata{Name: "demo", Labels: map[string]string{"stage": "dev", "example.com/team": "shop"}},
			Spec:     &fleetv1.ClusterSpec{Description: "A laptop"},
		}),
		fleetdoc.Of(&fleetv1.Repository{
			Metadata: &typev1.Metadata{Name: "shop"},
			Spec: &fleetv1.RepositorySpec{
				Type:         gitcachev1.RepositoryType_REPOSITORY_TYPE_GIT,
				Url:          "https://example.com/shop.git",
				PollInterval: durationpb.New(90 * time.Second),
				Credential: &gitcachev1.Credential{Method: &gitcachev1.Credential_Basic{
					Basic: &gitcachev1.BasicCredential{Username: "leat", Password: "1234"},
				}},
				WebhookSecret: proto.String("sixteen bytes or more"),
			},
		}),
		fleetdoc.Of(&fleetv1.Service{
			Metadata: &typev1.Metadata{Name: "shop"},
			Spec: &fleetv1.ServiceSpec{
				Cluster: "demo", Namespace: "shop", Renderer: distributorv1.Renderer_RENDERER_KUSTOMIZE,
				Sources: []*typev1.Source{{
					Repository: "shop", Path: "deploy/overlays/dev", Root: "deploy",
					Ref: &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: "main"}},
				}, {
					Repository: "shop", Ref: &typev1.GitRef{Selector: &typev1.GitRef_Semver{Semver: "~1.4"}},
					Folders: []string{"deploy/base"}, Files: []string{"VERSION"}, Include: []string{"*.yaml"}, Exclude: []string{"!keep.yaml", "drafts/"},
				}},
				Sync: &fleetv1.SyncOptions{Prune: &prune, HealthTimeout: durationpb.New(2 * time.Minute)},
			},
		}),
	}
}

func parse(t *testing.T, text string) []*document.Document {
	t.Helper()
	documents, err := document.Parse("fleet.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatalf("Parse: got error\n%v\nwant none", err)
	}
	return documents
}

func objects(documents []*document.Document) []*fleetv1.Document {
	var found []*fleetv1.Document
	for _, d := range documents {
		found = append(found, d.Object)
	}
	return found
}

func TestParse(t *testing.T) {
	t.Parallel()
	documents := parse(t, fleet)
	if diff := cmp.Diff(wantFleet(), objects(documents), protocmp.Transform()); diff != "" {
		t.Errorf("documents (-want +got):\n%s", diff)
	}
	if got, want := documents[2].ID(), "service/shop@demo"; got != want {
		t.Errorf("ID: got %q, want %q", got, want)
	}
}

// TestExampleCredentials reads every kind of repository credential in the examples.
func TestExampleCredentials(t *testing.T) {
	t.Parallel()
	file, err := os.Open("../../../examples/credentials/repositories.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	documents, err := document.Parse("repositories.yaml", file)
	if err != nil {
		t.Fatal(err)
	}
	specs := map[string]*fleetv1.RepositorySpec{}
	for _, d := range documents {
		repository := d.Object.GetRepository()
		specs[repository.GetMetadata().GetName()] = repository.GetSpec()
	}
	app, certificate := specs["by-app"].GetCredential().GetGithubApp(), specs["by-certificate"]
	if app.GetAppId() != 12345 || app.GetInstallationId() != 67890 || !strings.Contains(app.GetPrivateKey(), "the key of the app") {
		t.Errorf("got %v, want the app", app)
	}
	if certificate.GetProxyUrl() == "" || certificate.GetCredential().GetClientCertificate().GetPrivateKeyPem() == "" {
		t.Errorf("got %v, want proxy and certificate", certificate)
	}
	registry := specs["by-pull-secret"]
	if registry.GetType() != gitcachev1.RepositoryType_REPOSITORY_TYPE_OCI || !registry.GetImmutable() || len(registry.GetTokenHosts()) != 1 ||
		!strings.Contains(registry.GetCredential().GetDockerConfig().GetConfigJson(), "registry.example.com") {
		t.Errorf("got %v, want a registry", registry)
	}
	identity := specs["by-identity"].GetCredential().GetWorkloadIdentity()
	if identity.GetProvider() != gitcachev1.CloudProvider_CLOUD_PROVIDER_AWS || identity.GetPrincipal() != "arn:aws:iam::123456789012:role/leat-gitcache" {
		t.Errorf("got %v, want an identity at AWS", identity)
	}
}

// TestExampleVerification reads the required signers in the examples.
func TestExampleVerification(t *testing.T) {
	t.Parallel()
	file, err := os.Open("../../../examples/verification/repositories.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	documents, err := document.Parse("repositories.yaml", file)
	if err != nil || len(documents) != 2 {
		t.Fatalf("got %d documents (%v), want 2", len(documents), err)
	}
	commits := documents[0].Object.GetRepository().GetSpec().GetVerification()
	releases := documents[1].Object.GetRepository().GetSpec().GetVerification()
	if commits.GetMode() != gitcachev1.VerificationMode_VERIFICATION_MODE_COMMIT || !strings.HasPrefix(commits.GetSshAllowedSigners(), "anna@example.com ") {
		t.Errorf("got %v, want commits signed with SSH", commits)
	}
	if releases.GetMode() != gitcachev1.VerificationMode_VERIFICATION_MODE_TAG || !strings.HasPrefix(releases.GetPgpKeys(), "-----BEGIN PGP") {
		t.Errorf("got %v, want tags signed with PGP", releases)
	}
}

// TestExampleSignedArtifacts reads the keys of charts and artifacts in the examples.
func TestExampleSignedArtifacts(t *testing.T) {
	t.Parallel()
	file, err := os.Open("../../../examples/verification/artifacts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	documents, err := document.Parse("artifacts.yaml", file)
	if err != nil || len(documents) != 2 {
		t.Fatalf("got %d documents (%v), want 2", len(documents), err)
	}
	artifacts, err := upstreamwire.Definition(documents[0].Object.GetRepository().GetSpec())
	if err == nil {
		err = artifacts.Validate()
	}
	if err != nil || artifacts.Verification.Mode != upstream.ModeArtifact {
		t.Errorf("got %+v (%v), want artifacts signed with cosign", artifacts.Verification, err)
	}
	charts := documents[1].Object.GetRepository().GetSpec()
	if charts.GetType() != gitcachev1.RepositoryType_REPOSITORY_TYPE_HELM || !strings.HasPrefix(charts.GetVerification().GetProvenanceKeys(), "-----BEGIN PGP") {
		t.Errorf("got %v, want charts signed with PGP", charts)
	}
}

// TestExampleConfiguration reads the configurations of the examples, and writes one in its
// displayed form.
func TestExampleConfiguration(t *testing.T) {
	t.Parallel()
	file, err := os.Open("../../../examples/configuration/fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	documents, err := document.Parse("fleet.yaml", file)
	if err != nil || len(documents) != 5 {
		t.Fatalf("got %d documents (%v), want 5", len(documents), err)
	}
	want := &fleetv1.ServiceConfig{
		Values:  map[string]string{"REGION": "north", "REPLICAS": "3"},
		Secrets: map[string]string{"DATABASE_PASSWORD": "change-me-in-the-north"},
	}
	service := documents[3].Object.GetService()
	if diff := cmp.Diff(want, service.GetSpec().GetConfig(), protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	at, field, ok := document.Locate(documents, "documents[3].spec.config.secrets[DATABASE_PASSWORD]")
	if !ok || at.String() != "fleet.yaml:38:26" || field != "spec.config.secrets[DATABASE_PASSWORD]" {
		t.Errorf("got %s, %q, %v, want the position of the secret", at, field, ok)
	}
	if at, field, _ := document.Locate(documents, "documents[3].spec.config.values[lower_case]"); at.Line != 34 || field != "spec.config.values[lower_case]" {
		t.Errorf("got %s, %q, want the values, and the key as it is", at, field)
	}
	service.Spec.Config.Secrets["DATABASE_PASSWORD"] = ""
	var text bytes.Buffer
	if err := document.WriteYAML(&text, documents[3].Object); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "    secrets:\n      DATABASE_PASSWORD: \"\"\n") {
		t.Errorf("got\n%s", text.String())
	}
	again := parse(t, text.String())[0].Object
	if diff := cmp.Diff(documents[3].Object, again, protocmp.Transform()); diff != "" {
		t.Errorf("the displayed form does not read back (-want +got):\n%s", diff)
	}
}

// TestExamplePolicy reads the policy of the examples, which the hub has to accept, and writes it in
// its original form.
func TestExamplePolicy(t *testing.T) {
	t.Parallel()
	file, err := os.Open("../../../examples/policy/fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	documents, err := document.Parse("fleet.yaml", file)
	if err != nil || len(documents) != 3 {
		t.Fatalf("got %d documents (%v), want 3", len(documents), err)
	}
	settings, err := policywire.Settings(documents[0].Object.GetCluster().GetSpec().GetAgent())
	if err := errors.Join(err, settings.Validate()); err != nil || settings.RefreshInterval != 4*time.Hour {
		t.Errorf("got %+v, %v", settings, err)
	}
	policy, err := policywire.Policy(documents[2].Object.GetService().GetSpec().GetPolicy())
	if err := errors.Join(err, policy.Validate("shop-web")); err != nil {
		t.Fatal(err)
	}
	if policy.Adoption != syncpolicy.AdoptNever || len(policy.Conflicts) != 2 || policy.Conflicts[1].Action != syncpolicy.ConflictYield ||
		policy.DependsOn[1].Object == nil || policy.Windows[1].Duration != 72*time.Hour {
		t.Errorf("got %+v", policy)
	}
	var text bytes.Buffer
	if err := document.WriteYAML(&text, documents[2].Object); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"drift: correct\n", "action: force\n", "adoption: never\n", "propagation: foreground\n", "duration: 7h\n", "timeout: 10m\n"} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("there is no %q in\n%s", line, text.String())
		}
	}
	if diff := cmp.Diff(documents[2].Object, parse(t, text.String())[0].Object, protocmp.Transform()); diff != "" {
		t.Errorf("the displayed form does not read back (-want +got):\n%s", diff)
	}
	_, err = document.Parse("wrong.yaml", strings.NewReader(strings.ReplaceAll(text.String(), "action: force", "action: farce")))
	if err == nil || !strings.Contains(err.Error(), `did you mean "force"`) && !strings.Contains(err.Error(), "force") {
		t.Errorf("a wrong word: got %v, want the valid ones", err)
	}
}

// TestExampleCharts reads the sources and steps of the examples, which the hub has to accept. Every
// file and folder that they name is there.
func TestExampleCharts(t *testing.T) {
	t.Parallel()
	const dir = "../../../examples/charts"
	documents, err := document.Load([]string{dir}, nil)
	if err != nil || len(documents) != 4 {
		t.Fatalf("got %d documents (%v), want 4", len(documents), err)
	}
	spec := documents[3].Object.GetService().GetSpec()
	options, err := policywire.Wanted(spec)
	if err := errors.Join(err, options.Validate("shop")); err != nil {
		t.Fatal(err)
	}
	exists := func(path string) bool {
		for _, source := range spec.GetSources() {
			below, ok := strings.CutPrefix(path, source.GetMount())
			if _, err := os.Stat(filepath.Join(dir, source.GetPath(), below)); ok && err == nil {
				return true
			}
		}
		return false
	}
	for _, step := range options.Render {
		paths := []string{step.Path}
		if step.Helm != nil {
			paths = append(paths, step.Helm.ValuesFiles...)
		}
		for _, path := range paths {
			if !exists(strings.TrimSuffix(path, "?")) {
				t.Errorf("there is no %s in the tree of the sources", path)
			}
		}
	}
	if options.Render[0].Helm == nil || !options.Render[1].FromPrevious || options.Render[2].Renderer != renderstep.Plain {
		t.Errorf("got %+v", options.Render)
	}
}

// designed is the service of the design: a chart, values from another repository, and patches.
const designed = `apiVersion: leat.dev/v1
kind: Service
metadata:
  name: shop
spec:
  cluster: eu-1
  namespace: shop
  sources:
    - repository: charts
      ref:
        semver: ~4.2
      chart: web
      mount: chart
    - repository: deploy
      ref:
        branch: main
      path: shop
      mount: deploy
    - repository: registry
      mount: wasm
      layer:
        mediaType: application/wasm
        copy: true
  render:
    - path: chart
      helm:
        valuesFiles:
          - deploy/values.yaml
          - deploy/values-eu-1.yaml?
        values:
          "8080": http
          big: 1e+21
          empty: {}
          list:
            - 1
            - 1.5
            - "1.5"
            - null
            - true
            - []
          nested:
            text: yes
        parameters:
          db.password: ${DB_PASSWORD}
          image.tag: ${TAG}
        crds: skip
        lookup:
          - apiVersion: v1
            kind: Secret
            name: '*'
    - path: deploy/patches
      fromPrevious: true
      kustomize: {}
    - path: deploy/extra
      substitute: false
      plain: {}
    - liquid:
        filesOnly: true
    - jsonnet:
        arguments:
          a: b
    - cue:
        tags:
          a: b
    - wasm:
        module: wasm/render.wasm
        config:
          a: 1
        allowClock: true
`

// TestSourcesAndSteps reads and writes every field of sources and steps in one form.
func TestSourcesAndSteps(t *testing.T) {
	t.Parallel()
	documents := parse(t, designed)
	var text bytes.Buffer
	if err := document.WriteYAML(&text, documents[0].Object); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(designed, text.String()); diff != "" {
		t.Errorf("YAML (-want +got):\n%s", diff)
	}
	text.Reset()
	if err := document.WriteJSON(&text, documents[0].Object); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(objects(documents), objects(parse(t, text.String())), protocmp.Transform()); diff != "" {
		t.Errorf("after JSON (-want +got):\n%s", diff)
	}
	spec := documents[0].Object.GetService().GetSpec()
	options, err := policywire.Wanted(spec)
	if err := errors.Join(err, options.Validate("shop")); err != nil {
		t.Error(err)
	}
	if got := options.Render[0].Helm.Values; got["8080"] != "http" || got["big"] != 1e21 {
		t.Errorf("got values %v", got)
	}
	for path, line := range map[string]int{
		"documents[0].spec.sources[2].layer.media_type":    22,
		"documents[0].spec.render[0].helm.values_files[1]": 29,
		"documents[0].spec.render[0].helm.values":          30,
		"documents[0].spec.render[0].helm.lookup[0].name":  50,
		"documents[0].spec.render[1].from_previous":        52,
		"documents[0].spec.render[6].wasm.module":          66,
	} {
		if at, _, ok := document.Locate(documents, path); !ok || at.Line != line {
			t.Errorf("%s: got %s, want line %d", path, at, line)
		}
	}
}

func TestParseJSONAndList(t *testing.T) {
	t.Parallel()
	var buffer bytes.Buffer
	if err := document.WriteJSONList(&buffer, wantFleet()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantFleet(), objects(parse(t, buffer.String())), protocmp.Transform()); diff != "" {
		t.Errorf("documents (-want +got):\n%s", diff)
	}
}

func TestParseAliases(t *testing.T) {
	t.Parallel()
	documents := parse(t, `
apiVersion: leat.dev/v1
kind: Service
metadata: {name: a, labels: &both {team: x}, annotations: *both}
spec: {cluster: demo, sources: [{repository: r, ref: {tag: 2026-01-31}}]}
`)
	got := documents[0].Object.GetService()
	if diff := cmp.Diff(map[string]string{"team": "x"}, got.GetMetadata().GetAnnotations()); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if got, want := got.GetSpec().GetSources()[0].GetRef().GetTag(), "2026-01-31"; got != want {
		t.Errorf("tag: got %q, want %q", got, want)
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	want := wantFleet()
	want[0].GetCluster().Metadata.ResourceVersion = 7
	want[0].GetCluster().Metadata.CreateTime = timestamppb.New(time.Date(2026, 1, 31, 12, 0, 0, 5, time.UTC))
	want[0].GetCluster().Spec.Description = "yes: \"no\"\n<tag> & 1.10 "
	for _, value := range []string{"1.10", "yes", "null", "~", "0x1f", "a: b", "# not a comment", "", "2026-01-31", "<<", "é\u2028"} {
		want[0].GetCluster().Metadata.Labels["v"+value] = value
	}
	var buffer bytes.Buffer
	if err := document.WriteYAML(&buffer, want...); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, objects(parse(t, buffer.String())), protocmp.Transform()); diff != "" {
		t.Errorf("documents after a round trip (-want +got):\n%s\nfrom\n%s", diff, buffer.String())
	}
	buffer.Reset()
	if err := document.WriteJSONLine(&buffer, want[0]); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[:1], objects(parse(t, buffer.String())), protocmp.Transform()); diff != "" {
		t.Errorf("documents after a round trip (-want +got):\n%s\nfrom\n%s", diff, buffer.String())
	}
}

func TestWriteStatus(t *testing.T) {
	t.Parallel()
	service := &fleetv1.Service{
		Metadata: &typev1.Metadata{Name: "shop"},
		Spec:     &fleetv1.ServiceSpec{Cluster: "demo"},
		Status: &fleetv1.ServiceStatus{
			Phase: typev1.ServicePhase_SERVICE_PHASE_FAILED,
			Problem: &typev1.Problem{
				Reason:  errorsv1.Reason_REASON_REF_NOT_FOUND,
				Message: "no branch main",
			},
		},
	}
	var buffer bytes.Buffer
	if err := document.WriteYAML(&buffer, fleetdoc.Of(service)); err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: leat.dev/v1
kind: Service
metadata:
  name: shop
spec:
  cluster: demo
status:
  phase: failed
  problem:
    reason: REF_NOT_FOUND
    message: no branch main
  synced: false
  observedGeneration: 0
  pauseEnded: false
`
	if diff := cmp.Diff(want, buffer.String()); diff != "" {
		t.Errorf("YAML (-want +got):\n%s", diff)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "b.yml"), "apiVersion: leat.dev/v1\nkind: Cluster\nmetadata: {name: b}\n")
	write(t, filepath.Join(dir, "a.json"), `{"apiVersion":"leat.dev/v1","kind":"Cluster","metadata":{"name":"a"}}`)
	write(t, filepath.Join(dir, "README.md"), "no document")
	write(t, filepath.Join(dir, "deeper", "c.yaml"), "no document either")
	stdin := strings.NewReader("apiVersion: leat.dev/v1\nkind: Cluster\nmetadata: {name: c}\n")
	documents, err := document.Load([]string{dir, "-"}, stdin)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range documents {
		names = append(names, d.Name)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cluster := "apiVersion: leat.dev/v1\nkind: Cluster\nmetadata: {name: a}\n"
	a, b := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	write(t, a, cluster)
	write(t, b, cluster)
	_, err := document.Load([]string{a, b}, nil)
	if want := b + `:1:1: metadata.name: cluster/a is described twice; first at ` + a + `:1:1`; err == nil || err.Error() != want {
		t.Errorf("the same cluster in two files: got error\n%v\nwant\n%s", err, want)
	}
	service := func(cluster string) string {
		return "apiVersion: leat.dev/v1\nkind: Service\nmetadata: {name: web}\nspec: {cluster: " + cluster + ", sources: [{repository: demo}]}\n"
	}
	write(t, a, service("berlin"))
	write(t, b, service("paris"))
	if _, err := document.Load([]string{a, b}, nil); err != nil {
		t.Errorf("services of one name in two clusters: %v", err)
	}
	write(t, b, service("default/berlin"))
	_, err = document.Load([]string{a, b}, nil)
	if want := b + `:1:1: metadata.name: service/web@berlin is described twice; first at ` + a + `:1:1`; err == nil || err.Error() != want {
		t.Errorf("the same service in two files: got error\n%v\nwant\n%s", err, want)
	}
	if _, err := document.Load([]string{filepath.Join(dir, "absent.yaml")}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: got error %v, want one that matches %v", err, os.ErrNotExist)
	}
	if _, err := document.Load([]string{t.TempDir()}, nil); err == nil {
		t.Error("empty directory: got no error, want one")
	}
	huge := strings.NewReader("#" + strings.Repeat("x", 5<<20))
	if _, err := document.Load([]string{"-"}, huge); err == nil || !strings.Contains(err.Error(), "4 MiB") {
		t.Errorf("huge file: got error %v, want one that names the limit", err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLocate(t *testing.T) {
	t.Parallel()
	documents := parse(t, fleet)
	tests := []struct{ path, wantAt, wantField string }{
		{"documents[1].spec.url", "fleet.yaml:16:8", "spec.url"},
		{"documents[1].spec.poll_interval", "fleet.yaml:17:17", "spec.pollInterval"},
		{"documents[1].repository.spec.poll_interval", "fleet.yaml:17:17", "spec.pollInterval"},
		{"documents[2].spec.sources[0].path", "fleet.yaml:33:11", "spec.sources[0].path"},
		{"documents[2].spec.sources[0].ref.branch", "fleet.yaml:32:19", "spec.sources[0].ref.branch"},
		{"documents[2].spec.sources[1].exclude[1]", "fleet.yaml:40:29", "spec.sources[1].exclude[1]"},
		{"documents[2].spec.sources[3].path", "fleet.yaml:30:3", "spec.sources[3].path"},
		{`documents[0].metadata.labels["example.com/team"]`, "fleet.yaml:6:44", "metadata.labels[example.com/team]"},
		{"documents[0].spec.nothing", "fleet.yaml:7:1", "spec.nothing"},
		{"documents[1]", "fleet.yaml:10:1", ""},
	}
	for _, test := range tests {
		at, field, ok := document.Locate(documents, test.path)
		if !ok || at.String() != test.wantAt || field != test.wantField {
			t.Errorf("Locate(%q): got %s, %q, %t, want %s, %q, true", test.path, at, field, ok, test.wantAt, test.wantField)
		}
	}
	for _, path := range []string{"", "spec.url", "documents[3].spec", "documents[99999999999999999999].spec"} {
		if at, _, ok := document.Locate(documents, path); ok {
			t.Errorf("Locate(%q): got %s, want nothing", path, at)
		}
	}
}

func TestKind(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"service": "Service", "services": "Service", "Service": "Service", "repositories": "Repository", "clusters": "Cluster", "pods": "",
	} {
		if got, ok := document.Kind(word); got != want || ok != (want != "") {
			t.Errorf("Kind(%q): got %q, %t, want %q, %t", word, got, ok, want, want != "")
		}
	}
	kinds := []string{"accessbindings", "accessrequests", "clusters", "configbackends", "configsets", "fleetsources", "globalservices", "identityproviders", "imagepolicies", "notifiers", "projects", "repositories", "roles", "rolloutpolicies", "services", "trustrules", "users"}
	if diff := cmp.Diff(kinds, document.Kinds()); diff != "" {
		t.Errorf("Kinds (-want +got):\n%s", diff)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(fleet)
	f.Add("apiVersion: leat.dev/v1\nkind: List\nitems: [&a {apiVersion: leat.dev/v1, kind: Cluster, metadata: {name: a}}, *a]")
	f.Add("a: &a [*a]")
	for _, test := range badDocuments() {
		f.Add(test.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		documents, err := document.Parse("fuzz.yaml", strings.NewReader(text))
		if err != nil {
			var problems document.Problems
			if !errors.As(err, &problems) || len(problems) == 0 {
				t.Fatalf("got error %v, want Problems", err)
			}
			return
		}
		var buffer bytes.Buffer
		if err := document.WriteYAML(&buffer, objects(documents)...); err != nil {
			t.Fatalf("write the documents: %v", err)
		}
		again, err := document.Parse("again.yaml", &buffer)
		if err != nil {
			t.Fatalf("read them again: %v", err)
		}
		for i, d := range documents {
			if !proto.Equal(d.Object, again[i].Object) {
				t.Fatalf("document %d: got %v after a round trip, want %v", i, again[i].Object, d.Object)
			}
		}
	})
}

// TestAccessPage reads the documents of docs/guides/access.md.
func TestAccessPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/guides/access.md")
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, block := range strings.Split(string(page), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		texts = append(texts, text)
	}
	documents, err := document.Parse("page.yaml", strings.NewReader(strings.Join(texts, "---\n")))
	if err != nil || len(documents) != 2 {
		t.Fatalf("got %d documents (%v), want 2", len(documents), err)
	}
	binding, role := documents[0].Object.GetAccessBinding().GetSpec(), documents[1].Object.GetRole().GetSpec()
	if binding.GetRole() != typev1.AccessRole_ACCESS_ROLE_OPERATOR || len(binding.GetRules()) != 2 {
		t.Errorf("got %v, want an operator with two rules", binding)
	}
	if len(role.GetPermissions()) != 2 || role.GetClusterRole() != typev1.AccessRole_ACCESS_ROLE_VIEWER {
		t.Errorf("got %v, want two permissions, and viewers in clusters", role)
	}
}

// TestChartDependenciesPage reads the documents of docs/guides/chart-dependencies.md.
func TestChartDependenciesPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/guides/chart-dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, block := range strings.Split(string(page), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		texts = append(texts, text)
	}
	documents, err := document.Parse("page.yaml", strings.NewReader(strings.Join(texts, "---\n")))
	if err != nil || len(documents) != 4 {
		t.Fatalf("got %d documents (%v), want 4", len(documents), err)
	}
	listed := documents[0].Object.GetRepository().GetSpec().GetChartRepositories()
	for i, name := range listed {
		if got := documents[i+1].Object.GetRepository().GetMetadata().GetName(); got != name {
			t.Errorf("got the repository %q, want %q as it is listed", got, name)
		}
	}
	if len(listed) != 2 || documents[3].Object.GetService().GetSpec().GetSources()[0].GetPath() != "shop" {
		t.Errorf("got %v and %v, want two repositories and the chart's folder", listed, documents[3].Object)
	}
}

// TestSecMessagesShowNoSecret has people write secrets in a wrong form: messages do not repeat them.
func TestSecMessagesShowNoSecret(t *testing.T) {
	t.Parallel()
	const digits = "314159265358979323"
	for _, spec := range []string{
		"kind: Repository\nmetadata: {name: a}\nspec: {webhookSecret: " + digits + "}",
		"kind: Repository\nmetadata: {name: a}\nspec: {webhookSecret: {a: hunter2}}",
		"kind: Repository\nmetadata: {name: a}\nspec: {credential: hunter2}",
		"kind: Repository\nmetadata: {name: a}\nspec: {credential: {basic: hunter2}}",
		"kind: Repository\nmetadata: {name: a}\nspec: {credential: {basic: [hunter2]}}",
		"kind: Repository\nmetadata: {name: a}\nspec: {credential: {basic: {password: " + digits + "}}}",
		"kind: Repository\nmetadata: {name: a}\nspec: {credential: {bearer: {token: !own hunter2}}}",
		"kind: ConfigSet\nmetadata: {name: a}\nspec: {config: {secrets: hunter2}}",
		"kind: ConfigSet\nmetadata: {name: a}\nspec: {config: {secrets: {A: " + digits + "}}}",
		"kind: ConfigSet\nmetadata: {name: a}\nspec: {config: {secrets: {A: [hunter2]}}}",
		"kind: ConfigSet\nmetadata: {name: a}\nspec: {config: hunter2}",
		"kind: ConfigBackend\nmetadata: {name: a}\nspec: {vault: {token: {token: " + digits + "}}}",
		"kind: Notifier\nmetadata: {name: a}\nspec: {slack: hunter2}",
	} {
		_, err := document.Parse("a.yaml", strings.NewReader("apiVersion: leat.dev/v1\n"+spec+"\n"))
		if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), digits) {
			t.Errorf("%s: got %v, want an error without the secret", spec, err)
		}
	}
}
