// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/distributor"
)

// Roles of people in clusters.
const (
	viewer   = typev1.AccessRole_ACCESS_ROLE_VIEWER
	operator = typev1.AccessRole_ACCESS_ROLE_OPERATOR
)

// crowd is a hub with people.
type crowd struct {
	*hub
	admin fleetv1connect.FleetServiceClient
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	h := startHub(t)
	return &crowd{hub: h, admin: h.fleet(t, adminToken)}
}

// join makes a user, and returns an API token of theirs and its id.
func (c *crowd) join(t *testing.T, name string, groups ...string) (secret, id string) {
	t.Helper()
	_, err := fleetcalls.Create(t.Context(), c.admin, &fleetv1.User{
		Metadata: &typev1.Metadata{Name: name}, Spec: &fleetv1.UserSpec{Groups: groups},
	})
	if err != nil {
		t.Fatal(err)
	}
	made, err := c.admin.CreateToken(t.Context(), &fleetv1.CreateTokenRequest{User: name, Label: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return made.GetSecret(), made.GetToken().GetId()
}

// access trades an API token for the identity in an access token.
func (c *crowd) access(t *testing.T, secret string) identity.Identity {
	t.Helper()
	res, err := c.fleet(t, secret).CreateAccessToken(t.Context(), &fleetv1.CreateAccessTokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return c.verified(t, res.GetAccessToken())
}

func (c *crowd) verified(t *testing.T, token string) identity.Identity {
	t.Helper()
	keys := identity.NewJWKS(identity.JWKSParams{Audience: identity.ServiceDistributor, URL: c.url + "/.well-known/jwks.json", HTTPClient: c.client(t, "").HTTP, Logger: telemetry.Noop().Logger()})
	id, err := keys.Verify(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// check asks as the tunnel does.
func (c *crowd) check(t *testing.T, id identity.Identity, cluster string) *distributorv1.CheckAccessResponse {
	t.Helper()
	res, err := c.hub.access(t, serviceToken(t)).CheckAccess(t.Context(), &distributorv1.CheckAccessRequest{
		Subject: id.Subject(), SubjectUid: id.UID, Groups: id.Groups, Credential: id.Credential, Cluster: cluster,
	})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func (c *crowd) bind(t *testing.T, name string, spec *fleetv1.AccessBindingSpec) {
	t.Helper()
	c.apply(t, &fleetv1.Document{Object: &fleetv1.Document_AccessBinding{AccessBinding: &fleetv1.AccessBinding{
		Metadata: &typev1.Metadata{Name: name}, Spec: spec,
	}}})
}

func named(names ...string) *fleetv1.ClusterSelection { return &fleetv1.ClusterSelection{Names: names} }

func extraOf(res *distributorv1.CheckAccessResponse, key string) []string {
	for _, extra := range res.GetExtra() {
		if extra.GetKey() == key {
			return extra.GetValues()
		}
	}
	return nil
}

// TestBindingsAddUp gives one person three bindings, one of them for one namespace: its role must
// not count outside.
func TestBindingsAddUp(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.apply(t, clusterDocument("one"), clusterDocument("two"))
	secret, _ := c.join(t, "ada", "dev", "oncall")
	ada := c.access(t, secret)
	if res := c.check(t, ada, "one"); res.GetAllowed() || res.GetUser() != "" || len(res.GetGroups()) != 0 {
		t.Errorf("got %v, want nobody to reach anything without a binding", res)
	}
	c.bind(t, "look", &fleetv1.AccessBindingSpec{Groups: []string{"dev"}, Clusters: &fleetv1.ClusterSelection{All: true}, Role: viewer})
	c.bind(t, "shop", &fleetv1.AccessBindingSpec{
		Users: []string{"ada"}, Clusters: named("one"), Role: operator, Rules: []*typev1.AccessRule{{Namespaces: []string{"shop"}}},
	})
	c.bind(t, "pager", &fleetv1.AccessBindingSpec{Groups: []string{"oncall", "x"}, Clusters: named("one"), ClusterGroups: []string{"pager"}})
	c.bind(t, "others", &fleetv1.AccessBindingSpec{Users: []string{"eve"}, Groups: []string{"ada"}, Clusters: named("one"), Role: typev1.AccessRole_ACCESS_ROLE_ADMIN})

	res := c.check(t, ada, "one")
	if !res.GetAllowed() || res.GetUser() != "ada" || res.GetUid() != ada.UID || ada.UID == "" || res.GetNarrowed() {
		t.Errorf("got %v, want ada with the uid of the user", res)
	}
	if want := []string{"leat:group:pager", "leat:viewers"}; !slices.Equal(res.GetGroups(), want) {
		t.Errorf("got groups %v, want %v", res.GetGroups(), want)
	}
	if g := res.GetGrants(); len(g) != 1 || g[0].GetBinding() != "shop" || !slices.Equal(g[0].GetGroups(), []string{"leat:operators"}) || g[0].GetRules()[0].GetNamespaces()[0] != "shop" {
		t.Errorf("got grants %v, want operators in the namespace shop", g)
	}
	for key, want := range map[string][]string{
		"leat.dev/bindings": {"look", "pager"}, "leat.dev/cluster": {"one"}, "leat.dev/groups": {"dev", "oncall"},
	} {
		if got := extraOf(res, key); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", key, got, want)
		}
	}
	for _, group := range res.GetGroups() {
		if strings.HasPrefix(group, "system:") {
			t.Errorf("got group %s, which is one of Kubernetes' own", group)
		}
	}
	if res := c.check(t, ada, "two"); !slices.Equal(res.GetGroups(), []string{"leat:viewers"}) || len(res.GetGrants()) != 0 {
		t.Errorf("two: got %v, want a viewer", res)
	}
	if err := fleetcalls.Delete[*fleetv1.AccessBinding](t.Context(), c.admin, "look"); err != nil {
		t.Fatal(err)
	}
	if res := c.check(t, ada, "two"); res.GetAllowed() {
		t.Errorf("got %v, want nobody to reach it after the binding went", res)
	}
	c.bind(t, "pager", &fleetv1.AccessBindingSpec{Groups: []string{"x"}, Clusters: named("one"), ClusterGroups: []string{"pager"}})
	if res := c.check(t, ada, "one"); !res.GetAllowed() || !res.GetNarrowed() || len(res.GetGroups()) != 0 {
		t.Errorf("got %v, want only what is narrowed to be left", res)
	}
}

// TestBindingsCoverClustersByLabels moves a cluster in and out of a selector.
func TestBindingsCoverClustersByLabels(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	label := func(labels map[string]string) {
		document := clusterDocument("one")
		document.GetCluster().Metadata.Labels = labels
		c.apply(t, document)
	}
	label(nil)
	secret, _ := c.join(t, "ada")
	ada := c.access(t, secret)
	c.bind(t, "prod", &fleetv1.AccessBindingSpec{Users: []string{"ada"}, Role: viewer, Clusters: &fleetv1.ClusterSelection{Labels: &fleetv1.LabelSelector{
		MatchLabels: map[string]string{"env": "prod"},
		MatchExpressions: []*fleetv1.LabelRequirement{
			{Key: "tier", Operator: fleetv1.LabelOperator_LABEL_OPERATOR_NOT_IN, Values: []string{"secret"}},
			{Key: "region", Operator: fleetv1.LabelOperator_LABEL_OPERATOR_EXISTS},
		},
	}}})
	for _, test := range []struct {
		labels map[string]string
		want   bool
	}{
		{map[string]string{"env": "prod", "region": "eu"}, true},
		{map[string]string{"env": "prod"}, false},
		{map[string]string{"env": "prod", "region": "eu", "tier": "secret"}, false},
		{map[string]string{"env": "prod", "region": "", "tier": "gold"}, true},
		{map[string]string{"env": "test", "region": "eu"}, false},
	} {
		label(test.labels)
		if got := c.check(t, ada, "one").GetAllowed(); got != test.want {
			t.Errorf("%v: got allowed %v, want %v", test.labels, got, test.want)
		}
		res, err := fleetcalls.List[*fleetv1.Cluster](t.Context(), c.fleet(t, secret), &fleetv1.ListRequest{})
		if err != nil || (len(res.Objects) == 1) != test.want {
			t.Errorf("%v: got %v, %v, want the list to hold what can be reached", test.labels, res, err)
		}
	}
}

// TestPeopleEndAtOnce deletes tokens and users whose access tokens are good for an hour.
func TestPeopleEndAtOnce(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.apply(t, clusterDocument("one"))
	c.bind(t, "all", &fleetv1.AccessBindingSpec{Groups: []string{"dev"}, Clusters: &fleetv1.ClusterSelection{All: true}, Role: viewer})
	secret, id := c.join(t, "ada", "dev")
	access := func(secret string) (string, error) {
		res, err := c.fleet(t, secret).CreateAccessToken(t.Context(), &fleetv1.CreateAccessTokenRequest{})
		return res.GetAccessToken(), err
	}
	token, err := access(secret)
	if err != nil {
		t.Fatal(err)
	}
	info := func(token string) error {
		_, err := c.fleet(t, token).GetServerInfo(t.Context(), &fleetv1.GetServerInfoRequest{})
		return err
	}
	ada := c.verified(t, token)
	if err := info(token); err != nil || !c.check(t, ada, "one").GetAllowed() {
		t.Fatalf("got %v, want ada to be let in", err)
	}
	second, err := c.admin.CreateToken(t.Context(), &fleetv1.CreateTokenRequest{User: "ada", Label: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.admin.DeleteToken(t.Context(), &fleetv1.DeleteTokenRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
	_, err = access(secret)
	wantReason(t, err, "TOKEN_INVALID")
	wantReason(t, info(token), "TOKEN_INVALID")
	if c.check(t, ada, "one").GetAllowed() {
		t.Error("an access token outlives the API token that it was given for")
	}
	if token, err = access(second.GetSecret()); err != nil {
		t.Fatalf("got %v, want the other token to go on", err)
	}
	ada = c.verified(t, token)
	if !c.check(t, ada, "one").GetAllowed() {
		t.Error("the other token's access token is not let in")
	}
	if err := fleetcalls.Delete[*fleetv1.User](t.Context(), c.admin, "ada"); err != nil {
		t.Fatal(err)
	}
	_, err = access(second.GetSecret())
	wantReason(t, err, "TOKEN_INVALID")
	wantReason(t, info(token), "TOKEN_INVALID")
	if c.check(t, ada, "one").GetAllowed() {
		t.Error("an access token outlives its user")
	}
	c.join(t, "ada", "dev")
	if c.check(t, ada, "one").GetAllowed() {
		t.Error("an access token of a deleted user counts for another of the same name")
	}
}

// TestGroupsCountAsTheyAreNow takes the group away that an access token states.
func TestGroupsCountAsTheyAreNow(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.apply(t, clusterDocument("one"))
	secret, _ := c.join(t, "bob", "leat:admins")
	bob := c.access(t, secret)
	if res := c.check(t, bob, "one"); !res.GetAllowed() || !slices.Equal(res.GetGroups(), []string{"leat:admins"}) {
		t.Fatalf("got %v, want an admin of the hub to reach every cluster", res)
	}
	_, err := fleetcalls.Update(t.Context(), c.admin, &fleetv1.User{Metadata: &typev1.Metadata{Name: "bob"}})
	if err != nil {
		t.Fatal(err)
	}
	if c.check(t, bob, "one").GetAllowed() {
		t.Error("a group counts that the user is no longer in")
	}
	_, err = fleetcalls.Create(t.Context(), c.fleet(t, secret), clusterDocument("two").GetCluster())
	wantReason(t, err, "ACCESS_DENIED")
}

// TestWhatEndsByItself has a binding and a token end at a set time.
func TestWhatEndsByItself(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.apply(t, clusterDocument("one"))
	secret, _ := c.join(t, "ada")
	ada := c.access(t, secret)
	c.bind(t, "past", &fleetv1.AccessBindingSpec{
		Users: []string{"ada"}, Clusters: named("one"), Role: viewer, ExpireTime: timestamppb.New(time.Now().Add(-time.Second)),
	})
	if c.check(t, ada, "one").GetAllowed() {
		t.Error("a binding that has ended lets somebody in")
	}
	c.bind(t, "soon", &fleetv1.AccessBindingSpec{
		Users: []string{"ada"}, Clusters: named("one"), Role: viewer, ExpireTime: timestamppb.New(time.Now().Add(20 * time.Second)),
	})
	if res := c.check(t, ada, "one"); !res.GetAllowed() || res.GetMaxAge().AsDuration() > 20*time.Second {
		t.Errorf("got %v, want an answer that is not kept beyond the binding's end", res)
	}
	got, err := fleetcalls.Get[*fleetv1.AccessBinding](t.Context(), c.admin, "past")
	if err != nil || !got.GetStatus().GetExpired() || got.GetStatus().GetClusters() != 1 {
		t.Errorf("got %v, %v, want an expired binding of one cluster", got, err)
	}
	ends := time.Now().Add(10 * time.Minute)
	short, err := c.admin.CreateToken(t.Context(), &fleetv1.CreateTokenRequest{User: "ada", Label: "short", ExpireTime: timestamppb.New(ends)})
	if err != nil {
		t.Fatal(err)
	}
	if id := c.access(t, short.GetSecret()); id.Expires.After(ends) {
		t.Errorf("got an access token until %s, want it to end with its API token at %s", id.Expires, ends)
	}
	_, err = c.admin.CreateToken(t.Context(), &fleetv1.CreateTokenRequest{User: "ada", Label: "late", ExpireTime: timestamppb.New(time.Now().Add(-time.Minute))})
	wantReason(t, err, "FIELD_INVALID")
}

// TestPeopleSeeWhatConcernsThemselves lists as a person who is in one of two bindings.
func TestPeopleSeeWhatConcernsThemselves(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.apply(t, clusterDocument("one"), clusterDocument("two"))
	secret, id := c.join(t, "ada", "dev")
	c.join(t, "bob")
	c.bind(t, "mine", &fleetv1.AccessBindingSpec{Users: []string{"ada", "bob"}, Groups: []string{"dev", "ops"}, Clusters: named("one"), Role: viewer})
	c.bind(t, "other", &fleetv1.AccessBindingSpec{Users: []string{"bob"}, Clusters: named("two"), Role: viewer})
	ada := c.fleet(t, secret)
	clusters, err1 := fleetcalls.List[*fleetv1.Cluster](t.Context(), ada, &fleetv1.ListRequest{})
	bindings, err2 := fleetcalls.List[*fleetv1.AccessBinding](t.Context(), ada, &fleetv1.ListRequest{})
	users, err3 := fleetcalls.List[*fleetv1.User](t.Context(), ada, &fleetv1.ListRequest{})
	tokens, err4 := ada.ListTokens(t.Context(), &fleetv1.ListTokensRequest{})
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := clusters.Objects; len(got) != 1 || got[0].GetMetadata().GetName() != "one" {
		t.Errorf("got clusters %v, want one", got)
	}
	if got := bindings.Objects; len(got) != 1 || !slices.Equal(got[0].GetSpec().GetUsers(), []string{"ada"}) || !slices.Equal(got[0].GetSpec().GetGroups(), []string{"dev"}) {
		t.Errorf("got bindings %v, want ada's, without the other subjects", got)
	}
	if got := users.Objects; len(got) != 1 || got[0].GetMetadata().GetName() != "ada" {
		t.Errorf("got users %v, want ada", got)
	}
	if got := tokens.GetTokens(); len(got) != 1 || got[0].GetId() != id || got[0].GetLastUsedTime() == nil || strings.Contains(got[0].String(), secret) {
		t.Errorf("got tokens %v, want ada's, in use", got)
	}
	if _, err := fleetcalls.Get[*fleetv1.Cluster](t.Context(), ada, "one"); err != nil {
		t.Error(err)
	}
	_, known := fleetcalls.Get[*fleetv1.Cluster](t.Context(), ada, "two")
	_, unknown := fleetcalls.Get[*fleetv1.Cluster](t.Context(), ada, "six")
	if connect.CodeOf(known) != connect.CodeNotFound || strings.ReplaceAll(known.Error(), `"two"`, `"six"`) != unknown.Error() {
		t.Errorf("got %v and %v, want the same refusal", known, unknown)
	}
	_, err := ada.ListTokens(t.Context(), &fleetv1.ListTokensRequest{User: "bob"})
	wantReason(t, err, "ACCESS_DENIED")
}

// TestNobodyGrantsByAccident sends bindings that could mean more than their author thought.
func TestNobodyGrantsByAccident(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.apply(t, clusterDocument("one"))
	for name, spec := range map[string]*fleetv1.AccessBindingSpec{
		"nobody":                {Clusters: named("one"), Role: viewer},
		"no cluster":            {Users: []string{"ada"}, Role: viewer},
		"an empty selector":     {Users: []string{"ada"}, Role: viewer, Clusters: &fleetv1.ClusterSelection{Labels: &fleetv1.LabelSelector{}}},
		"all and some":          {Users: []string{"ada"}, Role: viewer, Clusters: &fleetv1.ClusterSelection{All: true, Names: []string{"one"}}},
		"no role":               {Users: []string{"ada"}, Clusters: named("one")},
		"a role of later":       {Users: []string{"ada"}, Clusters: named("one"), Role: 99},
		"a group of Kubernetes": {Groups: []string{"system:masters"}, Clusters: named("one"), Role: viewer},
		"a user of Kubernetes":  {Users: []string{"system:admin"}, Clusters: named("one"), Role: viewer},
		"a cluster group":       {Users: []string{"ada"}, Clusters: named("one"), ClusterGroups: []string{"system:masters"}},
		"a bad rule":            {Users: []string{"ada"}, Clusters: named("one"), Role: viewer, Rules: []*typev1.AccessRule{{Verbs: []string{"GET"}}}},
		"a bad operator": {Users: []string{"ada"}, Role: viewer, Clusters: &fleetv1.ClusterSelection{Labels: &fleetv1.LabelSelector{
			MatchExpressions: []*fleetv1.LabelRequirement{{Key: "env"}},
		}}},
	} {
		_, err := fleetcalls.Create(t.Context(), c.admin, &fleetv1.AccessBinding{
			Metadata: &typev1.Metadata{Name: "b"}, Spec: spec,
		})
		if rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_FIELD_INVALID {
			t.Errorf("%s: got %v, want FIELD_INVALID", name, err)
		}
	}
	for _, group := range []string{"system:masters", "leat:viewers", "leat:group:x", "with space"} {
		_, err := fleetcalls.Create(t.Context(), c.admin, &fleetv1.User{
			Metadata: &typev1.Metadata{Name: "eve"}, Spec: &fleetv1.UserSpec{Groups: []string{group}},
		})
		if rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_FIELD_INVALID {
			t.Errorf("group %s: got %v, want FIELD_INVALID", group, err)
		}
	}
}

// TestNobodyLocksThemselvesOut has administrators take their own rights away by accident, and each
// other's on purpose.
func TestNobodyLocksThemselvesOut(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	const admins = "leat:admins"
	secret, _ := c.join(t, "root", admins)
	root := c.fleet(t, secret)
	user := func(name string, groups ...string) *fleetv1.User {
		return &fleetv1.User{Metadata: &typev1.Metadata{Name: name}, Spec: &fleetv1.UserSpec{Groups: groups}}
	}
	apply := func(client fleetv1connect.FleetServiceClient, u *fleetv1.User) error {
		_, err := client.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{fleetdoc.Of(u)}})
		return err
	}
	if err := apply(root, user("root", "others")); rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_FIELD_INVALID || !strings.Contains(err.Error(), "spec.groups") {
		t.Errorf("without the group: got %v, want FIELD_INVALID about spec.groups", err)
	}
	if err := fleetcalls.Delete[*fleetv1.User](t.Context(), root, "root"); rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_FIELD_INVALID {
		t.Errorf("deleting oneself: got %v, want FIELD_INVALID", err)
	}
	if err := apply(root, user("root", "others", admins)); err != nil {
		t.Errorf("another group: %v", err)
	}
	if err := apply(c.admin, user("root", "others")); err != nil {
		t.Errorf("by another administrator: %v", err)
	}
	if err := apply(root, user("root", "others", admins)); rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_ACCESS_DENIED {
		t.Errorf("back by oneself: got %v, want ACCESS_DENIED", err)
	}
}

// TestReviewAccess asks who may do what, and why.
func TestReviewAccess(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.apply(t, clusterDocument("one"))
	secret, _ := c.join(t, "ada", "dev")
	c.bind(t, "look", &fleetv1.AccessBindingSpec{Groups: []string{"dev"}, Clusters: named("one"), Role: viewer, Rules: []*typev1.AccessRule{
		{Verbs: []string{"get", "list"}, Resources: []string{"pods"}},
	}})
	c.bind(t, "shop", &fleetv1.AccessBindingSpec{Users: []string{"ada"}, Clusters: named("one"), Role: operator, Rules: []*typev1.AccessRule{
		{Namespaces: []string{"shop"}},
	}})
	ada := c.fleet(t, secret)
	for _, test := range []struct {
		attributes *fleetv1.AccessAttributes
		allowed    bool
		groups     []string
		reason     string
	}{
		{&fleetv1.AccessAttributes{Verb: "list", Resource: "pods"}, true, []string{"leat:viewers"}, "binding look"},
		{&fleetv1.AccessAttributes{Verb: "list", Resource: "pods", Namespace: "shop"}, true, []string{"leat:operators", "leat:viewers"}, "binding look, binding shop"},
		{&fleetv1.AccessAttributes{Verb: "create", Resource: "pods/exec", Namespace: "shop"}, true, []string{"leat:operators"}, "binding shop"},
		{&fleetv1.AccessAttributes{Verb: "delete", Resource: "pods", Namespace: "default"}, false, nil, "no rule of binding look, binding shop chooses delete pods in namespace default"},
		{&fleetv1.AccessAttributes{Verb: "get", NonResourcePath: "/api"}, true, nil, "everybody who reaches"},
		{&fleetv1.AccessAttributes{Verb: "get", NonResourcePath: "/metrics"}, false, nil, "no rule"},
	} {
		res, err := ada.ReviewAccess(t.Context(), &fleetv1.ReviewAccessRequest{Cluster: "one", Attributes: test.attributes})
		if err != nil || res.GetAllowed() != test.allowed || !slices.Equal(res.GetGroups(), test.groups) || !strings.Contains(res.GetReason(), test.reason) {
			t.Errorf("%v: got %v, %v, want allowed %v in %v because of %q", test.attributes, res, err, test.allowed, test.groups, test.reason)
		}
	}
	res, err := c.admin.ReviewAccess(t.Context(), &fleetv1.ReviewAccessRequest{Cluster: "one", User: "ada"})
	if err != nil || !res.GetAllowed() || len(res.GetReasons()) != 2 || res.GetReasons()[0].GetSubjects()[0] != "group:dev" {
		t.Errorf("got %v, %v, want ada's two bindings", res, err)
	}
	all, err := c.admin.ReviewAccess(t.Context(), &fleetv1.ReviewAccessRequest{Cluster: "one", Everybody: true})
	if err != nil || len(all.GetReasons()) != 3 || all.GetReasons()[0].GetBinding() != "" {
		t.Errorf("got %v, %v, want the admins and two bindings", all, err)
	}
	_, err = ada.ReviewAccess(t.Context(), &fleetv1.ReviewAccessRequest{Cluster: "one", User: "admin"})
	wantReason(t, err, "ACCESS_DENIED")
	_, err = c.admin.ReviewAccess(t.Context(), &fleetv1.ReviewAccessRequest{Cluster: "six"})
	wantReason(t, err, "NOT_FOUND")
	_, err = ada.ReviewAccess(t.Context(), &fleetv1.ReviewAccessRequest{Cluster: "one", Attributes: &fleetv1.AccessAttributes{Verb: "get"}})
	wantReason(t, err, "FIELD_INVALID")
}

// TestPagesOfListedOriginsMayCallTheFleet asks as browsers do.
func TestPagesOfListedOriginsMayCallTheFleet(t *testing.T) {
	t.Parallel()
	h := startHub(t, func(c *distributor.Config) { c.AllowedOrigins = []string{"https://ui.example"} })
	for origin, want := range map[string][2]int{"https://ui.example": {http.StatusNoContent, http.StatusOK}, "https://evil.example": {http.StatusForbidden, http.StatusForbidden}} {
		for i, method := range []string{http.MethodOptions, http.MethodPost} {
			req := newRequest(t, method, h.url+"/leat.fleet.v1.FleetService/GetServerInfo", adminToken, []byte("{}"))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Origin", origin)
			req.Header.Set("Sec-Fetch-Site", "cross-site")
			if method == http.MethodOptions {
				req.Header.Del("Authorization")
				req.Header.Set("Access-Control-Request-Method", "POST")
			}
			res, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if got := res.Header.Get("Access-Control-Allow-Origin"); res.StatusCode != want[i] || (got == origin) != (want[i] < 300) {
				t.Errorf("%s from %s: got %d and %q, want %d", method, origin, res.StatusCode, got, want[i])
			}
		}
	}
}

// TestBindingsOfWhatIsMissing applies bindings that name projects and clusters. A warning names the
// ones that do not exist, and are not applied together with the binding.
func TestBindingsOfWhatIsMissing(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	document := func(project, cluster string) *fleetv1.Document {
		return fleetdoc.Of(&fleetv1.AccessBinding{Metadata: &typev1.Metadata{Name: "ada"}, Spec: &fleetv1.AccessBindingSpec{
			Users: []string{"ada"}, Role: viewer, Projects: &fleetv1.ProjectSelection{Names: []string{project}}, Clusters: named(cluster),
		}})
	}
	warnings := func(isDry bool, documents ...*fleetv1.Document) []string {
		t.Helper()
		res, err := c.admin.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: documents, DryRun: isDry})
		if err != nil {
			t.Fatal(err)
		}
		return res.GetOutcomes()[0].GetWarnings()
	}
	both := []*fleetv1.Document{document("shop", "one"), projectDocument("shop", nil), clusterDocument("one")}
	for _, isDry := range []bool{true, false} {
		if got := warnings(isDry, document("shop", "one")); len(got) != 2 || !strings.HasPrefix(got[0], `project "shop" does not exist`) ||
			!strings.HasPrefix(got[1], `cluster "one" does not exist`) {
			t.Errorf("dry %v: got %q, want what is missing", isDry, got)
		}
	}
	if got := warnings(true, both...); len(got) > 0 {
		t.Errorf("got %q for what is applied together", got)
	}
	if got := warnings(false, both...); len(got) > 0 {
		t.Errorf("got %q for what was applied together", got)
	}
	if got := warnings(false, document("default", "one")); len(got) > 0 {
		t.Errorf("got %q for the project that always exists", got)
	}
}
