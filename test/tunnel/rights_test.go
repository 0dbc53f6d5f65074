// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"

	agentv1 "github.com/leatdev/leat/gen/go/leat/agent/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	optionsv1 "github.com/leatdev/leat/gen/go/leat/options/v1"
	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/permission"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
)

// caller is a member with a token.
type caller struct {
	member

	kind  tokenKind
	token *heldToken
}

// renewBefore is how long before its end a caller replaces its access token. No single question takes
// as long.
const renewBefore = 2 * time.Minute

// heldToken is an access token of a caller, which replaces it before it expires, as clients do: on a
// busy machine the questions of one table take longer than a token lives. It is for one goroutine.
type heldToken struct {
	// obtain returns another token. Nil: the caller keeps the one that it has.
	obtain func(t *testing.T) string

	value string
	until time.Time
}

// header returns the header of a request by the caller.
func (c caller) header(t *testing.T) map[string]string {
	t.Helper()
	if h := c.token; h.obtain != nil && time.Until(h.until) < renewBefore {
		h.value = h.obtain(t)
		parsed, err := jwt.ParseSigned(h.value, []jose.SignatureAlgorithm{jose.EdDSA})
		if err != nil {
			t.Fatal(err)
		}
		var claims jwt.Claims
		if err := parsed.UnsafeClaimsWithoutVerification(&claims); err != nil {
			t.Fatal(err)
		}
		h.until = claims.Expiry.Time()
	}
	return map[string]string{"Authorization": "Bearer " + c.token.value}
}

// as returns the member as a caller with a kind of token.
func (v *visitors) as(m member, kind tokenKind) caller {
	return caller{member: m, kind: kind, token: &heldToken{obtain: func(t *testing.T) string { return kind.obtain(v, t, m.name) }}}
}

func (c caller) String() string { return c.name + " by " + c.kind.name }

// rights is the cluster shop/berlin with a real agent, and everybody who calls.
type rights struct {
	*rig
	*wire
	*visitors

	callers []caller
}

// TestRights holds docs/reference/rights.md against a hub of two tunnels with a real distributor, a
// real agent and a real API server: each request, each call to an agent and each call of the
// tunnel's own, by people with each role in each kind of scope, with each kind of token.
func TestRights(t *testing.T) {
	t.Parallel()
	s := newRights(t)
	t.Run("requests to clusters", s.requests)
	t.Run("calls to agents", s.agentCalls)
	t.Run("calls of the tunnel", s.tunnelCalls)
	t.Run("who the cluster sees", s.impersonated)
	t.Run("narrowed bindings", s.narrowed)
	t.Run("roles of one's own", s.ownRoles)
	t.Run("hosts", s.hosts)
	t.Run("sessions of browsers", s.cookies)
	t.Run("tokens", s.tokens)
}

func newRights(t *testing.T) *rights {
	t.Helper()
	r := theRig(t)
	r.apply(t,
		&fleetv1.Document{Object: &fleetv1.Document_Project{Project: &fleetv1.Project{Metadata: &typev1.Metadata{Name: ownProject}}}},
		&fleetv1.Document{Object: &fleetv1.Document_Project{Project: &fleetv1.Project{Metadata: &typev1.Metadata{Name: otherProject}}}},
		&fleetv1.Document{Object: &fleetv1.Document_Cluster{Cluster: &fleetv1.Cluster{
			Metadata: &typev1.Metadata{Project: ownProject, Name: "berlin", Labels: map[string]string{labelKey: "yes"}},
		}}},
		roleDocument("rights-caller", typev1.AccessRole_ACCESS_ROLE_UNSPECIFIED, "*", "*"),
		roleDocument("rights-inventory", typev1.AccessRole_ACCESS_ROLE_VIEWER, "get", "services/inventory"),
	)
	for group, role := range map[string]string{"operators": "edit", "viewers": "view"} { // as deploy/kubernetes/agent.yaml
		r.kubeCreate(t, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "leat-`+group+`"},
			"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "`+role+`"},
			"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "leat:`+group+`"}]}`)
	}
	r.kubeCreate(t, "/api/v1/namespaces", `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "`+rightsNamespace+`"}}`)
	r.kubeCreate(t, "/api/v1/namespaces/"+rightsNamespace+"/pods", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "`+rightsPod+`"},
		"spec": {"containers": [{"name": "main", "image": "shop:1"}]}}`)
	echo := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(echo.Close)
	r.services.Store("echo."+rightsNamespace+".svc:8080", echo.Listener.Addr().String())
	if err := r.joinAgent(context.WithoutCancel(t.Context()), ownCluster, r.cluster.KubeconfigPath(), map[string]string{
		"LEAT_AGENT_SERVICE_PROXY_ALLOW": rightsNamespace + "/echo:8080",
	}); err != nil {
		t.Fatal(err)
	}
	r.kubeWait(t, "/api/v1/namespaces/"+rightsNamespace+"/pods/"+rightsPod, `"phase":"Running"`)
	people := members()
	s := &rights{rig: r, wire: newWire(t, r), visitors: newVisitors(t, r, append(people, member{name: "revoked"}))}
	for _, m := range people {
		s.admit(t, m)
		for i, kind := range tokenKinds() {
			if i == 0 || !m.isBrief {
				s.callers = append(s.callers, s.as(m, kind))
			}
		}
	}
	return s
}

func roleDocument(name string, inClusters typev1.AccessRole, verb, resource string) *fleetv1.Document {
	return &fleetv1.Document{Object: &fleetv1.Document_Role{Role: &fleetv1.Role{
		Metadata: &typev1.Metadata{Name: name},
		Spec: &fleetv1.RoleSpec{
			ClusterRole: inClusters, Permissions: []*fleetv1.RolePermission{{Verbs: []string{verb}, Resources: []string{resource}}},
		},
	}}}
}

// try sends a question about the cluster of the table.
func (s *rights) try(t *testing.T, c caller, q question) answer {
	t.Helper()
	return s.ask(t, s.at(c.kind.route, ownCluster, ownHost), q, c.header(t))
}

// verdictOf is the verdict of an answer. Where nothing is there, 404 shows that the request came
// through.
func verdictOf(q question, a answer) string {
	origin := a.header.Get("Leat-Error-Origin")
	if q.isEmpty && a.status == http.StatusNotFound && (origin == "cluster" || origin == "agent") {
		return "yes"
	}
	return a.verdict()
}

// check compares an answer with the page, and one that hides the cluster with the answer for an
// unknown cluster.
func (s *rights) check(t *testing.T, c caller, q question, want string) {
	t.Helper()
	got := s.try(t, c, q)
	if verdict := verdictOf(q, got); verdict != want {
		t.Errorf("%s by %s: got %s, want %s", q.name, c, verdict, want)
		return
	}
	if want == "hidden" {
		s.checkHidden(t, c, q, got)
	}
}

func (s *rights) checkHidden(t *testing.T, c caller, q question, got answer) {
	t.Helper()
	none := s.ask(t, s.at(c.kind.route, absent, absentHost), q, c.header(t))
	if diff := gocmp.Diff(got.without(t, ownCluster, ownHost), none.without(t, absent, absentHost)); diff != "" {
		t.Errorf("%s by %s tells whether the cluster exists (-exists +does not):\n%s", q.name, c, diff)
	}
}

// requests makes the requests of the table.
func (s *rights) requests(t *testing.T) {
	for _, row := range rightsTable(t, "Requests to clusters") {
		q := questionOf(row)
		for _, c := range s.callers {
			s.check(t, c, q, row.cells[c.column])
		}
	}
}

// tried returns the calls of a service as the protocol file has them, each with its row. A call
// without a row, or a row without a call, fails the test.
func tried(t *testing.T, file protoreflect.FileDescriptor, service protoreflect.Name) map[protoreflect.MethodDescriptor]rightsRow {
	t.Helper()
	rows := map[string]rightsRow{}
	for _, row := range rightsTable(t, string(service)) {
		rows[row.name] = row
	}
	methods := file.Services().ByName(service).Methods()
	all := map[protoreflect.MethodDescriptor]rightsRow{}
	for i := range methods.Len() {
		method := methods.Get(i)
		row, ok := rows[string(method.Name())]
		if !ok {
			t.Errorf("%s has no row in docs/reference/rights.md", method.FullName())
			continue
		}
		all[method] = row
	}
	if len(all) != len(rows) {
		t.Errorf("%s has %d calls and %d rows", service, len(all), len(rows))
	}
	return all
}

// agentCalls makes the calls to an agent.
func (s *rights) agentCalls(t *testing.T) {
	for method, row := range tried(t, agentv1.File_leat_agent_v1_agent_proto, "AgentService") {
		q := callOf(method)
		for _, c := range s.callers {
			s.check(t, c, q, row.cells[c.column])
		}
	}
}

// tunnelCalls makes the calls that the tunnel itself answers, at both replicas. Those for agents and
// for the other end of a connection are for no person.
func (s *rights) tunnelCalls(t *testing.T) {
	file := tunnelv1.File_leat_tunnel_v1_tunnel_proto
	for i := range file.Services().Len() {
		service := file.Services().Get(i).Name()
		for method, row := range tried(t, file, service) {
			access, _ := permission.Of(method)
			isForPeople := access.Admits(optionsv1.Caller_CALLER_PERSON)
			q := callOf(method)
			q.isEndless = false // a refusal ends each stream
			for _, c := range s.callers {
				base := "https://" + s.hub
				if c.kind.route == routeHop {
					base = "https://" + s.far
				}
				got := verdictOfCall(s.ask(t, base, q, c.header(t)))
				want := row.cells[c.column]
				if !isForPeople {
					want = "no"
				}
				if got != want {
					t.Errorf("%s/%s by %s: got %s, want %s", service, q.name, c, got, want)
				}
			}
		}
	}
}

// verdictOfCall is the verdict of an answer of the tunnel's own.
func verdictOfCall(a answer) string {
	switch {
	case strings.Contains(a.body, `"permission_denied"`), a.status == http.StatusNotFound && !strings.Contains(a.body, `"not_found"`):
		return "no" // not_found is the answer about an object, and a plain 404 the answer about a path which is not served
	case a.status == http.StatusOK, strings.Contains(a.body, `"not_found"`):
		return "yes"
	}
	return a.verdict()
}

// impersonated asks the API server who it sees: the person by the name of the kind of token, with the
// groups of their role.
func (s *rights) impersonated(t *testing.T) {
	q := question{
		name: "review of self", method: http.MethodPost, path: "/apis/authentication.k8s.io/v1/selfsubjectreviews",
		header: map[string]string{"Content-Type": "application/json"}, body: []byte(objects["selfsubjectreviews"]),
	}
	prefix := map[string]string{"session": "corp.", "workload": "ci:"}
	for _, c := range s.callers {
		if c.column == "none" || c.column == "elsewhere" {
			continue
		}
		role := strings.TrimPrefix(c.column, "hub ")
		group := map[string]string{"viewer": "leat:viewers", "operator": "leat:operators", "editor": "leat:operators", "admin": "leat:admins"}[role]
		var review struct{ Status struct{ UserInfo subject } }
		got := s.try(t, c, q)
		if err := json.Unmarshal([]byte(got.body), &review); err != nil || got.status != http.StatusCreated {
			t.Errorf("%s: got %d %s", c, got.status, got.body)
			continue
		}
		me := review.Status.UserInfo
		slices.Sort(me.Groups)
		if want := []string{group, "system:authenticated"}; me.Username != prefix[c.kind.name]+c.name || !slices.Equal(me.Groups, want) {
			t.Errorf("%s: the cluster sees %s in %v, want %s in %v", c, me.Username, me.Groups, prefix[c.kind.name]+c.name, want)
		}
	}
}

// join makes a further member with a binding, and returns the caller for each kind of token.
func (s *rights) join(t *testing.T, m member) []caller {
	t.Helper()
	s.admit(t, m)
	var all []caller
	for _, kind := range []tokenKind{tokenKinds()[0], tokenKinds()[2]} {
		all = append(all, s.as(m, kind))
	}
	return all
}

// narrowed makes all requests and calls as an administrator whose binding lets through one kind of
// them. Discovery, health and reviews of oneself stay open, and a rule with namespaces opens no call to
// the agent, which is about the whole cluster.
func (s *rights) narrowed(t *testing.T) {
	const pods = "/api/v1/namespaces/NAMESPACE/pods"
	isLetThrough := func(request string) bool {
		return slices.Contains([]string{"GET " + pods, "GET " + pods + "?watch=true", "GET " + pods + "/none", "GET " + pods + "/none/log"}, request) ||
			slices.Contains([]string{
				"GET /version", "GET /healthz", "GET /livez", "GET /readyz", "GET /api", "GET /apis", "GET /openapi/v3",
				"POST /apis/authentication.k8s.io/v1/selfsubjectreviews", "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			}, request)
	}
	for _, c := range s.join(t, member{name: "narrow", binding: &fleetv1.AccessBindingSpec{
		Role: typev1.AccessRole_ACCESS_ROLE_ADMIN, Clusters: clusters(ownReference), Rules: []*typev1.AccessRule{{
			Verbs: []string{"get", "list", "watch"}, Resources: []string{"pods", "pods/log"}, Namespaces: []string{rightsNamespace},
		}},
	}}) {
		for _, row := range rightsTable(t, "Requests to clusters") {
			want := "no"
			if isLetThrough(row.name) {
				want = "yes"
			}
			s.check(t, c, questionOf(row), want)
		}
		for method := range tried(t, agentv1.File_leat_agent_v1_agent_proto, "AgentService") {
			s.check(t, c, callOf(method), "no")
		}
	}
}

// ownRoles makes all requests and calls with a role of permissions: its cluster role decides about the
// cluster, and its permissions about the agent.
func (s *rights) ownRoles(t *testing.T) {
	for _, c := range s.join(t, member{name: "reader", binding: &fleetv1.AccessBindingSpec{
		RoleName: "rights-inventory", Clusters: clusters(ownReference),
	}}) {
		for _, row := range rightsTable(t, "Requests to clusters") {
			s.check(t, c, questionOf(row), row.cells["viewer"])
		}
		for method := range tried(t, agentv1.File_leat_agent_v1_agent_proto, "AgentService") {
			access, _ := permission.Of(method)
			want := "no"
			if access.Verb == "get" && access.Resource == "services/inventory" {
				want = "yes"
			}
			s.check(t, c, callOf(method), want)
		}
	}
}

// hosts asks at hosts that look like the cluster's. Not even an administrator of the hub finds a
// cluster there.
func (s *rights) hosts(t *testing.T) {
	q := question{name: "list pods", method: http.MethodGet, path: "/api/v1/pods"}
	i := slices.IndexFunc(s.callers, func(c caller) bool { return c.name == "hub-admin" })
	admin := s.callers[i]
	for host, want := range map[string]string{
		ownHost: "yes", strings.ToUpper(ownHost): "yes", absentHost: "hidden", "berlin": "hidden", "default--" + otherCluster: "no", "shop---berlin": "hidden",
	} {
		got := s.ask(t, s.at(routeHost, "", host), q, admin.header(t))
		if got.verdict() != want {
			t.Errorf("%s: got %s, want %s", host, got.verdict(), want)
		}
	}
}

// cookies brings the cookie of a browser's session to the tunnel, as a page would and as others
// would. It has no effect there: the hub's own page trades it for a token at the distributor, and
// no other page can.
func (s *rights) cookies(t *testing.T) {
	cookie := s.signIn(t, "admin-of-the-cluster")
	q := question{name: "list pods", method: http.MethodGet, path: "/api/v1/pods"}
	for name, header := range map[string]map[string]string{
		"alone":                  {},
		"by the hub's own page":  {"Sec-Fetch-Site": "same-origin", "X-Requested-With": "XMLHttpRequest"},
		"with a token elsewhere": {"X-Authorization": "Bearer " + s.token},
		"by a WebSocket":         {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-Websocket-Version": "13", "Sec-Websocket-Key": "MDEyMzQ1Njc4OTAxMjM0NQ=="},
	} {
		header["Cookie"] = sessionCookie + "=" + cookie
		for _, way := range []route{routePath, routeHost, routeHop} {
			if got := s.ask(t, s.at(way, ownCluster, ownHost), q, header); got.verdict() != unauthenticated {
				t.Errorf("a session's cookie %s by %s: got %s, want it to count for nobody", name, way, got.verdict())
			}
		}
	}
	for _, site := range []string{"cross-site", "same-site", "none"} {
		if got := s.trade(t, cookie, site); got.status != http.StatusForbidden {
			t.Errorf("a page of another origin (%s): got %d %s, want it refused", site, got.status, got.body)
		}
	}
	token := s.buy(t, cookie)
	if got := s.ask(t, s.at(routePath, ownCluster, ownHost), q, map[string]string{"Authorization": "Bearer " + token}); got.verdict() != "yes" {
		t.Errorf("the token of the hub's own page: got %s", got.verdict())
	}
	// A script cannot set Authorization of a WebSocket, so the token is among the protocols.
	exec := question{name: "exec", method: http.MethodGet, path: "/api/v1/namespaces/" + rightsNamespace + "/pods/" + rightsPod + "/exec?command=true&stdout=true", header: upgrade(http.MethodGet)}
	exec.header["Sec-Websocket-Protocol"] += ", base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(token))
	if got := s.ask(t, s.at(routePath, ownCluster, ownHost), exec, nil); got.verdict() != "yes" {
		t.Errorf("the token among the protocols of a WebSocket: got %s", got.verdict())
	}
}

// tokens makes every request with tokens that are worth nothing for the cluster. No answer tells
// whether it exists.
func (s *rights) tokens(t *testing.T) {
	type bad struct{ name, token, want string }
	s.admit(t, member{name: "revoked", binding: &fleetv1.AccessBindingSpec{Role: typev1.AccessRole_ACCESS_ROLE_ADMIN, Hub: true}})
	all := []bad{
		{"nobody", "", unauthenticated},
		{"garbage", "garbage", unauthenticated},
		{"an API token", adminToken, unauthenticated},
		{"a token of a session", "leatses_guessed", unauthenticated},
		{"a job's own token", s.job(t, "admin-of-the-cluster"), unauthenticated},
	}
	elsewhere, _ := s.apiToken(t, "revoked", identity.ServiceDistributor)
	all = append(all, bad{"an access token for the distributor", elsewhere, unauthenticated})
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	foreign, _, err := identity.NewIssuer(key).Issue(identity.Identity{Kind: identity.KindUser, Name: "admin", Groups: []string{"leat:admins"}}, identity.ServiceTunnel, await.Patience)
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, bad{"a token of another hub", foreign, unauthenticated})
	good := s.byAPIToken(t, "revoked")
	all = append(all, bad{"a token without its signature", good[:strings.LastIndexByte(good, '.')+1], unauthenticated})
	for name, sender := range map[string]identity.TokenSource{
		"the distributor, for the tunnel": hubkeys.Tokens(identity.ServiceDistributor, identity.ServiceTunnel),
		"the tunnel, for the distributor": hubkeys.Tokens(identity.ServiceTunnel, identity.ServiceDistributor),
	} {
		token, err := sender.Token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, bad{name, token, unauthenticated})
	}
	for _, project := range []string{ownProject, otherProject} {
		for audience, token := range s.agentTokens(t, project) {
			want := unauthenticated
			if audience == identity.ServiceTunnel {
				want = "hidden"
			}
			all = append(all, bad{"an agent of the project " + project + " for the " + audience, token, want})
		}
	}

	// Tokens that were good until a moment ago. The tunnel learns the end from the hub.
	access, made := s.apiToken(t, "revoked", identity.ServiceTunnel)
	if _, err := s.fleet.DeleteToken(t.Context(), &fleetv1.DeleteTokenRequest{Id: made.GetToken().GetId()}); err != nil {
		t.Fatal(err)
	}
	all = append(all, bad{"an access token whose API token was deleted", access, "hidden"})
	session := s.bySession(t, "revoked")
	sessions := fleetv1connect.NewSessionServiceClient(&http.Client{Transport: bearer{token: adminToken, next: http.DefaultTransport}}, s.distributor)
	if res, err := sessions.RevokeSession(t.Context(), &fleetv1.RevokeSessionRequest{Person: "corp.revoked"}); err != nil || res.GetRevoked() == 0 {
		t.Fatal(res, err)
	}
	all = append(all, bad{"an access token whose session was revoked", session, "hidden"})
	workload := s.byWorkload(t, "revoked")
	s.apply(t, &fleetv1.Document{Object: &fleetv1.Document_TrustRule{TrustRule: s.rule("others")}})
	all = append(all, bad{"an access token whose trust rule changed", workload, "hidden"})

	var questions []question
	for _, row := range rightsTable(t, "Requests to clusters") {
		questions = append(questions, questionOf(row))
	}
	for method := range tried(t, agentv1.File_leat_agent_v1_agent_proto, "AgentService") {
		questions = append(questions, callOf(method))
	}
	for _, b := range all {
		c := caller{member: member{name: b.name}, kind: tokenKind{name: "its token", route: routePath}, token: &heldToken{value: b.token}}
		for _, q := range questions {
			got := s.try(t, c, q)
			if got.verdict() != b.want {
				t.Errorf("%s by %s: got %s, want %s", q.name, b.name, got.verdict(), b.want)
				continue
			}
			s.checkHidden(t, c, q, got)
		}
	}
}
