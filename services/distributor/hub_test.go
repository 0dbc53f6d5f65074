// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/auditout"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/services/distributor"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

const adminToken = "leat_the-admin-token-of-this-test"

// hub is a running distributor with the gitcache that it talks to.
type hub struct {
	git    *fakeGit
	dir    string
	url    string
	cfg    distributor.Config
	cancel context.CancelFunc
	done   chan error
}

// startHub starts both; change may alter the settings.
func startHub(t *testing.T, change ...func(*distributor.Config)) *hub {
	t.Helper()
	return startReplica(t, startFakeGit(t), change...)
}

// startReplica starts a distributor that talks to the given gitcache.
func startReplica(t *testing.T, git *fakeGit, change ...func(*distributor.Config)) *hub {
	t.Helper()
	watches := git.watches()
	h := newReplica(t, git, change...)
	h.start(t)
	await.True(t, "the distributor to watch gitcache", func() bool { return git.watches() > watches })
	return h
}

// newReplica returns a distributor that is not started yet.
func newReplica(t *testing.T, git *fakeGit, change ...func(*distributor.Config)) *hub {
	t.Helper()
	h := &hub{git: git, dir: t.TempDir()}
	h.cfg = distributor.Config{
		DataDir:     filepath.Join(h.dir, "data"),
		DatabaseURL: "sqlite://" + filepath.Join(h.dir, "sql", "leat.db"),
		GitCacheURL: h.git.url,
		Service:     hubkeys.Config(identity.ServiceDistributor),
		AdminToken:  secret.Text(adminToken),
		Addresses:   distributor.Addresses{TunnelURL: "https://tunnel.example"},
		Intervals:   distributor.Intervals{CatalogPoll: 50 * time.Millisecond},
		Audit:       distributor.AuditConfig{Config: auditout.Config{Outputs: []string{"none"}}},
		Telemetry:   telemetry.Config{LogOutput: t.Output()},
	}
	for _, c := range change {
		c(&h.cfg)
	}
	return h
}

// start runs the distributor on a new port until stop or the end of the test.
func (h *hub) start(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.giveDatabase(t)
	ctx, cancel := context.WithCancel(context.Background())
	cfg := h.cfg
	cfg.Serve.Listener = listener
	cfg.Serve.DrainTimeout = 5 * time.Second
	h.url, h.cancel, h.done = "http://"+listener.Addr().String(), cancel, make(chan error, 1)
	go func(done chan error) { done <- distributor.Run(ctx, cfg) }(h.done)
	t.Cleanup(func() { h.stop(t) })
}

// emptyDatabase returns a SQLite file as a first start makes it with the usual keys. To make it takes longer
// than most tests.
var emptyDatabase = sync.OnceValues(func() (content []byte, err error) {
	dir, err := os.MkdirTemp("", "leat-empty-database")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	service := hubkeys.Config(identity.ServiceDistributor)
	secrets, err := service.Secrets()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "leat.db")
	store, err := sqlstore.Open(context.Background(), "sqlite://"+file, secrets[0])
	if err != nil {
		return nil, err
	}
	if err := store.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

// giveDatabase puts an empty database where a hub with the usual keys would make one.
func (h *hub) giveDatabase(t *testing.T) {
	t.Helper()
	file, isFile := strings.CutPrefix(h.cfg.DatabaseURL, "sqlite://")
	if !isFile || !reflect.DeepEqual(h.cfg.Keys, distributor.KeyConfig{}) || !reflect.DeepEqual(h.cfg.Service, hubkeys.Config(identity.ServiceDistributor)) {
		return
	}
	if _, err := os.Stat(file); err == nil {
		return
	}
	content, err := emptyDatabase()
	if err = cmp.Or(err, os.MkdirAll(filepath.Dir(file), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// stop ends the distributor and waits for it.
func (h *hub) stop(t *testing.T) {
	t.Helper()
	h.cancel()
	if h.done == nil {
		return
	}
	if err := <-h.done; err != nil {
		t.Errorf("distributor ended with %v", err)
	}
	h.done = nil
}

func (h *hub) client(t *testing.T, token string) rpc.Client {
	t.Helper()
	client, err := rpc.NewClient(rpc.ClientParams{BaseURL: h.url, Tokens: identity.StaticToken(token), Telemetry: telemetry.Noop()})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (h *hub) fleet(t *testing.T, token string) fleetv1connect.FleetServiceClient {
	c := h.client(t, token)
	return fleetv1connect.NewFleetServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

func (h *hub) keyService(t *testing.T) fleetv1connect.KeyServiceClient {
	t.Helper()
	c := h.client(t, adminToken)
	return fleetv1connect.NewKeyServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

func (h *hub) notifiers(t *testing.T, token string) fleetv1connect.NotifierServiceClient {
	t.Helper()
	c := h.client(t, token)
	return fleetv1connect.NewNotifierServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

func (h *hub) rollouts(t *testing.T, token string) fleetv1connect.RolloutServiceClient {
	t.Helper()
	c := h.client(t, token)
	return fleetv1connect.NewRolloutServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

func (h *hub) agents(t *testing.T, token string) distributorv1connect.DistributorServiceClient {
	c := h.client(t, token)
	return distributorv1connect.NewDistributorServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

func (h *hub) access(t *testing.T, token string) distributorv1connect.AccessServiceClient {
	c := h.client(t, token)
	return distributorv1connect.NewAccessServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

func serviceToken(t *testing.T) string {
	t.Helper()
	tokens := hubkeys.Tokens(identity.ServiceTunnel, identity.ServiceDistributor)
	token, err := tokens.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// agentKey is an enrolled agent.
type agentKey struct {
	cluster string
	key     ed25519.PrivateKey
	token   string
}

// enrol enrols an agent for the cluster and gets it a token.
func (h *hub) enrol(t *testing.T, cluster string) *agentKey {
	t.Helper()
	return h.enrolPath(t, cluster, cluster)
}

// enrolPath is enrol for a cluster of any project, whose path the agent is told.
func (h *hub) enrolPath(t *testing.T, reference, cluster string) *agentKey {
	t.Helper()
	join, err := h.fleet(t, adminToken).CreateJoinToken(t.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: reference})
	if err != nil {
		t.Fatal(err)
	}
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := h.agents(t, "").Enroll(t.Context(), &distributorv1.EnrollRequest{JoinToken: join.GetJoinToken(), PublicKey: public, AgentVersion: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	if res.GetCluster() != cluster || res.GetTunnelUrl() != h.cfg.TunnelURL {
		t.Fatalf("got %v, want cluster %s", res, cluster)
	}
	a := &agentKey{cluster: cluster, key: key}
	a.token = h.refresh(t, a)
	return a
}

func (h *hub) refresh(t *testing.T, a *agentKey) string {
	t.Helper()
	assertion, err := identity.SignAssertion(a.key, a.cluster)
	if err != nil {
		t.Fatal(err)
	}
	res, err := h.agents(t, "").RefreshToken(t.Context(), &distributorv1.RefreshTokenRequest{Assertion: assertion})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetAccessToken()
}

func clusterDocument(name string) *fleetv1.Document {
	return &fleetv1.Document{Object: &fleetv1.Document_Cluster{Cluster: &fleetv1.Cluster{
		Metadata: &typev1.Metadata{Name: name}, Spec: &fleetv1.ClusterSpec{Description: "a cluster"},
	}}}
}

// bindingDocument makes a user an admin of a cluster.
func bindingDocument(name, user, cluster string) *fleetv1.Document {
	return &fleetv1.Document{Object: &fleetv1.Document_AccessBinding{AccessBinding: &fleetv1.AccessBinding{
		Metadata: &typev1.Metadata{Name: name},
		Spec: &fleetv1.AccessBindingSpec{
			Users: []string{user}, Clusters: &fleetv1.ClusterSelection{Names: []string{cluster}}, Role: typev1.AccessRole_ACCESS_ROLE_ADMIN,
		},
	}}}
}

// providerDocument is an identity provider with a public client.
func providerDocument(name, issuer string) *fleetv1.Document {
	return &fleetv1.Document{Object: &fleetv1.Document_IdentityProvider{IdentityProvider: &fleetv1.IdentityProvider{
		Metadata: &typev1.Metadata{Name: name}, Spec: &fleetv1.IdentityProviderSpec{Issuer: issuer, ClientId: "leat"},
	}}}
}

func trustRuleDocument(name string, spec *fleetv1.TrustRuleSpec) *fleetv1.Document {
	return &fleetv1.Document{Object: &fleetv1.Document_TrustRule{TrustRule: &fleetv1.TrustRule{Metadata: &typev1.Metadata{Name: name}, Spec: spec}}}
}

// backendDocument is a configuration back end that reads the environment, for no project.
func backendDocument(name string) *fleetv1.Document {
	return &fleetv1.Document{Object: &fleetv1.Document_ConfigBackend{ConfigBackend: &fleetv1.ConfigBackend{
		Metadata: &typev1.Metadata{Name: name},
		Spec:     &fleetv1.ConfigBackendSpec{Kind: &fleetv1.ConfigBackendSpec_Environment{Environment: &fleetv1.EnvironmentBackend{}}},
	}}}
}

func setDocument(name string, config *fleetv1.ServiceConfig) *fleetv1.Document {
	return fleetdoc.Of(&fleetv1.ConfigSet{Metadata: &typev1.Metadata{Name: name}, Spec: &fleetv1.ConfigSetSpec{Config: config}})
}

func slackDocument(name, url string) *fleetv1.Document {
	return fleetdoc.Of(&fleetv1.Notifier{
		Metadata: &typev1.Metadata{Name: name},
		Spec:     &fleetv1.NotifierSpec{Sink: &fleetv1.NotifierSpec_Slack{Slack: &fleetv1.SlackSink{Url: &url}}},
	})
}

func repositoryDocument(name string) *fleetv1.Document {
	return &fleetv1.Document{Object: &fleetv1.Document_Repository{Repository: &fleetv1.Repository{
		Metadata: &typev1.Metadata{Name: name}, Spec: &fleetv1.RepositorySpec{Url: "https://git.example/" + name + ".git"},
	}}}
}

func serviceDocument(name, cluster, repository, path string) *fleetv1.Document {
	return &fleetv1.Document{Object: &fleetv1.Document_Service{Service: &fleetv1.Service{
		Metadata: &typev1.Metadata{Name: name},
		Spec: &fleetv1.ServiceSpec{Cluster: cluster, Sources: []*typev1.Source{{
			Repository: repository, Path: path,
			Ref: &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: "main"}},
		}}},
	}}}
}

func (h *hub) apply(t *testing.T, documents ...*fleetv1.Document) *fleetv1.ApplyResponse {
	t.Helper()
	res, err := h.fleet(t, adminToken).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: documents})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// demo applies a cluster, a repository and the service app, whose folder holds the content.
func (h *hub) demo(t *testing.T, content *folder) {
	t.Helper()
	h.git.set("demo", "app", content)
	h.apply(t, serviceDocument("app", "one", "demo", "app"), repositoryDocument("demo"), clusterDocument("one"))
}

// planStream is an open WatchPlan.
type planStream struct {
	stream *connect.ServerStreamForClient[distributorv1.WatchPlanResponse]
}

func (h *hub) watchPlan(t *testing.T, token, known string) *planStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	t.Cleanup(cancel)
	stream, err := h.agents(t, token).WatchPlan(ctx, &distributorv1.WatchPlanRequest{KnownVersion: known})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Close() })
	return &planStream{stream: stream}
}

// next returns the next plan of the stream.
func (p *planStream) next(t *testing.T) *distributorv1.Plan {
	t.Helper()
	for p.stream.Receive() {
		if plan := p.stream.Msg().GetPlan(); plan != nil {
			return plan
		}
	}
	t.Fatalf("stream ended without a plan: %v", p.stream.Err())
	return nil
}

// nextWith returns the first plan whose service app has the digest.
func (p *planStream) nextWith(t *testing.T, digest string) *distributorv1.Plan {
	t.Helper()
	for {
		plan := p.next(t)
		for _, service := range plan.GetServices() {
			if len(service.GetBundles()) > 0 && service.GetBundles()[0].GetDigest() == digest {
				return plan
			}
		}
	}
}

// end reads the stream to its end and returns its error.
func (p *planStream) end() error {
	more := true
	for more {
		more = p.stream.Receive()
	}
	return p.stream.Err()
}

// waitService watches the fleet until the service satisfies the condition.
func (h *hub) waitService(t *testing.T, name string, done func(*fleetv1.Service) bool) *fleetv1.Service {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	stream, err := h.fleet(t, adminToken).Watch(ctx, &fleetv1.WatchRequest{Kind: "Service", Name: name})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	var last *fleetv1.Service
	for stream.Receive() {
		service := stream.Msg().GetDocument().GetService()
		if service == nil {
			continue
		}
		if last = service; done(service) {
			return service
		}
	}
	t.Fatalf("service %s is %v, wait ended with %v", name, last, stream.Err())
	return nil
}

// download asks for a bundle as agents do.
func (h *hub) download(t *testing.T, token, digest string, header http.Header) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/v1/bundles/"+digest, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", bundle.MediaType)
	req.Header.Set("Accept-Encoding", "zstd")
	for key, values := range header {
		req.Header[key] = values
	}
	res, err := h.client(t, token).HTTP.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res, body
}

// wantReason fails unless the error has the reason.
func wantReason(t *testing.T, err error, reason string) {
	t.Helper()
	if got := strings.TrimPrefix(rpcerr.ReasonOf(err).String(), "REASON_"); got != reason {
		t.Errorf("got %s (%v), want %s", got, err, reason)
	}
}
