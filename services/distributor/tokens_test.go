// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
)

const admins = typev1.AccessRole_ACCESS_ROLE_ADMIN

// newMarket is a crowd with the project shop and its cluster, and a cluster and a service elsewhere.
func newMarket(t *testing.T) *crowd {
	t.Helper()
	c := newCrowd(t)
	c.apply(t, projectDocument("shop", nil), clusterDocument("one"), repositoryDocument("demo"), serviceDocument("app", "one", "demo", "app"),
		inProject("shop", clusterDocument("till")), inProject("shop", repositoryDocument("stock")),
		inProject("shop", serviceDocument("sales", "till", "stock", "x")), roleDocument("syncer", []string{"get", "sync"}, []string{"services"}))
	return c
}

// inProject puts a document into a project.
func inProject(project string, document *fleetv1.Document) *fleetv1.Document {
	for _, metadata := range []*typev1.Metadata{document.GetCluster().GetMetadata(), document.GetRepository().GetMetadata(), document.GetService().GetMetadata()} {
		if metadata != nil {
			metadata.Project = project
		}
	}
	return document
}

func shop(role typev1.AccessRole) *fleetv1.TokenLimit {
	return &fleetv1.TokenLimit{Role: role, Projects: &fleetv1.ProjectSelection{Names: []string{"shop"}}}
}

// narrow makes a token with a limit, as the owner of another token.
func (c *crowd) narrow(t *testing.T, maker, user string, limit *fleetv1.TokenLimit) (secret, id string) {
	t.Helper()
	made, err := c.fleet(t, maker).CreateToken(t.Context(), &fleetv1.CreateTokenRequest{User: user, Label: "narrow", Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	return made.GetSecret(), made.GetToken().GetId()
}

// TestSecNarrowTokensStayNarrow has a token that is limited to a project try every way to more than that,
// with the rights of an administrator behind it, and with its access token.
func TestSecNarrowTokensStayNarrow(t *testing.T) {
	t.Parallel()
	c := newMarket(t)
	boss, _ := c.join(t, "boss", "leat:admins")
	ada, _ := c.join(t, "ada")
	_ = ada
	secret, own := c.narrow(t, boss, "boss", shop(admins))
	access, err := c.fleet(t, secret).CreateAccessToken(t.Context(), &fleetv1.CreateAccessTokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{"token": secret, "access token": access.GetAccessToken()} {
		client := c.fleet(t, token)
		for what, try := range map[string]func(context.Context) error{
			"a full token":             c.making(client, &fleetv1.CreateTokenRequest{User: "boss"}),
			"a token for all projects": c.making(client, &fleetv1.CreateTokenRequest{User: "boss", Limit: &fleetv1.TokenLimit{Role: viewer, Projects: &fleetv1.ProjectSelection{All: true}}}),
			"a token for a cluster":    c.making(client, &fleetv1.CreateTokenRequest{User: "boss", Limit: &fleetv1.TokenLimit{Role: viewer, Clusters: named("one")}}),
			"a token for the hub":      c.making(client, &fleetv1.CreateTokenRequest{User: "boss", Limit: &fleetv1.TokenLimit{Hub: true}}),
			"a token of somebody else": c.making(client, &fleetv1.CreateTokenRequest{User: "ada", Limit: shop(viewer)}),
			"a binding for ever":       applying(client, bindingOf("x", &fleetv1.AccessBindingSpec{Users: []string{"ada"}, Role: viewer, Projects: shop(viewer).GetProjects()})),
			"a binding elsewhere": applying(client, bindingOf("x", &fleetv1.AccessBindingSpec{
				Users: []string{"ada"}, Role: viewer, Clusters: named("one"), ExpireTime: timestamppb.New(time.Now().Add(time.Minute)),
			})),
			"a role":              applying(client, roleDocument("mine", []string{"get"}, []string{"services"})),
			"an administrator":    applying(client, &fleetv1.Document{Object: &fleetv1.Document_User{User: &fleetv1.User{Metadata: &typev1.Metadata{Name: "ada"}, Spec: &fleetv1.UserSpec{Groups: []string{"leat:admins"}}}}}),
			"who signs in":        applying(client, providerDocument("corp", "https://login.example")),
			"jobs that sign in":   applying(client, trustRuleDocument("ci", requiring("https://ci.example", "repository", "acme/shop"))),
			"a limit of projects": applying(client, projectDocument("shop", &fleetv1.ProjectSpec{Shares: []*fleetv1.ProjectShare{{Projects: &fleetv1.Selection{All: true}, Clusters: &fleetv1.Selection{All: true}}}})),
			"another person's rights": func(ctx context.Context) error {
				_, err := client.ReviewAccess(ctx, &fleetv1.ReviewAccessRequest{User: "ada"})
				return err
			},
			"tokens of others": func(ctx context.Context) error {
				_, err := client.ListTokens(ctx, &fleetv1.ListTokensRequest{User: "ada"})
				return err
			},
			"the keys": func(ctx context.Context) error {
				_, err := client.ListAuditRecords(ctx, &fleetv1.ListAuditRecordsRequest{})
				return err
			},
		} {
			if err := try(t.Context()); connect.CodeOf(err) != connect.CodePermissionDenied {
				t.Errorf("%s by the %s: got %v, want it to be refused", what, name, err)
			}
		}
		for what, try := range map[string]func(context.Context) error{
			"a service elsewhere": func(ctx context.Context) error {
				_, err := fleetcalls.Get[*fleetv1.Service](ctx, client, "app")
				return err
			},
			"a cluster elsewhere": func(ctx context.Context) error {
				err := fleetcalls.Delete[*fleetv1.Cluster](ctx, client, "one")
				return err
			},
			"a sync elsewhere": func(ctx context.Context) error {
				_, err := client.SyncService(ctx, &fleetv1.SyncServiceRequest{Name: "app"})
				return err
			},
			"a join token": func(ctx context.Context) error {
				_, err := client.CreateJoinToken(ctx, &fleetv1.CreateJoinTokenRequest{Cluster: "one"})
				return err
			},
			"its owner as a user": func(ctx context.Context) error {
				_, err := fleetcalls.Get[*fleetv1.User](ctx, client, "boss")
				return err
			},
		} {
			if err := try(t.Context()); connect.CodeOf(err) != connect.CodeNotFound {
				t.Errorf("%s by the %s: got %v, want it not to exist", what, name, err)
			}
		}
		found, err := fleetcalls.List[*fleetv1.Service](t.Context(), client, &fleetv1.ListRequest{})
		if err != nil || len(found.Objects) != 1 || found.Objects[0].GetMetadata().GetName() != "sales" {
			t.Errorf("the %s lists %v, %v, want the service of the project", name, found, err)
		}
		review, err := client.ReviewAccess(t.Context(), &fleetv1.ReviewAccessRequest{})
		if err != nil || review.GetAllowed() || !strings.Contains(review.GetReason(), "no more than admin in project shop") {
			t.Errorf("the %s reviews %v, %v, want nothing in the hub, and why", name, review, err)
		}
		shown, err := client.ListTokens(t.Context(), &fleetv1.ListTokensRequest{})
		if err != nil || len(shown.GetTokens()) == 0 {
			t.Errorf("the %s lists %v, %v, want the tokens of its owner, which the limit's role leaves", name, shown, err)
		}
		id := c.verified(t, access.GetAccessToken())
		c.wantReach(t, id.Credential, "shop.till", "leat:admins")
		c.wantReach(t, id.Credential, "one")
	}
	// It gives less than itself, and that ends with it.
	child, childID := c.narrow(t, secret, "boss", shop(viewer))
	if _, err := c.fleet(t, child).CreateToken(t.Context(), &fleetv1.CreateTokenRequest{User: "boss", Label: "x", Limit: shop(viewer)}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("got %v, want a token of a role that makes no tokens to make none", err)
	}
	tokens, err := c.admin.ListTokens(t.Context(), &fleetv1.ListTokensRequest{User: "boss"})
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range tokens.GetTokens() {
		if token.GetId() == childID && (token.GetMadeWith() != own || token.GetCreatedBy() != "user:boss") {
			t.Errorf("got %v, want to see which token made it", token)
		}
	}
	c.wantReach(t, "api."+childID, "shop.till", "leat:viewers")
	if _, err := c.fleet(t, boss).DeleteToken(t.Context(), &fleetv1.DeleteTokenRequest{Id: own}); err != nil {
		t.Fatal(err)
	}
	if _, err := fleetcalls.List[*fleetv1.Service](t.Context(), c.fleet(t, child), &fleetv1.ListRequest{}); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("got %v, want a token to end with the one that it was made with", err)
	}
}

// making returns a function that makes a token.
func (*crowd) making(client fleetv1connect.FleetServiceClient, request *fleetv1.CreateTokenRequest) func(context.Context) error {
	request.Label = "x"
	return func(ctx context.Context) error {
		_, err := client.CreateToken(ctx, request)
		return err
	}
}

// applying returns a function that applies a document.
func applying(client fleetv1connect.FleetServiceClient, document *fleetv1.Document) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := client.Apply(ctx, &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{document}})
		return err
	}
}

// wantReach asks as the tunnel does what the user boss may do in a cluster with a credential. Without
// groups, they do not reach it.
func (c *crowd) wantReach(t *testing.T, credential, cluster string, groups ...string) {
	t.Helper()
	boss, err := fleetcalls.Get[*fleetv1.User](t.Context(), c.admin, "boss")
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.hub.access(t, serviceToken(t)).CheckAccess(t.Context(), &distributorv1.CheckAccessRequest{
		Subject: "user:boss", SubjectUid: boss.GetMetadata().GetUid(), Credential: credential, Cluster: cluster,
		Groups: []string{"leat:admins"}, // the hub knows better
	})
	if err != nil || res.GetAllowed() != (len(groups) > 0) || !slices.Equal(res.GetGroups(), groups) {
		t.Errorf("%s with %s: got %v, %v, want the groups %v", cluster, credential, res, err, groups)
	}
	for _, p := range res.GetPermissions() {
		if len(groups) == 0 || groups[0] == "leat:viewers" && p.GetResource() == "services/diff" {
			t.Errorf("%s with %s: got the permission %v of a call to the agent", cluster, credential, p)
		}
	}
}

// TestSecNarrowTokensLoseWhatTheirOwnersLose takes rights from the owner of a token, and the role of the limit,
// while a watch with it is open.
func TestSecNarrowTokensLoseWhatTheirOwnersLose(t *testing.T) {
	t.Parallel()
	c := newMarket(t)
	ada, _ := c.join(t, "ada")
	c.bind(t, "ada", &fleetv1.AccessBindingSpec{Users: []string{"ada"}, Role: viewer, Hub: true})
	secret, id := c.narrow(t, ada, "ada", shop(admins))
	if _, err := c.fleet(t, secret).SyncService(t.Context(), &fleetv1.SyncServiceRequest{Name: "shop/sales"}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("got %v, want a limit to give nothing that its owner lacks", err)
	}
	byRole, _ := c.narrow(t, ada, "ada", &fleetv1.TokenLimit{RoleName: "syncer"})
	stream, err := c.fleet(t, secret).Watch(t.Context(), &fleetv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	seen := map[string]bool{}
	for stream.Receive() && !stream.Msg().GetSynced() {
		if service := stream.Msg().GetDocument().GetService(); service != nil {
			seen[service.GetMetadata().GetName()] = true
		}
		if cluster := stream.Msg().GetDocument().GetCluster(); cluster != nil && cluster.GetMetadata().GetName() == "one" {
			t.Error("the watch shows a cluster outside of the limit")
		}
	}
	if !seen["sales"] || len(seen) != 1 {
		t.Errorf("the watch shows the services %v, want that of the project", seen)
	}
	if _, err := fleetcalls.Get[*fleetv1.Service](t.Context(), c.fleet(t, byRole), "app"); err != nil {
		t.Error(err)
	}
	if err := fleetcalls.Delete[*fleetv1.Role](t.Context(), c.admin, "syncer"); err != nil {
		t.Fatal(err)
	}
	if _, err := fleetcalls.Get[*fleetv1.Service](t.Context(), c.fleet(t, byRole), "app"); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("got %v, want a limit whose role is gone to leave nothing", err)
	}
	if err := fleetcalls.Delete[*fleetv1.AccessBinding](t.Context(), c.admin, "ada"); err != nil {
		t.Fatal(err)
	}
	if _, err := fleetcalls.Get[*fleetv1.Service](t.Context(), c.fleet(t, secret), "shop/sales"); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("got %v, want the token to lose what its owner lost", err)
	}
	for isGone := false; !isGone; {
		if !stream.Receive() {
			t.Fatalf("the watch ended before it deleted what its owner lost: %v", stream.Err())
		}
		isGone = stream.Msg().GetDeleted() && stream.Msg().GetDocument().GetService().GetMetadata().GetName() == "sales"
	}
	if _, err := c.admin.DeleteToken(t.Context(), &fleetv1.DeleteTokenRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
	for stream.Receive() {
	}
	if connect.CodeOf(stream.Err()) != connect.CodeUnauthenticated {
		t.Errorf("got %v, want the watch to end with its token", stream.Err())
	}
}

// TestTokensOfOnesOwn has users without any role make, list and end their tokens.
func TestTokensOfOnesOwn(t *testing.T) {
	t.Parallel()
	c := newMarket(t)
	ada, adaID := c.join(t, "ada")
	_, bobID := c.join(t, "bob")
	client := c.fleet(t, ada)
	listed, err := client.ListTokens(t.Context(), &fleetv1.ListTokensRequest{})
	if err != nil || len(listed.GetTokens()) != 1 || listed.GetTokens()[0].GetLastUsedTime() == nil || listed.GetTokens()[0].GetLastUsedAddress() == "" {
		t.Fatalf("got %v, %v, want the token, and that it is in use", listed, err)
	}
	ends := listed.GetTokens()[0].GetExpireTime().AsTime()
	if until := time.Until(ends); until < 89*24*time.Hour || until > 91*24*time.Hour {
		t.Errorf("ends in %s, want 90 days where nobody says", until)
	}
	made, err := client.CreateToken(t.Context(), &fleetv1.CreateTokenRequest{User: "ada", Label: "more"})
	if err != nil || made.GetToken().GetExpireTime().AsTime().After(ends) {
		t.Errorf("got %v, %v, want a token that ends no later than the one that made it", made, err)
	}
	for name, request := range map[string]*fleetv1.CreateTokenRequest{
		"PERMISSION_DENIED somebody else's": {User: "bob", Label: "x"},
		"INVALID_ARGUMENT a longer life":    {User: "ada", Label: "x", ExpireTime: timestamppb.New(ends.Add(time.Second))},
		"INVALID_ARGUMENT a scope twice":    {User: "ada", Label: "x", Limit: &fleetv1.TokenLimit{Hub: true, Clusters: named("one")}},
		"FAILED_PRECONDITION no such role":  {User: "ada", Label: "x", Limit: &fleetv1.TokenLimit{RoleName: "king"}},
	} {
		_, err := client.CreateToken(t.Context(), request)
		if code, _, _ := strings.Cut(name, " "); err == nil || !strings.EqualFold(connect.CodeOf(err).String(), code) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	_, err = c.admin.CreateToken(t.Context(), &fleetv1.CreateTokenRequest{User: "ada", Label: "x", ExpireTime: timestamppb.New(time.Now().Add(367 * 24 * time.Hour))})
	if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "366 days") {
		t.Errorf("got %v, want the longest life", err)
	}
	if _, err := client.DeleteToken(t.Context(), &fleetv1.DeleteTokenRequest{Id: bobID}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("got %v, want the token of another one to stay", err)
	}
	narrow, _ := c.narrow(t, ada, "ada", shop(viewer))
	if _, err := c.fleet(t, narrow).DeleteToken(t.Context(), &fleetv1.DeleteTokenRequest{Id: adaID}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("got %v, want a narrow token to end no wider one", err)
	}
	own, err := c.fleet(t, narrow).ListTokens(t.Context(), &fleetv1.ListTokensRequest{})
	if err != nil || len(own.GetTokens()) != 1 || own.GetTokens()[0].GetLabel() != "narrow" {
		t.Errorf("got %v, %v, want a narrow token to see itself alone", own, err)
	}
	if _, err := client.DeleteToken(t.Context(), &fleetv1.DeleteTokenRequest{Id: adaID}); err != nil {
		t.Error(err)
	}
	// The record of what a narrow token did names its limit.
	_, _ = c.fleet(t, narrow).SyncService(t.Context(), &fleetv1.SyncServiceRequest{Name: "app"})
	records, err := c.admin.ListAuditRecords(t.Context(), &fleetv1.ListAuditRecordsRequest{Subject: "user:ada", Rpc: "DeleteToken"})
	if err != nil || !slices.ContainsFunc(records.GetRecords(), func(r *fleetv1.AuditRecord) bool { return r.GetTokenLimit() == "viewer in project shop" }) {
		t.Errorf("got %v, %v, want records of the refused call with the limit", records, err)
	}
}

// TestSecTokensOfOneUserAreBounded makes tokens as a user until there is no room for more.
func TestSecTokensOfOneUserAreBounded(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	ada, _ := c.join(t, "ada")
	made := 1
	for ; made <= 200; made++ {
		_, err := c.fleet(t, ada).CreateToken(t.Context(), &fleetv1.CreateTokenRequest{User: "ada", Label: "x"})
		if connect.CodeOf(err) == connect.CodeInvalidArgument && strings.Contains(err.Error(), "API tokens already") {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if made != 100 {
		t.Errorf("a user has %d tokens, want 100 at most", made)
	}
}
