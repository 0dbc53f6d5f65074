// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/internal/testkit/vaultdouble"
	"github.com/leatdev/leat/internal/testkit/vaulttest"
)

// TestStoryOfAFleet tells the life of a fleet that Git describes, with every part real but Vault, whose double
// passes the suite that a Vault passes. TestSlowStoryOfAFleet has a real one.
func TestStoryOfAFleet(t *testing.T) {
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			double := vaultdouble.Start(t)
			tellStoryOfAFleet(t, engine, vault{
				url: double.URL, token: double.Token("token-of-the-story"),
				put: func(path, password string) { double.Put("secret", path, map[string]string{"password": password}) },
			})
		})
	}
}

// TestSlowStoryOfAFleet is TestStoryOfAFleet with a real Vault.
func TestSlowStoryOfAFleet(t *testing.T) {
	if os.Getenv("LEAT_SLOW") == "" {
		t.Skip("LEAT_SLOW is not set: a real Vault is left to `make test-all`")
	}
	server := vaulttest.Start(t)
	server.Call(t, http.MethodPost, "sys/mounts/secret", map[string]any{"type": "kv", "options": map[string]string{"version": "2"}}, nil)
	server.Call(t, http.MethodPut, "sys/policies/acl/shop", map[string]any{"policy": `path "secret/*" { capabilities = ["read"] }`}, nil)
	tellStoryOfAFleet(t, "postgres", vault{
		url: server.URL, token: server.Token(t, "shop", time.Hour),
		put: func(path, password string) {
			server.Call(t, http.MethodPost, "secret/data/"+path, map[string]any{"data": map[string]string{"password": password}}, nil)
		},
	})
}

// vault holds the passwords of the story.
type vault struct {
	url, token string
	put        func(path, password string)
}

// shopChart is the chart of the story: its text differs by region, and its password comes from
// Vault.
var shopChart = map[string]string{
	"shop/Chart.yaml":     "apiVersion: v2\nname: shop\nversion: 0.1.0\n",
	"shop/values.yaml":    "greeting: Hello\ncurrency: EUR\nport: 80\n",
	"shop/values-us.yaml": "currency: USD\n",
	"shop/templates/shop.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: shop}
data:
  greeting: {{ .Values.greeting }}
  currency: {{ .Values.currency }}
  cluster: {{ .Values.cluster }}
---
apiVersion: v1
kind: Secret
metadata: {name: shop}
stringData:
  password: {{ .Values.password }}
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec:
  selector: {app: shop}
  ports: [{port: {{ .Values.port }}}]
`,
}

// fleetOfShops returns the documents that a fleet source follows. Everything of the story is in
// them, except the token of Vault.
func fleetOfShops(vaultURL, repositoryURL, labelsOfLima, greeting string) map[string]string {
	return map[string]string{
		"fleet/clusters.yaml": `apiVersion: leat.dev/v1
kind: Cluster
metadata: {name: berlin, labels: {region: eu, shop: "true"}}
---
apiVersion: leat.dev/v1
kind: Cluster
metadata: {name: boston, labels: {region: us, shop: "true"}}
---
apiVersion: leat.dev/v1
kind: Cluster
metadata: {name: bergen, labels: {region: eu, shop: "true"}}
---
apiVersion: leat.dev/v1
kind: Cluster
metadata: {name: lima, labels: {` + labelsOfLima + `}}
`,
		"fleet/shop.yaml": `apiVersion: leat.dev/v1
kind: Repository
metadata: {name: shop}
spec: {url: ` + repositoryURL + `, pollInterval: 5s}
---
apiVersion: leat.dev/v1
kind: ConfigBackend
metadata: {name: vault}
spec:
  vault: {url: ` + vaultURL + `, token: {}}
  allowedPaths: ["shop/**"]
  projects: [default]
---
apiVersion: leat.dev/v1
kind: GlobalService
metadata: {name: shop}
spec:
  clusters:
    labels:
      matchLabels: {shop: "true"}
  template:
    namespace: shop
    sources:
    - repository: shop
      ref: {branch: main}
      path: shop
    render:
    - helm:
        valuesFiles: ["values-${{ self.labels.region }}.yaml?"]
        values:
          cluster: ${{ self.name }}
          greeting: ` + greeting + `
        parameters: {password: "${PASSWORD}"}
    config:
      references: {PASSWORD: "vault://shop/${cluster.labels.region}#password"}
---
apiVersion: leat.dev/v1
kind: RolloutPolicy
metadata: {name: shop}
spec:
  services: [shop]
  waves:
  - name: canary
    clusters: [berlin]
    soak: 1s
    approval: {}
  maxUnavailable: 100%
  failAfter: 1s
  offlineAfter: 1s
  onHalt: rollback
`,
	}
}

// shops is a fleet in the middle of its story.
type shops struct {
	*hub

	vault    vault
	git      *gittest.Repo // what the fleet source follows
	chart    *gittest.Repo
	rollouts fleetv1connect.RolloutServiceClient
	sources  fleetv1connect.FleetSourceServiceClient
	clusters map[string]*localkube.ControlPlane
	agents   map[string]*member
}

// tellStoryOfAFleet has one story: Git describes three clusters, a chart with values of regions and secrets
// of a Vault; a bad commit halts in the canary and goes back, while one cluster is offline; the fix waits for an
// approval, a cluster joins meanwhile, and the one that was offline catches up; then the template
// is edited, the hub is killed in the middle and continues, and a secret is rotated.
func tellStoryOfAFleet(t *testing.T, engine string, v vault) {
	settings := map[string]string{asProcess: "1", "LEAT_ALLOW_LOCAL_AGENTS": "true"}
	if engine == "postgres" {
		settings["LEAT_DISTRIBUTOR_DATABASE_URL"] = postgrestest.New(t).Database(t)
	}
	h := startContent(t, settings)
	upstream := gittest.New(t)
	s := &shops{
		hub: h, vault: v, git: upstream.Repo(t, "fleet"), chart: upstream.Repo(t, "shop"),
		clusters: map[string]*localkube.ControlPlane{}, agents: map[string]*member{},
	}
	client := h.client(t, adminToken)
	s.rollouts = fleetv1connect.NewRolloutServiceClient(client.HTTP, client.BaseURL, client.Options...)
	s.sources = fleetv1connect.NewFleetSourceServiceClient(client.HTTP, client.BaseURL, client.Options...)
	v.put("shop/eu", "eu-1-of-the-story")
	v.put("shop/us", "us-1-of-the-story")
	h.tunnel.start(t)
	h.waitReady(t, h.gitcache, h.distributor, h.tunnel)

	s.chart.Commit(t, "main", shopChart)
	s.commitFleet(t, "region: sa", "Hello")
	s.bootstrap(t)
	for _, name := range []string{"berlin", "boston", "bergen", "lima"} {
		s.clusters[name] = kubetest.Borrow(t)
		s.agents[name] = h.install(t, name, s.clusters[name], name)
	}
	s.waitShop(t, "berlin", "Hello EUR eu-1-of-the-story 80")
	s.waitShop(t, "boston", "Hello USD us-1-of-the-story 80")
	s.waitShop(t, "bergen", "Hello EUR eu-1-of-the-story 80")
	s.waitTaken(t, 3)

	// A bad commit, while a cluster is offline.
	s.agents["bergen"].stop()
	s.chart.Commit(t, "main", map[string]string{"shop/values.yaml": "greeting: Hello\ncurrency: EUR\nport: 99999999\n"})
	s.waitRollout(t, 1, "gone back", func(r *fleetv1.Rollout) bool { return r.GetState() == "rolledBack" })
	s.waitShop(t, "berlin", "Hello EUR eu-1-of-the-story 80")
	s.expectShop(t, "boston", "Hello USD us-1-of-the-story 80")

	// The fix waits for an approval, and meanwhile a cluster joins. It gets what the others have.
	s.chart.Commit(t, "main", map[string]string{"shop/values.yaml": "greeting: Hello\ncurrency: EUR\nport: 81\n"})
	waitsForPerson := func(r *fleetv1.Rollout) bool { return r.GetWaitsOn() == "person" }
	s.waitRollout(t, 2, "waiting for an approval", waitsForPerson)
	s.waitShop(t, "berlin", "Hello EUR eu-1-of-the-story 81")
	s.expectShop(t, "boston", "Hello USD us-1-of-the-story 80")
	s.commitFleet(t, `region: us, shop: "true"`, "Hello")
	s.waitShop(t, "lima", "Hello USD us-1-of-the-story 80")

	s.approve(t)
	s.waitShop(t, "boston", "Hello USD us-1-of-the-story 81")
	s.waitShop(t, "lima", "Hello USD us-1-of-the-story 81")
	completed := func(r *fleetv1.Rollout) bool { return r.GetState() == "completed" }
	s.waitRollout(t, 2, "completed without the cluster that is offline", completed)
	s.agents["bergen"].start(t)
	s.waitShop(t, "bergen", "Hello EUR eu-1-of-the-story 81")

	// An edit of the template in Git is rolled out, too.
	s.commitFleet(t, `region: us, shop: "true"`, "Welcome")
	s.waitRollout(t, 3, "waiting for an approval", waitsForPerson)
	s.waitShop(t, "berlin", "Welcome EUR eu-1-of-the-story 81")

	// The hub is killed, and continues where it was.
	h.distributor.stop()
	h.distributor.start(t)
	h.waitReady(t, h.distributor)
	s.waitRollout(t, 3, "waiting as before", waitsForPerson)

	// A secret that is rotated reaches all at once, also in the middle of a rollout.
	v.put("shop/us", "us-2-of-the-story")
	if _, err := h.fleet.RefreshConfigBackend(t.Context(), &fleetv1.RefreshConfigBackendRequest{Name: "vault", Path: "shop/us"}); err != nil {
		t.Fatal(err)
	}
	s.waitShop(t, "boston", "Hello USD us-2-of-the-story 81")
	s.waitShop(t, "lima", "Hello USD us-2-of-the-story 81")
	s.approve(t)
	s.waitRollout(t, 3, "completed", completed)
	for name, want := range map[string]string{
		"berlin": "Welcome EUR eu-1-of-the-story 81", "bergen": "Welcome EUR eu-1-of-the-story 81",
		"boston": "Welcome USD us-2-of-the-story 81", "lima": "Welcome USD us-2-of-the-story 81",
	} {
		s.waitShop(t, name, want)
	}
	for number := range int64(3) {
		answer, err := s.rollouts.ReplayRollout(t.Context(), &fleetv1.ReplayRolloutRequest{Name: "shop", Number: number + 1})
		if err != nil || answer.GetDifference() != "" || answer.GetDecisions() == 0 {
			t.Errorf("replay of rollout %d: got %v, %v", number+1, answer, err)
		}
	}
}

// bootstrap applies by hand what a fleet from Git needs: the token of Vault, which is not for Git, and the source.
func (s *shops) bootstrap(t *testing.T) {
	t.Helper()
	s.apply(t,
		fleetdoc.Of(&fleetv1.ConfigBackend{Metadata: &typev1.Metadata{Name: "vault"}, Spec: &fleetv1.ConfigBackendSpec{
			Kind: &fleetv1.ConfigBackendSpec_Vault{Vault: &fleetv1.VaultBackend{
				Url: s.vault.url, Auth: &fleetv1.VaultBackend_Token{Token: &fleetv1.VaultToken{Token: proto.String(s.vault.token)}},
			}},
			AllowedPaths: []string{"shop/**"}, Projects: []string{"default"},
		}}),
		fleetdoc.Of(&fleetv1.Repository{
			Metadata: &typev1.Metadata{Name: "fleet"}, Spec: &fleetv1.RepositorySpec{Url: s.git.URL(), PollInterval: durationpb.New(5 * time.Second)},
		}),
		fleetdoc.Of(&fleetv1.FleetSource{Metadata: &typev1.Metadata{Name: "fleet"}, Spec: &fleetv1.FleetSourceSpec{
			Source: &typev1.Source{Repository: "fleet", Path: "fleet", Ref: &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: "main"}}},
			Role:   typev1.AccessRole_ACCESS_ROLE_ADMIN, Hub: true,
		}}))
	await.Poll(t, "the fleet source to have written its documents", pause, func() (bool, string) {
		answer, err := fleetcalls.Get[*fleetv1.FleetSource](t.Context(), s.fleet, "fleet")
		status := answer.GetStatus()
		documents, _ := s.sources.ListFleetSourceDocuments(t.Context(), &fleetv1.ListFleetSourceDocumentsRequest{Name: "fleet"})
		return err == nil && status.GetManaged() == 8 && status.GetProblem() == nil, fmt.Sprint(status, documents, err)
	})
}

// commitFleet writes the documents of the fleet.
func (s *shops) commitFleet(t *testing.T, labelsOfLima, greeting string) {
	t.Helper()
	s.git.Commit(t, "main", fleetOfShops(s.vault.url, s.chart.URL(), labelsOfLima, greeting))
}

// shop returns what runs in a cluster, as words: greeting, currency, password and port.
func (s *shops) shop(t *testing.T, cluster string) string {
	t.Helper()
	var settings struct {
		Data struct{ Greeting, Currency, Cluster string }
	}
	var secret struct{ Data struct{ Password string } }
	var service struct {
		Spec struct{ Ports []struct{ Port int } }
	}
	for path, object := range map[string]any{"configmaps": &settings, "secrets": &secret, "services": &service} {
		cp := s.clusters[cluster]
		code, body := get(t, cp.HTTPClient(), cp.Host()+"/api/v1/namespaces/shop/"+path+"/shop", "")
		if code != http.StatusOK {
			return fmt.Sprintf("%s: status %d", path, code)
		}
		if err := json.Unmarshal([]byte(body), object); err != nil {
			t.Fatal(err)
		}
	}
	password, err := base64.StdEncoding.DecodeString(secret.Data.Password)
	if err != nil || settings.Data.Cluster != cluster || len(service.Spec.Ports) != 1 {
		t.Errorf("%s has %+v and %+v, %v", cluster, settings, service, err)
	}
	return strings.Join([]string{settings.Data.Greeting, settings.Data.Currency, string(password), fmt.Sprint(service.Spec.Ports[0].Port)}, " ")
}

// waitShop waits until a cluster has that, and its agent has said that it is healthy.
func (s *shops) waitShop(t *testing.T, cluster, want string) {
	t.Helper()
	await.Poll(t, "the shop of "+cluster+" to be "+want, pause, func() (bool, string) {
		got := s.shop(t, cluster)
		answer, err := fleetcalls.Get[*fleetv1.Service](t.Context(), s.fleet, "shop@"+cluster)
		status := answer.GetStatus()
		return got == want && err == nil && status.GetPhase() == typev1.ServicePhase_SERVICE_PHASE_HEALTHY, fmt.Sprint(got, " ", status, err)
	})
}

// expectShop checks what a cluster has now.
func (s *shops) expectShop(t *testing.T, cluster, want string) {
	t.Helper()
	if got := s.shop(t, cluster); got != want {
		t.Errorf("the shop of %s: got %s, want %s", cluster, got, want)
	}
}

// waitTaken waits until the policy holds so many services at what they have.
func (s *shops) waitTaken(t *testing.T, services int32) {
	t.Helper()
	await.Poll(t, "the policy to take the services over", pause, func() (bool, string) {
		answer, err := fleetcalls.Get[*fleetv1.RolloutPolicy](t.Context(), s.fleet, "shop")
		status := answer.GetStatus()
		return err == nil && status.GetTakenOver() == services, fmt.Sprint(status, err)
	})
}

// waitRollout waits until a rollout meets the condition.
func (s *shops) waitRollout(t *testing.T, number int64, what string, condition func(*fleetv1.Rollout) bool) {
	t.Helper()
	await.Poll(t, fmt.Sprintf("rollout %d to be %s", number, what), pause, func() (bool, string) {
		answer, err := s.rollouts.GetRollout(t.Context(), &fleetv1.GetRolloutRequest{Name: "shop", Number: number})
		return err == nil && condition(answer.GetRollout()), fmt.Sprint(answer, err)
	})
}

func (s *shops) approve(t *testing.T) {
	t.Helper()
	if _, err := s.rollouts.ApproveRollout(t.Context(), &fleetv1.ApproveRolloutRequest{Name: "shop", Wave: "canary"}); err != nil {
		t.Fatalf("approve: %v", err)
	}
}
