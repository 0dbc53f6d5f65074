// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/services/distributor"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// Kinds of callers.
const (
	agents   = "agents"
	people   = "people"
	services = "services"
	// stranger has no token that is worth anything.
	stranger = "stranger"
	// ended has a token that was a cluster's.
	ended = "ended"
)

// caller is a caller with a token, or without.
type caller struct {
	name, kind, token string
	// person holds the rights of a caller of the kind people.
	person person
	// isAccess is true for the access token of a person, which buys no other one.
	isAccess bool
	// isAgain is true for a person who is among the callers with another kind of token, and for all tokens
	// but one that are worth nothing. They make each call once: neither the form of a call nor the words of
	// a refusal depend on the kind.
	isAgain bool
	// user is the name of the owner of a token with a limit, who knows of themselves.
	user string
	// again makes another token like this one, which ends within minutes; nil for the others.
	again func(t *testing.T) string
}

// isFirst reports whether the caller stands for its kind where a test does not try every caller.
func (c caller) isFirst() bool {
	return slices.Contains([]string{"nobody", "agent", "agent of a revoked cluster", "service", "person without a binding", "admin"}, c.name)
}

// current returns the token to show now: tokens of services end within minutes, so each call has a
// new one.
func (c caller) current(t *testing.T) string {
	t.Helper()
	if c.kind == services {
		return serviceToken(t)
	}
	return c.token
}

// renew gives new tokens to the callers whose tokens end within minutes.
func (s *stage) renew(t *testing.T) {
	t.Helper()
	for i, c := range s.callers {
		if c.again != nil {
			s.callers[i].token = c.again(t)
		}
	}
}

// stage is a hub with the clusters one and two, the service app on one, and everybody who may come
// along.
type stage struct {
	*gate
	content *folder
	ci      *ciSystem
	callers []caller
}

func newStage(t *testing.T, change ...func(*distributor.Config)) *stage {
	t.Helper()
	s := &stage{gate: newGate(t, change...), content: newFolder(t, "c1", "one"), ci: startCI(t)}
	s.demo(t, s.content)
	s.apply(t, slackDocument("chat", "https://chat.example/hook"), setDocument("base", &fleetv1.ServiceConfig{Values: map[string]string{"A": "1"}}))
	s.apply(t, globalDocument("everywhere", "none"))
	s.apply(t, fleetdoc.Of(&fleetv1.RolloutPolicy{Metadata: &typev1.Metadata{Name: "waves"}, Spec: &fleetv1.RolloutPolicySpec{Services: []string{"none"}}}))
	s.apply(t, repositoryDocument("fleet"), fleetSourceDocument("", "source", "fleet", wholeHub, func(f *fleetv1.FleetSourceSpec) { f.Suspended = true }))
	s.apply(t, imageRepository("images"), imagePolicyDocument("web", func(p *fleetv1.ImagePolicySpec) { p.Suspended = true }))
	s.company(t, stageProvider, everyone()...)
	s.apply(t, trustRuleDocument(stageTrustRule, requiring(s.ci.url, "repository_owner", "acme")))
	s.apply(t, providerDocument("corp", "https://login.example"), backendDocument("vault"), trustRuleDocument("ci", requiring("https://ci.example", "repository", "acme/shop")), bindingDocument("devs", "somebody", "one"), clusterDocument("two"), clusterDocument("revoked"), clusterDocument("anew"), clusterDocument("deleted"), clusterDocument("rekeyed"))
	one, two := s.enrol(t, "one"), s.enrol(t, "two")
	s.watchPlan(t, one.token, "").nextWith(t, s.content.snapshot.GetDigest())
	admin := s.fleet(t, adminToken)
	access, err := admin.CreateAccessToken(t.Context(), &fleetv1.CreateAccessTokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	revoked, anew, deleted, rekeyed := s.enrol(t, "revoked"), s.enrol(t, "anew"), s.enrol(t, "deleted"), s.enrol(t, "rekeyed")
	if _, err := admin.RevokeCluster(t.Context(), &fleetv1.RevokeClusterRequest{Cluster: "revoked"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"anew", "deleted"} {
		if err := fleetcalls.Delete[*fleetv1.Cluster](t.Context(), admin, name); err != nil {
			t.Fatal(err)
		}
	}
	s.apply(t, clusterDocument("anew"))
	s.enrol(t, "anew")
	s.enrol(t, "rekeyed")

	key, issuer := s.outsiders(t)
	s.callers = append(s.forged(t, key, access.GetAccessToken(), one.token), []caller{
		{name: "agent of a revoked cluster", kind: ended, token: revoked.token},
		{name: "agent of a cluster that was created again", kind: ended, token: anew.token},
		{name: "agent of a cluster that was deleted", kind: ended, token: deleted.token},
		{name: "agent that was replaced", kind: ended, token: rekeyed.token},
		{name: "agent", kind: agents, token: one.token},
		{name: "agent of another cluster", kind: agents, token: two.token},
		{name: "service", kind: services},
		{name: "person without a binding", kind: people, token: "leat_token-of-a-person-without-bindings"},
		{name: "access token of a person without a binding", kind: people, token: issue(t, issuer, "eve", "everybody"), isAccess: true},
		{name: "admin", kind: people, token: adminToken, person: person{role: catalog.RoleAdmin, scope: "hub"}},
		{name: "admin's access token", kind: people, token: access.GetAccessToken(), person: person{role: catalog.RoleAdmin, scope: "hub"}, isAccess: true},
	}...)
	s.callers = append(s.callers, s.roles(t)...)
	return s
}

// narrow makes tokens with limits: for owners with many rights and with few, each of a role in each kind
// of scope.
func (s *stage) narrow(t *testing.T) []caller {
	t.Helper()
	admin := s.fleet(t, adminToken)
	var all []caller
	for user, owner := range map[string]person{
		"admin": {role: catalog.RoleAdmin, scope: "hub"}, "editor-one": {role: catalog.RoleEditor, scope: "one"},
		"viewer-hub": {role: catalog.RoleViewer, scope: "hub"},
	} {
		for _, limit := range []person{
			{role: catalog.RoleViewer, scope: "one"},
			{role: catalog.RoleAdmin, scope: "one"},
			{role: "syncer", scope: "one"},
			{role: catalog.RoleAdmin, scope: "two"},
			{role: catalog.RoleOperator, scope: "hub"},
			{role: catalog.RoleEditor, scope: ownProject},
			{role: catalog.RoleAdmin, scope: foreignProject},
		} {
			m := &fleetv1.TokenLimit{Hub: limit.scope == "hub"}
			if m.Role = typev1.AccessRole(typev1.AccessRole_value["ACCESS_ROLE_"+strings.ToUpper(string(limit.role))]); m.GetRole() == 0 {
				m.RoleName = string(limit.role)
			}
			switch limit.scope {
			case "one":
				m.Clusters, m.Repositories = named("one"), []string{"demo"}
			case "two":
				m.Clusters = named("two")
			case ownProject:
				m.Projects = &fleetv1.ProjectSelection{Names: []string{"default"}}
			case foreignProject:
				m.Projects = &fleetv1.ProjectSelection{Names: []string{"shop"}}
			}
			name := fmt.Sprintf("%s, limited to %s of %s", user, limit.role, limit.scope)
			made, err := admin.CreateToken(t.Context(), &fleetv1.CreateTokenRequest{User: user, Label: name, Limit: m})
			if err != nil {
				t.Fatal(err)
			}
			held := owner
			held.limit = &limit
			all = append(all, caller{name: name, kind: people, token: made.GetSecret(), person: held, user: user})
			if limit.role != catalog.RoleViewer {
				continue
			}
			access, err := s.fleet(t, made.GetSecret()).CreateAccessToken(t.Context(), &fleetv1.CreateAccessTokenRequest{})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, caller{name: "access token of " + name, kind: people, token: access.GetAccessToken(), person: held, user: user, isAccess: true})
		}
	}
	return all
}

// outsiders makes a person without any grant, and returns the key that the hub signs with.
func (s *stage) outsiders(t *testing.T) (ed25519.PrivateKey, *identity.Issuer) {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), s.cfg.DatabaseURL, []byte(hubkeys.Secret(identity.ServiceDistributor)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	eve := catalog.User{Metadata: catalog.Metadata{Name: "eve"}, Spec: catalog.UserSpec{Groups: []string{"everybody"}}}
	if err := store.Tokens().EnsureToken(t.Context(), eve, "own", admission.Hash("leat_token-of-a-person-without-bindings"), time.Time{}); err != nil {
		t.Fatal(err)
	}
	keys, err := sqlstore.NewRotation(store).SigningKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return keys[0].Private, identity.NewIssuer(keys[0].Private)
}

func issue(t *testing.T, issuer *identity.Issuer, user string, groups ...string) string {
	t.Helper()
	token, _, err := issuer.Issue(identity.Identity{Kind: identity.KindUser, Name: user, Groups: groups}, identity.ServiceDistributor, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// forged are tokens that are worth nothing, among them everything that differs from a good one by
// one thing.
func (s *stage) forged(t *testing.T, key ed25519.PrivateKey, admin, agent string) []caller {
	t.Helper()
	foreign := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	otherSecret, err := identity.NewServiceKey([]byte("the secret of another hub, which is as long as ours"), "tunnel")
	if err != nil {
		t.Fatal(err)
	}
	sent := func(tokens identity.TokenSource) string {
		t.Helper()
		token, err := tokens.Token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	all := []caller{
		{name: "nobody", kind: stranger, token: ""},
		{name: "garbage", kind: stranger, token: "garbage"},
		{name: "garbage in three parts", kind: stranger, token: "a.b.c"},
		{name: "an API token nobody has", kind: stranger, token: "leat_wrong-token-of-this-test"},
		{name: "a join token", kind: stranger, token: "leatjoin_wrong-token-of-this-test"},
		{name: "a token of another hub", kind: stranger, token: issue(t, identity.NewIssuer(foreign), "admin", "leat:admins")},
		{name: "a service of another hub", kind: stranger, token: sent(otherSecret.For(identity.ServiceDistributor))},
		{name: "the tunnel's for another service", kind: stranger, token: sent(hubkeys.Tokens(identity.ServiceTunnel, identity.ServiceGitCache))},
		{name: "the tunnel's for another replica of it", kind: stranger, token: sent(hubkeys.Tokens(identity.ServiceTunnel, identity.ReplicaAudience(identity.ServiceTunnel, "x")))},
		{name: "gitcache, which has no business here", kind: stranger, token: sent(hubkeys.Tokens(identity.ServiceGitCache, identity.ServiceDistributor))},
	}
	good := map[string]string{"admin's": admin, "agent's": agent}
	for whose, token := range good {
		all = append(all,
			caller{name: "expired, the " + whose, kind: stranger, token: altered(t, key, token, "exp", time.Now().Add(-time.Hour).Unix())},
			caller{name: "not valid yet, the " + whose, kind: stranger, token: altered(t, key, token, "nbf", time.Now().Add(time.Hour).Unix())},
			caller{name: "for another audience, the " + whose, kind: stranger, token: altered(t, key, token, "aud", "elsewhere")},
			caller{name: "of another issuer, the " + whose, kind: stranger, token: altered(t, key, token, "iss", "elsewhere")},
			caller{name: "signed by another key, the " + whose, kind: stranger, token: altered(t, foreign, token, "sub", "user:admin")},
			caller{name: "without a signature, the " + whose, kind: stranger, token: token[:strings.LastIndexByte(token, '.')+1]},
		)
	}
	for i := range all {
		all[i].isAgain = i > 0
	}
	return all
}

// altered is a token with another claim, signed with the key.
func altered(t *testing.T, key ed25519.PrivateKey, token, claim string, value any) string {
	t.Helper()
	parts := strings.Split(token, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{}
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	claims[claim] = value
	if payload, err = json.Marshal(claims); err != nil {
		t.Fatal(err)
	}
	signed := parts[0] + "." + base64.RawURLEncoding.EncodeToString(payload)
	return signed + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(signed)))
}

// reply is all that a caller can see of an answer, but the time of day.
type reply struct {
	status                int
	header                map[string][]string
	body                  string
	code, reason, message string
}

func (r reply) verdict() string {
	if r.code == "" {
		return granted
	}
	return r.code + " " + r.reason
}

// at is the verdict; HEAD is answered without a body, so there it is the status.
func (r reply) at(method string) string {
	if method == http.MethodHead {
		return fmt.Sprint(r.status)
	}
	return r.verdict()
}

// statusOf is the status of a verdict.
func statusOf(method, verdict string) string {
	if method != http.MethodHead {
		return ""
	}
	code, _, _ := strings.Cut(verdict, " ")
	return map[string]string{granted: "200", "unauthenticated": "401", "permission_denied": "403", "not_found": "404"}[code]
}

// echoing is the reply with the name that was asked for, which refusals quote, left out.
func (r reply) echoing(name string) string {
	text := fmt.Sprint(r.status, r.header, r.code, r.reason, r.message)
	return strings.ReplaceAll(strings.ReplaceAll(text, strconv.Quote(name), "NAME"), `"`+name+"@", `"NAME@`)
}

// The forms in which a call can be made.
const (
	formPost   = "POST"
	formGet    = "GET"
	formStream = "stream"
)

func formsOf(method protoreflect.MethodDescriptor) []string {
	if method.IsStreamingServer() {
		return []string{formStream}
	}
	if options, _ := method.Options().(*descriptorpb.MethodOptions); options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS {
		return []string{formPost, formGet}
	}
	return []string{formPost}
}

// call makes a call as anybody with an HTTP client can.
func (s *stage) call(t *testing.T, method protoreflect.MethodDescriptor, token, request, form string) reply {
	t.Helper()
	path := fmt.Sprintf("%s/%s/%s", s.url, method.Parent().FullName(), method.Name())
	switch form {
	case formGet:
		query := url.Values{"connect": {"v1"}, "encoding": {"json"}, "message": {request}}
		return s.send(t, newRequest(t, http.MethodGet, path+"?"+query.Encode(), token, nil))
	case formStream:
		frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(request)))
		req := newRequest(t, http.MethodPost, path, token, append(frame, request...))
		req.Header.Set("Content-Type", "application/connect+json")
		return s.send(t, req)
	default:
		req := newRequest(t, http.MethodPost, path, token, []byte(request))
		req.Header.Set("Content-Type", "application/json")
		return s.send(t, req)
	}
}

// request asks for a path that is not an RPC.
func (s *stage) request(t *testing.T, method, path, token string) reply {
	t.Helper()
	return s.send(t, newRequest(t, method, s.url+path, token, nil))
}

func newRequest(t *testing.T, method, target, token string, body []byte) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, target, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Sec-Fetch-Site", "same-origin") // as a page of the hub's own: nobody gains a right by it
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req
}

// send reads one answer; of a stream, its first message.
func (s *stage) send(t *testing.T, req *http.Request) reply {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	header := res.Header.Clone()
	header.Del("Date")
	r := reply{status: res.StatusCode, header: header}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/connect+") {
		r.explain(t, firstFrame(t, res.Body))
		return r
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if r.body = string(body); res.StatusCode >= http.StatusBadRequest {
		r.explain(t, body)
	}
	return r
}

// firstFrame returns the error of a stream that begins with its end; nil when a message comes
// first.
func firstFrame(t *testing.T, body io.Reader) []byte {
	t.Helper()
	var prefix [5]byte
	if _, err := io.ReadFull(body, prefix[:]); err != nil {
		t.Fatal(err)
	}
	const end = 2
	if prefix[0]&end == 0 {
		return nil
	}
	frame := make([]byte, binary.BigEndian.Uint32(prefix[1:]))
	if _, err := io.ReadFull(body, frame); err != nil {
		t.Fatal(err)
	}
	var last struct {
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(frame, &last); err != nil {
		t.Fatal(err)
	}
	return last.Error
}

// explain reads an error: an RPC's, whose reason is in the details, or a plain path's.
func (r *reply) explain(t *testing.T, body []byte) {
	t.Helper()
	var problem struct {
		Code, Reason, Message string
		Details               []struct{ Type, Value string }
	}
	if json.Unmarshal(body, &problem) != nil {
		return
	}
	r.code, r.reason, r.message = problem.Code, problem.Reason, problem.Message
	for _, detail := range problem.Details {
		if detail.Type != "google.rpc.ErrorInfo" {
			continue
		}
		raw, err := base64.RawStdEncoding.DecodeString(detail.Value)
		if err != nil {
			t.Fatal(err)
		}
		var info errdetails.ErrorInfo
		if err := proto.Unmarshal(raw, &info); err != nil {
			t.Fatal(err)
		}
		r.reason = info.GetReason()
	}
}
