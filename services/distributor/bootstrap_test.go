// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor"
)

func (h *hub) bootstraps(t *testing.T, token string) fleetv1connect.BootstrapServiceClient {
	t.Helper()
	c := h.client(t, token)
	return fleetv1connect.NewBootstrapServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

// bootstrapToken makes a bootstrap token as the admin.
func (h *hub) bootstrapToken(t *testing.T, req *fleetv1.CreateBootstrapTokenRequest) (secret, id string) {
	t.Helper()
	res, err := h.bootstraps(t, adminToken).CreateBootstrapToken(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return res.GetSecret(), res.GetToken().GetId()
}

// newborn is a Kubernetes cluster that was just made, with its agent's key.
type newborn struct {
	uid    string
	public ed25519.PublicKey
	key    ed25519.PrivateKey
	// name is the name that the agent proposes.
	name string
}

func newNewborn(t *testing.T, n int) newborn {
	t.Helper()
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return newborn{uid: fmt.Sprintf("%08x-0000-4000-8000-000000000000", n), public: public, key: key}
}

// bootstrap has the agent of a new cluster enrol, and obtain a token.
func (h *hub) bootstrap(t *testing.T, secret string, n newborn) (*agentKey, error) {
	t.Helper()
	res, err := h.agents(t, "").Enroll(t.Context(), &distributorv1.EnrollRequest{
		JoinToken: secret, PublicKey: n.public, AgentVersion: "v1", ClusterName: n.name, KubernetesUid: n.uid,
	})
	if err != nil {
		return nil, err
	}
	a := &agentKey{cluster: res.GetCluster(), key: n.key}
	a.token = h.refresh(t, a)
	return a, nil
}

// onBothDatabases runs a test with one replica on SQLite, and with two on PostgreSQL.
func onBothDatabases(t *testing.T, test func(t *testing.T, h, other *hub), change ...func(*distributor.Config)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		h := startHub(t, change...)
		test(t, h, h)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := postgrestest.New(t).Database(t)
		onPostgres := append(slices.Clone(change), func(c *distributor.Config) { c.DatabaseURL = url })
		h := startHub(t, onPostgres...)
		test(t, h, startReplica(t, h.git, onPostgres[len(change)]))
	})
}

// TestBootstrapTokensEnrolClusters gives one token to three new clusters, of which one enrols at another
// replica: each becomes a cluster of the catalog, with the token's labels and what these select.
func TestBootstrapTokensEnrolClusters(t *testing.T) {
	t.Parallel()
	internal, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := startHub(t, func(c *distributor.Config) { c.Serve.InternalListener = internal })
	checkBootstrap(t, h, h)
	for outcome, want := range map[string]float64{"enrolled": 4, "refused": 1} { // the fourth is a repeated call
		if n, _ := sampleOf(t, "http://"+internal.Addr().String()+"/metrics", fmt.Sprintf("leat_distributor_bootstrap_enrolments_total{outcome=%q}", outcome)); n != want {
			t.Errorf("got %v %s enrolments counted, want %v", n, outcome, want)
		}
	}
}

// TestBootstrapTokensOnTwoReplicas does the same with two replicas.
func TestBootstrapTokensOnTwoReplicas(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t).Database(t)
	onPostgres := func(c *distributor.Config) { c.DatabaseURL = url }
	h := startHub(t, onPostgres)
	checkBootstrap(t, h, startReplica(t, h.git, onPostgres))
}

func checkBootstrap(t *testing.T, h, other *hub) {
	t.Helper()
	content := newFolder(t, "c1", "one")
	h.git.set("demo", "app", content)
	h.apply(t, repositoryDocument("demo"), fleetdoc.Of(webGlobal()))
	secret, id := h.bootstrapToken(t, &fleetv1.CreateBootstrapTokenRequest{NamePrefix: "edge-", Labels: edge("eu"), MaxUses: 3, Description: "the factory"})
	if !strings.HasPrefix(secret, "leatboot_") || strings.Contains(secret, id) {
		t.Errorf("got %s with id %s, want a secret that the id does not reveal", secret, id)
	}
	first, second, third := newNewborn(t, 1), newNewborn(t, 2), newNewborn(t, 3)
	second.name = "edge-berlin"
	a, err := h.bootstrap(t, secret, first)
	if err != nil || a.cluster != "edge-0000000100" {
		t.Fatalf("got %+v, %v, want a name of the uid", a, err)
	}
	if again, err := other.bootstrap(t, secret, first); err != nil || again.cluster != a.cluster {
		t.Errorf("got %+v, %v for a repeated call, want the same cluster", again, err)
	}
	if b, err := other.bootstrap(t, secret, second); err != nil || b.cluster != "edge-berlin" {
		t.Errorf("got %+v, %v, want the name that the agent proposes", b, err)
	}
	if _, err := h.bootstrap(t, secret, third); err != nil {
		t.Error(err)
	}
	_, err = other.bootstrap(t, secret, newNewborn(t, 4))
	wantReason(t, err, "BOOTSTRAP_TOKEN_SPENT")

	h.watchPlan(t, a.token, "").nextWith(t, content.snapshot.GetDigest()) // of the service that the labels select
	made, err := fleetcalls.Get[*fleetv1.Cluster](t.Context(), h.fleet(t, adminToken), a.cluster)
	if err != nil || !maps.Equal(made.GetMetadata().GetLabels(), edge("eu")) || !made.GetStatus().GetEnrolled() ||
		made.GetMetadata().GetReason() != "bootstrap token "+id {
		t.Errorf("got %v, %v", made, err)
	}
	listed, err := h.bootstraps(t, adminToken).ListBootstrapTokens(t.Context(), &fleetv1.ListBootstrapTokensRequest{})
	if err != nil || len(listed.GetTokens()) != 1 {
		t.Fatalf("got %v, %v, want one token", listed, err)
	}
	if got := listed.GetTokens()[0]; got.GetId() != id || got.GetUses() != 3 || got.GetMaxUses() != 3 || got.GetLastCluster() != "edge-0000000300" ||
		got.GetLastUsedTime() == nil || got.GetCreatedBy() != "user:admin" || got.GetDescription() != "the factory" || got.GetProject() != "default" {
		t.Errorf("got %v", got)
	}
	if _, err := h.bootstraps(t, adminToken).RevokeBootstrapToken(t.Context(), &fleetv1.RevokeBootstrapTokenRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
	for _, replica := range []*hub{h, other} {
		_, err := replica.bootstrap(t, secret, newNewborn(t, 5))
		wantReason(t, err, "JOIN_TOKEN_INVALID")
	}
	h.refresh(t, a) // its identity stays

	var records []string
	for _, r := range auditOf(t, h.fleet(t, adminToken), &fleetv1.ListAuditRecordsRequest{Token: "bootstrap." + id}) {
		if !strings.HasPrefix(r.GetSourceAddress(), "127.0.0.1:") || !strings.HasSuffix(r.GetProcedure(), "/Enroll") {
			t.Errorf("got %v, want where the agent came from", r)
		}
		records = append(records, strings.Join([]string{r.GetVerb(), r.GetKind(), r.GetName(), r.GetOutcome()}, " "))
	}
	slices.Sort(records)
	want := []string{
		"create Cluster edge-0000000100 OK", "create Cluster edge-0000000300 OK", "create Cluster edge-berlin OK",
		"enrol BootstrapToken " + id + " BOOTSTRAP_TOKEN_SPENT",
		"enrol Cluster edge-0000000100 OK", "enrol Cluster edge-0000000300 OK", "enrol Cluster edge-berlin OK",
	}
	if !slices.Equal(records, want) {
		t.Errorf("got records\n%s\nwant\n%s", strings.Join(records, "\n"), strings.Join(want, "\n"))
	}
	var own []string
	for _, r := range auditOf(t, h.fleet(t, adminToken), &fleetv1.ListAuditRecordsRequest{Kind: "BootstrapToken", Name: id, Subject: "user:admin"}) {
		own = append(own, r.GetVerb())
		if strings.Contains(fmt.Sprint(r), secret) || r.GetVerb() == "create" && !slices.ContainsFunc(r.GetChanges(), func(f *fleetv1.AuditFieldChange) bool {
			return f.GetPath() == "spec.labels.tier" && f.GetNew() == `"edge"`
		}) {
			t.Errorf("got %v, want what the token makes, without its secret", r)
		}
	}
	if !slices.Equal(own, []string{"revoke", "create"}) {
		t.Errorf("got records %v of the token, want that it was made and revoked", own)
	}
}

// TestSecBootstrapTokensTakeNothingOver has the holder of a token, who knows names and uids, try to
// become a cluster that exists, and to make one that the token does not allow.
func TestSecBootstrapTokensTakeNothingOver(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, h, other *hub) {
		h.apply(t, projectDocument("shop", nil), clusterDocument("edge-by-hand"), clusterDocument("edge-enrolled"), clusterDocument("prod-1"),
			inProject("shop", clusterDocument("edge-x")))
		enrolled := h.enrol(t, "edge-enrolled")
		secret, id := h.bootstrapToken(t, &fleetv1.CreateBootstrapTokenRequest{NamePrefix: "edge-", Labels: edge("eu"), MaxUses: 5})
		victim := newNewborn(t, 1)
		honest, err := h.bootstrap(t, secret, victim)
		if err != nil {
			t.Fatal(err)
		}
		thief := newNewborn(t, 2)
		uses := func() int32 {
			t.Helper()
			res, err := h.bootstraps(t, adminToken).ListBootstrapTokens(t.Context(), &fleetv1.ListBootstrapTokensRequest{})
			if err != nil {
				t.Fatal(err)
			}
			return res.GetTokens()[0].GetUses()
		}
		try := func(what, want string, change func(*distributorv1.EnrollRequest)) {
			t.Helper()
			for _, replica := range slices.Compact([]*hub{h, other}) {
				req := &distributorv1.EnrollRequest{JoinToken: secret, PublicKey: thief.public, KubernetesUid: thief.uid}
				change(req)
				_, err := replica.agents(t, "").Enroll(t.Context(), req)
				if got := strings.TrimPrefix(rpcerr.ReasonOf(err).String(), "REASON_"); got != want {
					t.Errorf("%s: got %s (%v), want %s", what, got, err, want)
				}
			}
		}
		name := func(name string) func(*distributorv1.EnrollRequest) {
			return func(r *distributorv1.EnrollRequest) { r.ClusterName = name }
		}
		try("a cluster made by hand", "CLUSTER_NAME_TAKEN", name("edge-by-hand"))
		try("an enrolled cluster", "CLUSTER_NAME_TAKEN", name("edge-enrolled"))
		try("the token's own cluster by its name", "CLUSTER_NAME_TAKEN", name(honest.cluster))
		try("the token's own cluster by its uid", "CLUSTER_ENROLLED", func(r *distributorv1.EnrollRequest) { r.KubernetesUid = victim.uid })
		try("the token's own cluster by both", "CLUSTER_ENROLLED", func(r *distributorv1.EnrollRequest) {
			r.KubernetesUid, r.ClusterName = victim.uid, honest.cluster
		})
		try("a name outside of the prefix", "CLUSTER_NAME_REFUSED", name("prod-2"))
		try("an existing name outside of the prefix", "CLUSTER_NAME_REFUSED", name("prod-1"))
		try("a name that holds the prefix", "CLUSTER_NAME_REFUSED", name("prod-edge-1"))
		try("a cluster of another project", "FIELD_INVALID", name("shop/edge-x"))
		try("a path of another project", "FIELD_INVALID", name("shop.edge-x"))
		try("a long name", "FIELD_INVALID", name("edge-"+strings.Repeat("a", 1<<14)))
		try("a long uid", "FIELD_INVALID", func(r *distributorv1.EnrollRequest) { r.KubernetesUid = strings.Repeat("a", 1<<14) })
		try("a long version", "FIELD_INVALID", func(r *distributorv1.EnrollRequest) { r.AgentVersion = strings.Repeat("a", 1<<14) })
		try("no uid", "FIELD_INVALID", func(r *distributorv1.EnrollRequest) { r.KubernetesUid = "" })
		try("another token of that form", "JOIN_TOKEN_INVALID", func(r *distributorv1.EnrollRequest) { r.JoinToken += "x" })
		try("the token as a join token", "JOIN_TOKEN_INVALID", func(r *distributorv1.EnrollRequest) {
			r.JoinToken = "leatjoin_" + strings.TrimPrefix(r.JoinToken, "leatboot_")
		})
		// An observer repeats the honest agent's call, and gets nothing without its private key.
		try("a replay", "UNSPECIFIED", func(r *distributorv1.EnrollRequest) { r.KubernetesUid, r.PublicKey = victim.uid, victim.public })
		if n := uses(); n != 1 {
			t.Errorf("got %d uses, want that of the honest agent", n)
		}
		h.refresh(t, honest)
		h.refresh(t, enrolled)

		// A revoked cluster comes back by a join token of its own alone.
		if _, err := h.fleet(t, adminToken).RevokeCluster(t.Context(), &fleetv1.RevokeClusterRequest{Cluster: honest.cluster}); err != nil {
			t.Fatal(err)
		}
		try("a revoked cluster", "CLUSTER_ENROLLED", func(r *distributorv1.EnrollRequest) { r.KubernetesUid = victim.uid })
		try("a revoked cluster by its last key", "CLUSTER_ENROLLED", func(r *distributorv1.EnrollRequest) { r.KubernetesUid, r.PublicKey = victim.uid, victim.public })
		h.enrol(t, honest.cluster)

		// Labels are the token's, whatever else a call holds.
		body := fmt.Sprintf(`{"joinToken": %q, "publicKey": %q, "kubernetesUid": %q, "clusterName": "edge-smuggler", "labels": {"tier": "core"}, "metadata": {"labels": {"tier": "core"}}}`,
			secret, base64.StdEncoding.EncodeToString(thief.public), thief.uid)
		request := newRequest(t, http.MethodPost, h.url+"/leat.distributor.v1.DistributorService/Enroll", "", []byte(body))
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		made, err := fleetcalls.Get[*fleetv1.Cluster](t.Context(), h.fleet(t, adminToken), "edge-smuggler")
		if response.StatusCode == http.StatusOK && (err != nil || !maps.Equal(made.GetMetadata().GetLabels(), edge("eu"))) {
			t.Errorf("got %v, %v, want the token's labels", made, err)
		}

		refused := auditOf(t, h.fleet(t, adminToken), &fleetv1.ListAuditRecordsRequest{Kind: "BootstrapToken", Name: id, Outcome: "REFUSED"})
		seen := map[string]bool{}
		for _, r := range refused {
			seen[r.GetOutcome()] = true
		}
		for _, want := range []string{"CLUSTER_NAME_TAKEN", "CLUSTER_ENROLLED", "CLUSTER_NAME_REFUSED"} {
			if !seen[want] {
				t.Errorf("no record of a refusal with %s", want)
			}
		}
	})
}

// TestSecBootstrapTokensHaveOneLastUse has agents come to two replicas at once for the last use of a token.
func TestSecBootstrapTokensHaveOneLastUse(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, h, other *hub) {
		secret, _ := h.bootstrapToken(t, &fleetv1.CreateBootstrapTokenRequest{NamePrefix: "edge-", MaxUses: 1})
		var racing sync.WaitGroup
		var mu sync.Mutex
		won := 0
		for i := range 8 {
			n, replica := newNewborn(t, i), []*hub{h, other}[i%2]
			racing.Go(func() {
				_, err := replica.agents(t, "").Enroll(t.Context(), &distributorv1.EnrollRequest{JoinToken: secret, PublicKey: n.public, KubernetesUid: n.uid})
				if err != nil {
					wantReason(t, err, "BOOTSTRAP_TOKEN_SPENT")
					return
				}
				mu.Lock()
				defer mu.Unlock()
				won++
			})
		}
		racing.Wait()
		res, err := fleetcalls.List[*fleetv1.Cluster](t.Context(), h.fleet(t, adminToken), &fleetv1.ListRequest{})
		if err != nil || won != 1 || len(res.Objects) != 1 {
			t.Errorf("got %d enrolments and %v, %v, want one cluster", won, res, err)
		}
	})
}

// TestSecBootstrapTokensGiveNoMoreThanTheirMaker has people with some rights make tokens that would make
// more clusters than they may make themselves.
func TestSecBootstrapTokensGiveNoMoreThanTheirMaker(t *testing.T) {
	t.Parallel()
	c := newMarket(t)
	shopAlone := &fleetv1.ProjectSelection{Names: []string{"shop"}}
	everybody := map[string]string{}
	bind := func(name string, spec *fleetv1.AccessBindingSpec) {
		t.Helper()
		everybody[name], _ = c.join(t, name)
		spec.Users = []string{name}
		c.apply(t, bindingOf(name, spec))
	}
	bind("keeper", &fleetv1.AccessBindingSpec{Role: admins, Projects: shopAlone})
	bind("editor", &fleetv1.AccessBindingSpec{Role: typev1.AccessRole_ACCESS_ROLE_EDITOR, Projects: shopAlone})
	bind("clusters", &fleetv1.AccessBindingSpec{Role: admins, Clusters: &fleetv1.ClusterSelection{All: true}})
	bind("labels", &fleetv1.AccessBindingSpec{Role: admins, Clusters: &fleetv1.ClusterSelection{Labels: &fleetv1.LabelSelector{MatchLabels: edge("eu")}}})
	bind("guest", &fleetv1.AccessBindingSpec{Role: admins, Projects: &fleetv1.ProjectSelection{All: true}, ExpireTime: timestamppb.New(time.Now().Add(time.Hour))})
	bind("platform", &fleetv1.AccessBindingSpec{Role: admins, Projects: &fleetv1.ProjectSelection{All: true}})
	c.apply(t, roleDocument("minter", []string{"*"}, []string{"bootstraptokens"}))
	bind("minter", &fleetv1.AccessBindingSpec{RoleName: "minter", Projects: shopAlone})
	boss, _ := c.join(t, "boss", "leat:admins")
	everybody["limited"], _ = c.narrow(t, boss, "boss", shop(admins))

	inShop := func(labels map[string]string) *fleetv1.CreateBootstrapTokenRequest {
		return &fleetv1.CreateBootstrapTokenRequest{Project: "shop", NamePrefix: "edge-", Labels: labels}
	}
	inDefault := &fleetv1.CreateBootstrapTokenRequest{NamePrefix: "edge-"}
	made := map[string]*fleetv1.BootstrapToken{}
	for _, test := range []struct {
		who, what, want string
		req             *fleetv1.CreateBootstrapTokenRequest
	}{
		{"keeper", "in their project", "UNSPECIFIED", inShop(nil)},
		{"keeper", "with labels", "ACCESS_DENIED", inShop(edge("eu"))},
		{"keeper", "in another project", "ACCESS_DENIED", inDefault},
		{"keeper", "in a project that does not exist", "ACCESS_DENIED", &fleetv1.CreateBootstrapTokenRequest{Project: "none", NamePrefix: "edge-"}},
		{"editor", "in their project", "ACCESS_DENIED", inShop(nil)},
		{"minter", "without the right to create clusters", "ACCESS_DENIED", inShop(nil)},
		{"clusters", "of no project", "ACCESS_DENIED", inDefault},
		{"labels", "with their labels", "ACCESS_DENIED", &fleetv1.CreateBootstrapTokenRequest{NamePrefix: "edge-", Labels: edge("eu")}},
		{"guest", "with labels that outlive their binding", "ACCESS_DENIED", inShop(edge("eu"))},
		{"limited", "with labels that outlive their token", "ACCESS_DENIED", inShop(edge("eu"))},
		{"limited", "in another project", "ACCESS_DENIED", inDefault},
		{"limited", "that outlives their token", "FIELD_INVALID", &fleetv1.CreateBootstrapTokenRequest{
			Project: "shop", NamePrefix: "edge-", ExpireTime: timestamppb.New(time.Now().Add(90*24*time.Hour + time.Second)),
		}},
		{"limited", "in their project", "UNSPECIFIED", inShop(nil)},
		{"platform", "with labels", "UNSPECIFIED", inShop(edge("eu"))},
		{"platform", "in a project that does not exist", "REFERENCE_NOT_FOUND", &fleetv1.CreateBootstrapTokenRequest{Project: "none", NamePrefix: "edge-"}},
		{"platform", "with a label of the hub", "FIELD_INVALID", inShop(map[string]string{"leat.dev/x": "y"})},
		{"platform", "without an end", "FIELD_INVALID", &fleetv1.CreateBootstrapTokenRequest{NamePrefix: "edge-", ExpireTime: timestamppb.New(time.Now().Add(91 * 24 * time.Hour))}},
		{"platform", "that has ended", "FIELD_INVALID", &fleetv1.CreateBootstrapTokenRequest{NamePrefix: "edge-", ExpireTime: timestamppb.New(time.Now().Add(-time.Second))}},
		{"platform", "with uses without an end", "FIELD_INVALID", &fleetv1.CreateBootstrapTokenRequest{NamePrefix: "edge-", MaxUses: 1 << 30}},
		{"platform", "with fewer uses than none", "FIELD_INVALID", &fleetv1.CreateBootstrapTokenRequest{NamePrefix: "edge-", MaxUses: -1}},
	} {
		res, err := c.bootstraps(t, everybody[test.who]).CreateBootstrapToken(t.Context(), test.req)
		if got := strings.TrimPrefix(rpcerr.ReasonOf(err).String(), "REASON_"); got != test.want {
			t.Errorf("%s, %s: got %s (%v), want %s", test.who, test.what, got, err, test.want)
		}
		if err == nil {
			made[test.who] = res.GetToken()
		}
	}
	if len(made) != 3 || made["keeper"].GetMaxUses() != 100 || made["limited"].GetMadeWith() == "" || made["keeper"].GetMadeWith() != "" {
		t.Fatalf("got %v", made)
	}
	if left := time.Until(made["keeper"].GetExpireTime().AsTime()); left <= 0 || left > 24*time.Hour {
		t.Errorf("the token ends in %v, want within 24 hours", left)
	}
	list := func(who string) (ids []string) {
		t.Helper()
		res, err := c.bootstraps(t, everybody[who]).ListBootstrapTokens(t.Context(), &fleetv1.ListBootstrapTokensRequest{Project: "shop"})
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range res.GetTokens() {
			ids = append(ids, token.GetId())
		}
		return ids
	}
	revoke := func(who, id string) error {
		_, err := c.bootstraps(t, everybody[who]).RevokeBootstrapToken(t.Context(), &fleetv1.RevokeBootstrapTokenRequest{Id: id})
		return err
	}
	for who, want := range map[string]int{"keeper": 3, "minter": 3, "editor": 0, "clusters": 0, "labels": 0} {
		if got := list(who); len(got) != want {
			t.Errorf("%s sees %v, want %d tokens", who, got, want)
		}
	}
	for _, who := range []string{"editor", "clusters", "labels"} {
		wantReason(t, revoke(who, made["platform"].GetId()), "NOT_FOUND")
	}
	wantReason(t, revoke("keeper", ""), "FIELD_INVALID")
	wantReason(t, revoke("keeper", made["platform"].GetId()), "UNSPECIFIED")
	wantReason(t, revoke("keeper", made["platform"].GetId()), "NOT_FOUND")
	// A token that was made with one with a limit ends with it.
	if _, err := c.admin.DeleteToken(t.Context(), &fleetv1.DeleteTokenRequest{Id: made["limited"].GetMadeWith()}); err != nil {
		t.Fatal(err)
	}
	if got := list("platform"); !slices.Equal(got, []string{made["keeper"].GetId()}) {
		t.Errorf("got %v, want the keeper's", got)
	}
}

// TestBootstrapTokensAreListedInPages reads more tokens than a page holds.
func TestBootstrapTokensAreListedInPages(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	want := map[string]bool{}
	for i := range 5 {
		_, id := h.bootstrapToken(t, &fleetv1.CreateBootstrapTokenRequest{NamePrefix: fmt.Sprint("edge", i%2, "-")})
		want[id] = true
	}
	request := &fleetv1.ListBootstrapTokensRequest{Page: &typev1.Page{Size: 2}}
	for pages := 1; ; pages++ {
		res, err := h.bootstraps(t, adminToken).ListBootstrapTokens(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range res.GetTokens() {
			if !want[token.GetId()] {
				t.Errorf("got %s twice, or it was not made", token.GetId())
			}
			delete(want, token.GetId())
		}
		if res.GetNextPageToken() == "" {
			if pages != 3 || len(want) != 0 {
				t.Errorf("got %d pages without %v, want 3 with all", pages, want)
			}
			return
		}
		request.Page = &typev1.Page{Size: 2, Token: res.GetNextPageToken()}
	}
}
