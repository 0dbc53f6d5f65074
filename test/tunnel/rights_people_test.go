// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/test/openid"
)

// member is a person of the table, whom bindings know by three names: a user of the hub, a person
// of the provider corp, and a job that the trust rule ci lets in.
type member struct {
	name string
	// column is the one of docs/reference/rights.md with the person's rights.
	column string
	// binding is the person's binding, without its users. Nil: nothing.
	binding *fleetv1.AccessBindingSpec
	// isBrief is true for a person who comes with an API token alone.
	isBrief bool
}

// subjects are the names by which bindings know the person.
func (m member) subjects() []string { return []string{m.name, "corp." + m.name, "ci:" + m.name} }

// Scopes of bindings around the cluster of the table and elsewhere.
const (
	ownProject   = "shop"
	ownCluster   = "shop.berlin"         // as paths name it
	ownHost      = "shop--berlin"        // as hosts name it
	absent       = "shop.munich"         // an unknown cluster, with a name as long
	absentHost   = "shop--munich"        // its host
	ownReference = "shop/berlin"         // as people name it
	otherProject = "other"               // has nothing to do with the cluster
	otherCluster = "websocket"           // runs beside it
	labelKey     = "rights.example/here" // a label of the cluster
)

func clusters(names ...string) *fleetv1.ClusterSelection {
	return &fleetv1.ClusterSelection{Names: names}
}

func projects(names ...string) *fleetv1.ProjectSelection {
	return &fleetv1.ProjectSelection{Names: names}
}

// members are the people of the columns: each role by each kind of scope that contains the cluster,
// and insufficient ones.
func members() []member {
	const admin = typev1.AccessRole_ACCESS_ROLE_ADMIN
	labels := &fleetv1.ClusterSelection{Labels: &fleetv1.LabelSelector{MatchLabels: map[string]string{labelKey: "yes"}}}
	all := []member{
		{name: "none", column: "none"},
		{name: "admin-of-another-cluster", column: "elsewhere", binding: &fleetv1.AccessBindingSpec{Role: admin, Clusters: clusters(otherCluster)}},
		{name: "admin-of-another-project", column: "elsewhere", binding: &fleetv1.AccessBindingSpec{Role: admin, Projects: projects(otherProject)}},
		{name: "admin-of-a-service", column: "elsewhere", isBrief: true, binding: &fleetv1.AccessBindingSpec{Role: admin, Services: []string{"shop/web"}}},
		{name: "admin-of-a-repository", column: "elsewhere", isBrief: true, binding: &fleetv1.AccessBindingSpec{Role: admin, Repositories: []string{"shop/web"}}},
		{name: "role-without-a-cluster-role", column: "elsewhere", isBrief: true, binding: &fleetv1.AccessBindingSpec{RoleName: "rights-caller", Clusters: clusters(ownReference)}},
		{name: "admin-by-label", column: "admin", isBrief: true, binding: &fleetv1.AccessBindingSpec{Role: admin, Clusters: labels}},
		{name: "viewer-by-label", column: "viewer", isBrief: true, binding: &fleetv1.AccessBindingSpec{Role: typev1.AccessRole_ACCESS_ROLE_VIEWER, Clusters: labels}},
	}
	for _, role := range []typev1.AccessRole{
		typev1.AccessRole_ACCESS_ROLE_VIEWER, typev1.AccessRole_ACCESS_ROLE_OPERATOR, typev1.AccessRole_ACCESS_ROLE_EDITOR, admin,
	} {
		name := strings.ToLower(strings.TrimPrefix(role.String(), "ACCESS_ROLE_"))
		all = append(all,
			member{name: name + "-of-the-cluster", column: name, binding: &fleetv1.AccessBindingSpec{Role: role, Clusters: clusters(ownReference)}},
			member{name: name + "-of-the-project", column: name, isBrief: true, binding: &fleetv1.AccessBindingSpec{Role: role, Projects: projects(ownProject)}},
			member{name: "hub-" + name, column: "hub " + name, isBrief: role != admin, binding: &fleetv1.AccessBindingSpec{Role: role, Hub: true}},
		)
	}
	return all
}

// visitors turns members into callers, by each kind of token.
type visitors struct {
	rig      *rig
	provider string
	ci       jose.Signer // signs for jobs
	keys     string      // verify that
}

// tokenKind is one way to hold a token for the tunnel, and the way on which requests with it go: so
// the same rows are tried at the path and at the host of the cluster, and over a hop.
type tokenKind struct {
	name   string
	route  route
	obtain func(v *visitors, t *testing.T, name string) string
}

func tokenKinds() []tokenKind {
	return []tokenKind{
		{"API token", routePath, (*visitors).byAPIToken},
		{"session", routeHost, (*visitors).bySession},
		{"workload", routeHop, (*visitors).byWorkload},
	}
}

// newVisitors starts a provider, makes it known to the hub, and adds a rule for jobs.
func newVisitors(t *testing.T, r *rig, people []member) *visitors {
	t.Helper()
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	jwk := jose.JSONWebKey{Key: public, KeyID: "ci", Algorithm: string(jose.EdDSA), Use: "sig"}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{jwk}})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key}, (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", "ci"))
	if err != nil {
		t.Fatal(err)
	}
	v := &visitors{rig: r, provider: startProvider(t, r.distributor, people), ci: signer, keys: string(keys)}
	r.apply(t,
		&fleetv1.Document{Object: &fleetv1.Document_IdentityProvider{IdentityProvider: &fleetv1.IdentityProvider{
			Metadata: &typev1.Metadata{Name: "corp"},
			Spec:     &fleetv1.IdentityProviderSpec{Issuer: v.provider, ClientId: openid.ClientID, ClientSecret: new(providerSecret)},
		}}},
		&fleetv1.Document{Object: &fleetv1.Document_TrustRule{TrustRule: v.rule("acme")}},
	)
	return v
}

// rule is the trust rule for jobs of that owner.
func (v *visitors) rule(owner string) *fleetv1.TrustRule {
	return &fleetv1.TrustRule{Metadata: &typev1.Metadata{Name: "ci"}, Spec: &fleetv1.TrustRuleSpec{
		Issuer: "https://ci.example", Audience: "leat", User: "{member}", Jwks: v.keys,
		Require: []*fleetv1.ClaimRequirement{{Claim: "owner", Values: []string{owner}}},
	}}
}

func (r *rig) apply(t *testing.T, documents ...*fleetv1.Document) {
	t.Helper()
	if _, err := r.fleet.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: documents}); err != nil {
		t.Fatalf("apply: %v", err)
	}
}

// admit gives a member a user of the hub and the binding.
func (v *visitors) admit(t *testing.T, m member) {
	t.Helper()
	v.rig.apply(t, &fleetv1.Document{Object: &fleetv1.Document_User{User: &fleetv1.User{Metadata: &typev1.Metadata{Name: m.name}}}})
	if m.binding == nil {
		return
	}
	m.binding.Users = m.subjects()
	v.rig.apply(t, &fleetv1.Document{Object: &fleetv1.Document_AccessBinding{AccessBinding: &fleetv1.AccessBinding{
		Metadata: &typev1.Metadata{Name: "rights-" + m.name}, Spec: m.binding,
	}}})
}

// byAPIToken trades an API token of the user for an access token.
func (v *visitors) byAPIToken(t *testing.T, name string) string {
	t.Helper()
	token, _ := v.apiToken(t, name, identity.ServiceTunnel)
	return token
}

// apiToken makes an API token, and trades it for an access token of that audience.
func (v *visitors) apiToken(t *testing.T, name, audience string) (access string, made *fleetv1.CreateTokenResponse) {
	t.Helper()
	made, err := v.rig.fleet.CreateToken(t.Context(), &fleetv1.CreateTokenRequest{User: name, Label: "rights"})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := v.rig.fleetOf(t, made.GetSecret()).CreateAccessToken(t.Context(), &fleetv1.CreateAccessTokenRequest{Audience: audience})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetAccessToken(), made
}

// fleetOf calls the hub with a token.
func (r *rig) fleetOf(t *testing.T, token string) fleetv1connect.FleetServiceClient {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return fleetv1connect.NewFleetServiceClient(&http.Client{Transport: bearer{token: token, next: transport}}, r.distributor)
}

// byWorkload exchanges the token of a job (RFC 8693).
func (v *visitors) byWorkload(t *testing.T, name string) string {
	t.Helper()
	form := url.Values{
		"grant_type":         {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"subject_token_type": {"urn:ietf:params:oauth:token-type:jwt"}, "subject_token": {v.job(t, name)}, "audience": {identity.ServiceTunnel},
	}
	page := newBrowser(t).do(t, http.MethodPost, v.rig.distributor+"/oauth/token", form)
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(page.body), &answer); err != nil || answer.AccessToken == "" {
		t.Fatalf("exchange the token of a job: got %d %s", page.status, page.body)
	}
	return answer.AccessToken
}

// job holds the claims that the CI system signs for a job.
func (v *visitors) job(t *testing.T, name string) string {
	t.Helper()
	now := time.Now()
	token, err := jwt.Signed(v.ci).Claims(map[string]any{
		"iss": "https://ci.example", "aud": "leat", "sub": "job of " + name, "member": name, "owner": "acme",
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// sessionCookie is the cookie of a browser's session at the hub.
const sessionCookie = "__Host-leat-session"

// bySession signs a person in at the provider with a browser, whose session buys an access token.
func (v *visitors) bySession(t *testing.T, name string) string {
	t.Helper()
	return v.buy(t, v.signIn(t, name))
}

// signIn returns the cookie of a new session.
func (v *visitors) signIn(t *testing.T, name string) string {
	t.Helper()
	b := newBrowser(t)
	form := b.do(t, http.MethodGet, v.rig.distributor+"/login", nil)
	id := requestID.FindStringSubmatch(form.body)
	if id == nil {
		t.Fatalf("got %d, want the form of the provider:\n%s", form.status, form.body)
	}
	end := b.do(t, http.MethodPost, v.provider+"/login/username", url.Values{"id": {id[1]}, "username": {name}, "password": {openid.Password}})
	cookie := b.value(v.rig.distributor, sessionCookie)
	if end.status != http.StatusOK || cookie == "" {
		t.Fatalf("sign in as %s: got %d:\n%s", name, end.status, end.body)
	}
	return cookie
}

// buy trades a session for an access token, as the hub's own page does.
func (v *visitors) buy(t *testing.T, cookie string) string {
	t.Helper()
	page := v.trade(t, cookie, "same-origin")
	var answer struct{ AccessToken string }
	if err := json.Unmarshal([]byte(page.body), &answer); err != nil || answer.AccessToken == "" {
		t.Fatalf("trade a session: got %d %s", page.status, page.body)
	}
	return answer.AccessToken
}

// trade asks for an access token with a cookie, as a page of that site does.
func (v *visitors) trade(t *testing.T, cookie, site string) seen {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		v.rig.distributor+fleetv1connect.SessionServiceCreateAccessTokenProcedure, strings.NewReader(`{"audience": "tunnel"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Cookie", sessionCookie+"="+cookie)
	request.Header.Set("Sec-Fetch-Site", site)
	return newBrowser(t).send(t, request)
}

const providerSecret = "the secret of the hub at the provider"

// requestID finds the hidden field of the provider's form.
var requestID = regexp.MustCompile(`name="id" value="([^"]+)"`)

// startProvider runs an OpenID provider that knows the people.
func startProvider(t *testing.T, hub string, people []member) string {
	t.Helper()
	known := map[string][]string{}
	for _, m := range people {
		known[m.name] = nil
	}
	server := httptest.NewUnstartedServer(nil)
	server.Config.Handler = openid.New(openid.Params{
		Issuer: "http://" + server.Listener.Addr().String(), Hub: hub, Secret: providerSecret, People: known,
	})
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// browser is a client that keeps cookies, also those for https alone: browsers treat the loopback
// address as safe, and the jar of the standard library does not.
type browser struct {
	client http.Client

	mu      sync.Mutex
	cookies map[string]map[string]string // values by host and name
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	b := &browser{cookies: map[string]map[string]string{}}
	b.client = http.Client{Transport: transport, Jar: b}
	return b
}

// SetCookies implements http.CookieJar.
func (b *browser) SetCookies(u *url.URL, cookies []*http.Cookie) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cookies[u.Host] == nil {
		b.cookies[u.Host] = map[string]string{}
	}
	for _, c := range cookies {
		b.cookies[u.Host][c.Name] = c.Value
	}
}

// Cookies implements http.CookieJar.
func (b *browser) Cookies(u *url.URL) []*http.Cookie {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []*http.Cookie
	for name, value := range b.cookies[u.Host] {
		if value != "" {
			all = append(all, &http.Cookie{Name: name, Value: value})
		}
	}
	return all
}

// value returns a cookie for an address.
func (b *browser) value(address, name string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cookies[u.Host][name]
}

// seen is a page that a browser shows.
type seen struct {
	status int
	body   string
}

func (b *browser) do(t *testing.T, method, address string, form url.Values) seen {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return b.send(t, request)
}

func (b *browser) send(t *testing.T, request *http.Request) seen {
	t.Helper()
	response, err := b.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return seen{status: response.StatusCode, body: string(body)}
}

// kubeCreate creates an object as the cluster's administrator, and repeats that until it is possible:
// a namespace gets its service account after a while.
func (r *rig) kubeCreate(t *testing.T, path, body string) {
	t.Helper()
	await.Success(t, "the creation of an object at "+path, func(ctx context.Context) error { return r.kubePost(ctx, path, body) })
}

// kubeWait waits until what the cluster answers its administrator holds a text.
func (r *rig) kubeWait(t *testing.T, path, text string) {
	t.Helper()
	await.Success(t, text+" in "+path, func(ctx context.Context) error {
		body, err := r.kubeGet(ctx, path)
		if err == nil && !bytes.Contains(body, []byte(text)) {
			err = fmt.Errorf("got %s", body)
		}
		return err
	})
}

func (r *rig) kubeGet(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.cluster.Host()+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := r.cluster.HTTPClient().Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("get %s: %s", path, response.Status)
	}
	return body, err
}

// agentTokens enrols the agent of a further cluster in a project, and returns its tokens by the service
// that they are for.
func (v *visitors) agentTokens(t *testing.T, project string) map[string]string {
	t.Helper()
	v.rig.apply(t, &fleetv1.Document{Object: &fleetv1.Document_Cluster{Cluster: &fleetv1.Cluster{
		Metadata: &typev1.Metadata{Project: project, Name: "neighbour"},
	}}})
	joined, err := v.rig.fleet.CreateJoinToken(t.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: project + "/neighbour"})
	if err != nil {
		t.Fatal(err)
	}
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	agents := distributorv1connect.NewDistributorServiceClient(http.DefaultClient, v.rig.distributor)
	if _, err := agents.Enroll(t.Context(), &distributorv1.EnrollRequest{JoinToken: joined.GetJoinToken(), PublicKey: public}); err != nil {
		t.Fatal(err)
	}
	assertion, err := identity.SignAssertion(key, objectname.Join(project, "neighbour"))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := agents.RefreshToken(t.Context(), &distributorv1.RefreshTokenRequest{Assertion: assertion})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{identity.ServiceDistributor: answer.GetAccessToken(), identity.ServiceTunnel: answer.GetTunnelToken()}
}
