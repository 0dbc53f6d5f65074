// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
)

func (h *hub) accessRequests(t *testing.T, token string) fleetv1connect.AccessRequestServiceClient {
	t.Helper()
	c := h.client(t, token)
	return fleetv1connect.NewAccessRequestServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

// operatorOf asks for the role operator in clusters, for an hour.
func operatorOf(clusters ...string) *fleetv1.AccessRequestSpec {
	return &fleetv1.AccessRequestSpec{Role: operator, Clusters: named(clusters...), Duration: durationpb.New(time.Hour), Reason: "INC-42: web is down"}
}

func (h *hub) ask(t *testing.T, token string, spec *fleetv1.AccessRequestSpec) string {
	t.Helper()
	res, err := h.accessRequests(t, token).CreateAccessRequest(t.Context(), &fleetv1.CreateAccessRequestRequest{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetAccessRequest().GetMetadata().GetName()
}

// decide approves a request, or denies it with a word.
func (h *hub) decide(t *testing.T, token, name, word string) (*fleetv1.AccessRequest, error) {
	t.Helper()
	if word == "" {
		res, err := h.accessRequests(t, token).ApproveAccessRequest(t.Context(), &fleetv1.ApproveAccessRequestRequest{Name: name})
		return res.GetAccessRequest(), err
	}
	res, err := h.accessRequests(t, token).DenyAccessRequest(t.Context(), &fleetv1.DenyAccessRequestRequest{Name: name, Word: word})
	return res.GetAccessRequest(), err
}

// requestsSeen returns the names of the requests that a caller lists.
func (h *hub) requestsSeen(t *testing.T, token string) []string {
	t.Helper()
	res, err := fleetcalls.List[*fleetv1.AccessRequest](t.Context(), h.fleet(t, token), &fleetv1.ListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, request := range res.Objects {
		names = append(names, request.GetMetadata().GetName())
	}
	return names
}

// questioned is a crowd in which ada and bob have no rights, one and two are administrators of the
// cluster of their name, and root is a member of leat:admins.
type questioned struct {
	*crowd
	ada, bob, one, two, root string
}

func newQuestioned(t *testing.T, h *hub) *questioned {
	t.Helper()
	q := &questioned{crowd: &crowd{hub: h, admin: h.fleet(t, adminToken)}}
	q.apply(t, clusterDocument("one"), clusterDocument("two"))
	q.ada, _ = q.join(t, "ada")
	q.bob, _ = q.join(t, "bob")
	q.one, _ = q.join(t, "one")
	q.two, _ = q.join(t, "two")
	q.root, _ = q.join(t, "root", "leat:admins")
	for _, name := range []string{"one", "two"} {
		q.bind(t, name, &fleetv1.AccessBindingSpec{Users: []string{name}, Role: typev1.AccessRole_ACCESS_ROLE_ADMIN, Clusters: named(name)})
	}
	return q
}

// TestAccessRequests asks for access at one replica and approves it at another: the person reaches
// the cluster then, by an ordinary binding, and everything is on record.
func TestAccessRequests(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, h, other *hub) {
		q := newQuestioned(t, h)
		name := q.ask(t, q.ada, operatorOf("one"))
		await.True(t, "the other replica to see the request", func() bool { return slices.Contains(other.requestsSeen(t, q.ada), name) })
		for who, c := range map[string]struct {
			token string
			sees  bool
		}{"its author": {q.ada, true}, "another person": {q.bob, false}, "who can give it": {q.one, true}, "who cannot": {q.two, false}, "an administrator": {q.root, true}} {
			if got := slices.Contains(other.requestsSeen(t, c.token), name); got != c.sees {
				t.Errorf("%s sees it: %t, want %t", who, got, c.sees)
			}
			_, err := fleetcalls.Get[*fleetv1.AccessRequest](t.Context(), other.fleet(t, c.token), name)
			if c.sees && err != nil {
				t.Errorf("%s: %v", who, err)
			} else if !c.sees {
				wantReason(t, err, "NOT_FOUND")
			}
		}
		q.wantGroups(t, q.ada, "one")
		approved, err := other.decide(t, q.one, name, "")
		if err != nil {
			t.Fatal(err)
		}
		status := approved.GetStatus()
		if status.GetState() != fleetv1.AccessRequestState_ACCESS_REQUEST_STATE_APPROVED || status.GetDecidedBy() != "user:one" || status.GetBinding() != name {
			t.Errorf("got %v, want an approval by one", status)
		}
		q.wantGroups(t, q.ada, "one", "leat:operators")
		binding, err := fleetcalls.Get[*fleetv1.AccessBinding](t.Context(), h.fleet(t, q.root), name)
		if err != nil {
			t.Fatal(err)
		}
		if got := binding.GetSpec().GetExpireTime(); got.AsTime() != status.GetAccessExpireTime().AsTime() || binding.GetMetadata().GetAnnotations()["leat.dev/access-request"] != name {
			t.Errorf("got %v, want a binding that ends at %v and names the request", binding, status.GetAccessExpireTime())
		}
		// Its deletion ends the access, and the request stays as it ended.
		if err := fleetcalls.Delete[*fleetv1.AccessBinding](t.Context(), other.fleet(t, q.one), name); err != nil {
			t.Fatal(err)
		}
		q.wantGroups(t, q.ada, "one")
		denied := q.ask(t, q.ada, operatorOf("one"))
		if _, err := other.decide(t, q.one, denied, "the incident is over"); err != nil {
			t.Fatal(err)
		}
		await.True(t, "the author to see who denied it, and why", func() bool {
			shown, err := fleetcalls.Get[*fleetv1.AccessRequest](t.Context(), h.fleet(t, q.ada), denied)
			return err == nil && shown.GetStatus().GetWord() == "the incident is over" && shown.GetStatus().GetDecidedBy() == "user:one"
		})
		withdrawn := q.ask(t, q.ada, operatorOf("one"))
		_, err = other.accessRequests(t, q.one).WithdrawAccessRequest(t.Context(), &fleetv1.WithdrawAccessRequestRequest{Name: withdrawn})
		wantReason(t, err, "ACCESS_DENIED")
		if _, err := other.accessRequests(t, q.ada).WithdrawAccessRequest(t.Context(), &fleetv1.WithdrawAccessRequestRequest{Name: withdrawn}); err != nil {
			t.Fatal(err)
		}
		_, err = h.decide(t, q.one, withdrawn, "")
		wantReason(t, err, "ACCESS_REQUEST_CLOSED")
		if got := rpcerr.Metadata(err)["state"]; got != "withdrawn" {
			t.Errorf("got the state %q, want withdrawn", got)
		}
		var verbs []string
		for _, record := range auditOf(t, h.fleet(t, q.root), &fleetv1.ListAuditRecordsRequest{Kind: "AccessRequest"}) {
			verbs = append(verbs, record.GetVerb()+" by "+record.GetSubject())
		}
		for _, want := range []string{"create by user:ada", "approve by user:one", "deny by user:one", "withdraw by user:ada"} {
			if !slices.Contains(verbs, want) {
				t.Errorf("got records %q, want %q", verbs, want)
			}
		}
	})
}

// TestSecRequestsGiveNothingUnheld has people approve what they could not give, by every way there
// is.
func TestSecRequestsGiveNothingUnheld(t *testing.T) {
	t.Parallel()
	q := newQuestioned(t, startHub(t))
	refused := func(what, token, name, reason string) {
		t.Helper()
		for _, word := range []string{"", "no"} {
			if _, err := q.decide(t, token, name, word); err == nil {
				t.Errorf("%s: it was decided", what)
			} else {
				wantReason(t, err, reason)
			}
		}
	}
	second, err := q.fleet(t, q.one).CreateToken(t.Context(), &fleetv1.CreateTokenRequest{User: "one", Label: "second"})
	if err != nil {
		t.Fatal(err)
	}
	own := q.ask(t, q.one, operatorOf("one"))
	refused("their own request", q.one, own, "ACCESS_REQUEST_OWN")
	refused("their own request by a second token", second.GetSecret(), own, "ACCESS_REQUEST_OWN")
	refused("their own request by an access token", q.accessToken(t, second.GetSecret()), own, "ACCESS_REQUEST_OWN")
	refused("another cluster", q.two, q.ask(t, q.ada, operatorOf("one")), "NOT_FOUND")
	refused("more than their scope", q.one, q.ask(t, q.ada, operatorOf("one", "two")), "NOT_FOUND")
	refused("without any right", q.bob, q.ask(t, q.ada, operatorOf("one")), "NOT_FOUND")
	refused("no such request", q.one, "access-none", "NOT_FOUND")
	// A token with a limit approves no more than it could bind, and nothing that outlives it.
	limited, _ := q.narrow(t, adminToken, "root", &fleetv1.TokenLimit{Role: operator, Clusters: named("one")})
	name := q.ask(t, q.ada, operatorOf("one"))
	refused("by a token that is limited to operator", limited, name, "NOT_FOUND")
	brief, err := q.admin.CreateToken(t.Context(), &fleetv1.CreateTokenRequest{
		User: "root", Label: "brief", ExpireTime: timestamppb.New(time.Now().Add(30 * time.Minute)), Limit: &fleetv1.TokenLimit{Clusters: named("one")},
	})
	if err != nil {
		t.Fatal(err)
	}
	refused("for longer than the limit lasts", brief.GetSecret(), name, "ACCESS_DENIED")
	// A binding that narrows its holder.
	q.bind(t, "bob", &fleetv1.AccessBindingSpec{
		Users: []string{"bob"}, Role: typev1.AccessRole_ACCESS_ROLE_ADMIN, Clusters: named("one"), Rules: []*typev1.AccessRule{{Namespaces: []string{"shop"}}},
	})
	refused("more widely than they hold it", q.bob, name, "NOT_FOUND")
	// Only what they could give, and only once they could.
	if _, err := q.decide(t, q.one, name, ""); err != nil {
		t.Error(err)
	}
	late := q.ask(t, q.ada, operatorOf("one"))
	if err := fleetcalls.Delete[*fleetv1.AccessBinding](t.Context(), q.admin, "one"); err != nil {
		t.Fatal(err)
	}
	refused("after they have lost the right", q.one, late, "NOT_FOUND")
	q.wantGroups(t, q.bob, "two")
}

// accessToken trades an API token for an access token.
func (c *crowd) accessToken(t *testing.T, secret string) string {
	t.Helper()
	res, err := c.fleet(t, secret).CreateAccessToken(t.Context(), &fleetv1.CreateAccessTokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetAccessToken()
}

// wantGroups asks as the tunnel does which groups a person has in a cluster. Without groups, they
// do not reach it.
func (c *crowd) wantGroups(t *testing.T, token, cluster string, groups ...string) {
	t.Helper()
	id := c.access(t, token)
	await.True(t, fmt.Sprintf("the groups %v in %s", groups, cluster), func() bool { // another replica may just have stored a binding
		res := c.check(t, id, cluster)
		return res.GetAllowed() == (len(groups) > 0) && slices.Equal(res.GetGroups(), groups)
	})
}

// TestSecRequestsAreNotWritten has every other call write requests.
func TestSecRequestsAreNotWritten(t *testing.T) {
	t.Parallel()
	q := newQuestioned(t, startHub(t))
	name := q.ask(t, q.ada, operatorOf("one"))
	request, err := fleetcalls.Get[*fleetv1.AccessRequest](t.Context(), q.fleet(t, q.ada), name)
	if err != nil {
		t.Fatal(err)
	}
	request.Spec.Role = typev1.AccessRole_ACCESS_ROLE_ADMIN
	for _, token := range []string{q.ada, q.root} {
		for mode := range fleetv1.ApplyMode_name {
			_, err := q.fleet(t, token).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{fleetdoc.Of(request)}, Mode: fleetv1.ApplyMode(mode)})
			wantReason(t, err, "FIELD_INVALID")
		}
		wantReason(t, fleetcalls.Delete[*fleetv1.AccessRequest](t.Context(), q.fleet(t, token), name), "FIELD_INVALID")
	}
	// The binding's mark is the hub's.
	_, err = q.admin.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{{Object: &fleetv1.Document_AccessBinding{AccessBinding: &fleetv1.AccessBinding{
		Metadata: &typev1.Metadata{Name: "forged", Annotations: map[string]string{"leat.dev/access-request": name}},
		Spec:     &fleetv1.AccessBindingSpec{Users: []string{"ada"}, Role: viewer, Clusters: named("one")},
	}}}}})
	wantReason(t, err, "FIELD_INVALID")
	if approved, err := q.decide(t, q.one, name, ""); err != nil || approved.GetSpec().GetRole() != operator {
		t.Errorf("got %v, %v, want what was asked for", approved, err)
	}
}

// TestSecRequestsTellNothing asks for what exists, for what does not, and for what the person may
// not see: the answers are the same, but for what was asked.
func TestSecRequestsTellNothing(t *testing.T) {
	t.Parallel()
	q := newQuestioned(t, startHub(t))
	var answers []*fleetv1.AccessRequest
	for _, cluster := range []string{"one", "six"} {
		res, err := q.accessRequests(t, q.ada).CreateAccessRequest(t.Context(), &fleetv1.CreateAccessRequestRequest{Spec: operatorOf(cluster)})
		if err != nil {
			t.Fatal(err)
		}
		answer := res.GetAccessRequest()
		answer.Spec.Clusters, answer.Status.LapseTime = nil, nil
		answer.Metadata = &typev1.Metadata{Generation: answer.GetMetadata().GetGeneration()}
		answers = append(answers, answer)
	}
	if !proto.Equal(answers[0], answers[1]) {
		t.Errorf("the answers differ: %v and %v", answers[0], answers[1])
	}
	spec := operatorOf("one")
	spec.Role, spec.RoleName = typev1.AccessRole_ACCESS_ROLE_UNSPECIFIED, "absent"
	name := q.ask(t, q.ada, spec)
	if _, err := q.decide(t, q.root, name, ""); err == nil {
		t.Error("a role that does not exist was given")
	} else {
		wantReason(t, err, "REFERENCE_NOT_FOUND")
	}
}

// TestSecRequestsAreForPeople has callers ask who are more than a person, or less.
func TestSecRequestsAreForPeople(t *testing.T) {
	t.Parallel()
	q := newQuestioned(t, startHub(t))
	limited, _ := q.narrow(t, adminToken, "ada", &fleetv1.TokenLimit{Role: viewer, Clusters: named("one")})
	for what, token := range map[string]string{"a token with a limit": limited, "an access token for it": q.accessToken(t, limited)} {
		if _, err := q.accessRequests(t, token).CreateAccessRequest(t.Context(), &fleetv1.CreateAccessRequestRequest{Spec: operatorOf("one")}); err == nil {
			t.Errorf("%s asks for access", what)
		} else {
			wantReason(t, err, "ACCESS_DENIED")
		}
	}
	forged := operatorOf("one")
	forged.Requester = "bob"
	_, err := q.accessRequests(t, q.ada).CreateAccessRequest(t.Context(), &fleetv1.CreateAccessRequestRequest{Spec: forged})
	wantReason(t, err, "FIELD_INVALID")
	_, err = q.accessRequests(t, q.ada).DenyAccessRequest(t.Context(), &fleetv1.DenyAccessRequestRequest{Name: "access-none", Word: "a\x1b[2J"})
	wantReason(t, err, "FIELD_INVALID")
}

// TestSecRequestsAreDecidedOnce has a burst of people ask, and many decide about one request at two
// replicas at once. Then the hub starts again.
func TestSecRequestsAreDecidedOnce(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, h, other *hub) {
		q := newQuestioned(t, h)
		var at sync.WaitGroup
		var mu sync.Mutex
		var made []string
		full := 0
		for i := range 8 {
			replica := []*hub{h, other}[i%2]
			at.Go(func() {
				res, err := replica.accessRequests(t, q.ada).CreateAccessRequest(t.Context(), &fleetv1.CreateAccessRequestRequest{Spec: operatorOf("one")})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					wantReason(t, err, "ACCESS_REQUESTS_FULL")
					full++
					return
				}
				made = append(made, res.GetAccessRequest().GetMetadata().GetName())
			})
		}
		at.Wait()
		if len(made) != 5 || full != 3 {
			t.Fatalf("got %d requests and %d refusals, want 5 and 3", len(made), full)
		}
		won := 0
		for i := range 8 {
			replica, token := []*hub{h, other}[i%2], []string{q.one, q.root}[i/4]
			at.Go(func() {
				_, err := replica.decide(t, token, made[0], "")
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won++
				} else {
					wantReason(t, err, "ACCESS_REQUEST_CLOSED")
				}
			})
		}
		at.Wait()
		if won != 1 {
			t.Fatalf("got %d approvals, want one", won)
		}
		made = made[1:]
		h.stop(t)
		h.start(t)
		if got := h.requestsSeen(t, q.ada); len(got) != 5 {
			t.Errorf("got %d requests after a restart, want 5", len(got))
		}
		bindings, err := fleetcalls.List[*fleetv1.AccessBinding](t.Context(), h.fleet(t, adminToken), &fleetv1.ListRequest{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, binding := range bindings.Objects {
			if binding.GetMetadata().GetAnnotations()["leat.dev/access-request"] != "" {
				n++
			}
		}
		if n != 1 {
			t.Errorf("got %d bindings of requests, want one", n)
		}
		if _, err := h.decide(t, q.one, made[0], ""); err != nil {
			t.Errorf("after a restart: %v", err)
		}
	})
}
