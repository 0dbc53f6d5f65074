// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/services/distributor"
)

const password = "a password of this test"

// openID is a real OpenID provider: zitadel/oidc over its own example of a store, with groups,
// people who leave, and keys that are replaced.
type openID struct {
	*storage.Storage
	url    string
	server *httptest.Server

	mu     sync.Mutex
	groups map[string][]string // by user
	gone   map[string]bool
	down   bool
	key    *signingKey // nil: the example's own
	keyed  int         // reads of the key set
}

// people are the users of a provider. A user's id and name are the same.
type users map[string]*storage.User

func (u users) GetUserByID(id string) *storage.User         { return u[id] }
func (u users) GetUserByUsername(name string) *storage.User { return u[name] }
func (users) ExampleClientID() string                       { return storage.ServiceUserID }

// startOpenID starts a provider that knows the hub as the client "leat" with the given secret.
func startOpenID(t *testing.T, hub, secret string, names ...string) *openID {
	t.Helper()
	known := users{}
	for _, name := range names {
		known[name] = &storage.User{ID: name, Username: name, Password: password, Email: name + "@example.com", EmailVerified: true}
	}
	p := &openID{groups: map[string][]string{}, gone: map[string]bool{}}
	p.Storage = storage.NewStorageWithClients(known, map[string]*storage.Client{"leat": storage.WebClient("leat", secret, hub+"/login/callback")})
	var handler atomic.Pointer[http.Handler]
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.isDown() {
			panic(http.ErrAbortHandler)
		}
		(*handler.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(p.server.Close)
	p.url = p.server.URL
	made := http.Handler(exampleop.SetupServer(p.url, p, slog.New(slog.DiscardHandler), false))
	handler.Store(&made)
	return p
}

func (p *openID) isDown() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.down
}

// set changes the provider.
func (p *openID) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// TokenRequestByRefreshToken implements op.Storage: people who left get no new tokens.
func (p *openID) TokenRequestByRefreshToken(ctx context.Context, token string) (op.RefreshTokenRequest, error) {
	request, err := p.Storage.TokenRequestByRefreshToken(ctx, token)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone[request.GetSubject()] {
		return nil, errors.New("the person has left")
	}
	return request, nil
}

// SetUserinfoFromRequest implements op.CanSetUserinfoFromRequest.
func (p *openID) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, token op.IDTokenRequest, scopes []string) error {
	return errors.Join(p.Storage.SetUserinfoFromRequest(ctx, info, token, scopes), p.addGroups(info, token.GetSubject()))
}

// SetUserinfoFromToken implements op.Storage.
func (p *openID) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, token, subject, origin string) error {
	return errors.Join(p.Storage.SetUserinfoFromToken(ctx, info, token, subject, origin), p.addGroups(info, subject))
}

func (p *openID) addGroups(info *oidc.UserInfo, subject string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	info.AppendClaims("groups", p.groups[subject])
	return nil
}

// signingKey implements op.SigningKey and op.Key.
type signingKey struct {
	id  string
	key *rsa.PrivateKey
}

func (k *signingKey) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k *signingKey) Algorithm() jose.SignatureAlgorithm          { return jose.RS256 }
func (k *signingKey) Use() string                                 { return "sig" }
func (k *signingKey) ID() string                                  { return k.id }
func (k *signingKey) Key() any                                    { return k.key }

type publicKey struct{ *signingKey }

func (k publicKey) Key() any { return &k.key.PublicKey }

// rotate replaces the provider's key. The old one verifies nothing from now on.
func (p *openID) rotate(t *testing.T) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p.set(func() { p.key = &signingKey{id: rand.Text(), key: key} })
}

// SigningKey implements op.Storage.
func (p *openID) SigningKey(ctx context.Context) (op.SigningKey, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.key != nil {
		return p.key, nil
	}
	return p.Storage.SigningKey(ctx)
}

// KeySet implements op.Storage.
func (p *openID) KeySet(ctx context.Context) ([]op.Key, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keyed++
	if p.key != nil {
		return []op.Key{publicKey{p.key}}, nil
	}
	return p.Storage.KeySet(ctx)
}

// gate is a hub with people who sign in by providers. Browsers reach it over TLS, at a front.
type gate struct {
	*crowd
	front *httptest.Server
}

func newGate(t *testing.T, change ...func(*distributor.Config)) *gate {
	t.Helper()
	var behind atomic.Pointer[hub]
	front := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		to, _ := url.Parse(behind.Load().url)
		r.SetURL(to)
		r.SetXForwarded()
		r.Out.Host = r.In.Host
	}})
	t.Cleanup(front.Close)
	h := startHub(t, append(change, func(c *distributor.Config) {
		c.PublicURL, c.AllowLocalAgents = front.URL, true
	})...)
	behind.Store(h)
	return &gate{crowd: &crowd{hub: h, admin: h.fleet(t, adminToken)}, front: front}
}

// provide makes a provider known to the hub.
func (g *gate) provide(t *testing.T, name string, p *openID, change ...func(*fleetv1.IdentityProviderSpec)) {
	t.Helper()
	spec := &fleetv1.IdentityProviderSpec{Issuer: p.url, ClientId: "leat", ClientSecret: new("the secret of " + name)}
	for _, c := range change {
		c(spec)
	}
	g.apply(t, &fleetv1.Document{Object: &fleetv1.Document_IdentityProvider{IdentityProvider: &fleetv1.IdentityProvider{
		Metadata: &typev1.Metadata{Name: name}, Spec: spec,
	}}})
}

// company is a provider of that name which the hub knows.
func (g *gate) company(t *testing.T, name string, people ...string) *openID {
	t.Helper()
	p := startOpenID(t, g.front.URL, "the secret of "+name, people...)
	g.provide(t, name, p)
	return p
}

// browser is a client that keeps cookies as browsers do, and names where its requests come from.
type browser struct {
	*http.Client
	gate *gate
}

func (g *gate) browser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := *g.front.Client()
	client.Jar = jar
	client.Transport = navigation{client.Transport}
	client.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if r.URL.Path == "/callback" || len(via) > 10 {
			return http.ErrUseLastResponse // a command line listens there
		}
		return nil
	}
	return &browser{Client: &client, gate: g}
}

// navigation marks requests as a browser marks the ones that show a page.
type navigation struct{ next http.RoundTripper }

func (n navigation) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range map[string]string{"Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "cross-site"} {
		if r.Header.Get(name) == "" {
			r.Header.Set(name, value)
		}
	}
	return n.next.RoundTrip(r)
}

// seen is a page that a browser shows, or the redirect at which it stopped.
type seen struct {
	status   int
	url      *url.URL
	location *url.URL
	body     string
	header   http.Header
}

func (b *browser) do(t *testing.T, method, address string, form url.Values, header ...string) seen {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := b.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	return read(t, response)
}

func read(t *testing.T, response *http.Response) seen {
	t.Helper()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	s := seen{status: response.StatusCode, url: response.Request.URL, body: string(body), header: response.Header}
	if text := response.Header.Get("Location"); text != "" {
		if s.location, err = response.Request.URL.Parse(text); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

var requestID = regexp.MustCompile(`name="id" value="([^"]+)"`)

// signIn opens an address of the hub, types name and password at the provider, and returns where
// that ends.
func (b *browser) signIn(t *testing.T, address, name string) seen {
	t.Helper()
	page := b.do(t, http.MethodGet, address, nil)
	return b.typeAt(t, page, name)
}

// typeAt fills in the form of a provider.
func (b *browser) typeAt(t *testing.T, page seen, name string) seen {
	t.Helper()
	id := requestID.FindStringSubmatch(page.body)
	if id == nil {
		t.Fatalf("got %d %s, want the form of the provider:\n%s", page.status, page.url, page.body)
	}
	return b.do(t, http.MethodPost, page.url.Scheme+"://"+page.url.Host+"/login/username", url.Values{
		"id": {id[1]}, "username": {name}, "password": {password},
	})
}
