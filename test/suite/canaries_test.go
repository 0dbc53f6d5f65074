// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/canarytest"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/internal/testkit/otlptest"
)

// notebook keeps what the services of a hub log.
type notebook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notebook) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notebook) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// parrot is an upstream that refuses everybody, and repeats their credentials in its answer, as they
// were sent and decoded. It keeps what it has said.
type parrot struct{ said notebook }

func (p *parrot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	said := fmt.Sprint(r.URL, r.Header)
	if user, password, ok := r.BasicAuth(); ok {
		said += " " + user + ":" + password
	}
	_, _ = fmt.Fprintln(&p.said, said)
	for name, values := range r.Header {
		w.Header()["X-"+name] = values
	}
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("WWW-Authenticate", fmt.Sprintf("Basic realm=%q", said))
	status := http.StatusForbidden
	if r.Header.Get("Authorization") == "" {
		status = http.StatusUnauthorized
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, said)
}

// refusing are documents with credentials that upstreams refuse. The names of the repositories
// begin with control.
func refusing(set *canarytest.Set, control, upstream string) (documents []*fleetv1.Document, repositories []string) {
	add := func(name string, spec *fleetv1.RepositorySpec) {
		name = control + "-" + name
		documents = append(documents, fleetdoc.Of(&fleetv1.Repository{Metadata: &typev1.Metadata{Name: name}, Spec: spec}))
		repositories = append(repositories, name)
	}
	basic := func(place string) *gitcachev1.Credential {
		return &gitcachev1.Credential{AllowPlainHttp: true, Method: &gitcachev1.Credential_Basic{Basic: &gitcachev1.BasicCredential{Username: "u", Password: set.Plant(place)}}}
	}
	add("git", &fleetv1.RepositorySpec{Url: upstream + "/git.git", Credential: basic("a Git password"), WebhookSecret: new(set.PlantWord("a webhook"))})
	add("bearer", &fleetv1.RepositorySpec{Url: upstream + "/bearer.git", Credential: &gitcachev1.Credential{
		AllowPlainHttp: true, Method: &gitcachev1.Credential_Bearer{Bearer: &gitcachev1.BearerCredential{Token: set.PlantWord("a bearer token")}},
	}})
	add("helm", &fleetv1.RepositorySpec{Type: gitcachev1.RepositoryType_REPOSITORY_TYPE_HELM, Url: upstream + "/charts", Credential: basic("a password for charts")})
	add("oci", &fleetv1.RepositorySpec{
		Type: gitcachev1.RepositoryType_REPOSITORY_TYPE_OCI, Url: strings.Replace(upstream, "http://", "oci+http://", 1) + "/apps/web", Credential: basic("a registry's password"),
	})
	add("proxied", &fleetv1.RepositorySpec{
		Url: "https://git.invalid/proxied.git", ProxyUrl: strings.Replace(upstream, "http://", "http://u:"+set.PlantWord("a proxy's password")+"@", 1),
	})
	documents = append(documents, fleetdoc.Of(&fleetv1.Notifier{Metadata: &typev1.Metadata{Name: "hook"}, Spec: &fleetv1.NotifierSpec{
		Sink: &fleetv1.NotifierSpec_Webhook{Webhook: &fleetv1.WebhookSink{
			Url: new("https://hook.invalid/" + set.PlantWord("a notifier's URL")), HmacKey: new(set.PlantWord("a notifier's key")),
		}},
	}}))
	return documents, repositories
}

// TestSecCanariesOfAHub gives a hub secrets of every kind, some of which upstreams refuse with an
// answer that repeats them, and people who show theirs where they do not belong. It searches
// traces, logs and metrics of gitcache, distributor and tunnel, what people are shown, Redis, the
// database and the disk. It is not parallel, because the environment configures exporters.
func TestSecCanariesOfAHub(t *testing.T) {
	collected, set, control := otlptest.Traces(t), &canarytest.Set{}, &canarytest.Set{}
	name := control.PlantWord("the name of an object")
	h := startServices(t, map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "LEAT_LOG_LEVEL": "debug"})
	log := &notebook{}
	members := []*member{h.gitcache, h.distributor, h.tunnel}
	for _, m := range members {
		m.stop()
	}
	h.log = log
	for _, m := range members {
		m.start(t)
		set.Add("the secret of "+m.name, hubkeys.Secret(m.name))
	}
	h.waitReady(t, members...)
	h.enrol(t)
	h.grantAdmins(t)
	refuses := &parrot{}
	upstream := httptest.NewServer(refuses)
	t.Cleanup(upstream.Close)
	documents, repositories := refusing(set, name, upstream.URL)
	repo := h.upstream.Repo(t, "shop")
	commit := repo.Commit(t, "main", map[string]string{"login/secret.yaml": login})
	password := set.PlantWord("the password of a repository that is fetched")
	h.upstream.SetBasicAuth("u", password)
	shop := repository("shop", repo.URL())
	shop.GetRepository().Spec.Credential = &gitcachev1.Credential{AllowPlainHttp: true, Method: &gitcachev1.Credential_Basic{Basic: &gitcachev1.BasicCredential{Username: "u", Password: password}}}
	app := service("login", "shop", "login")
	app.GetService().Spec.Config = &fleetv1.ServiceConfig{Secrets: map[string]string{"PASSWORD": set.Plant("a configuration")}}
	h.apply(t, append(documents, shop, app)...)
	h.waitService(t, "login", "healthy with its secret", healthyAt(commit))
	var shown strings.Builder
	for _, repository := range repositories {
		await.Poll(t, repository+" to be refused", pause, func() (bool, string) {
			res, err := fleetcalls.Get[*fleetv1.Repository](t.Context(), h.fleet, repository)
			if err != nil || res.GetStatus().GetProblem().GetMessage() == "" {
				return false, fmt.Sprint(res, err)
			}
			shown.WriteString(protojson.Format(res))
			return true, ""
		})
	}
	h.misplace(t, set, name)
	said := strings.Join(set.Find(refuses.said.String()), ", ")
	for _, place := range []string{"a Git password", "a bearer token", "a password for charts", "a registry's password", "a proxy's password"} {
		if !strings.Contains(said, place) {
			t.Errorf("the upstream has repeated %s, want %s as well", said, place)
		}
	}

	var metrics strings.Builder
	for _, m := range members {
		code, text := get(t, http.DefaultClient, "http://"+m.internal+"/metrics", "")
		if code != http.StatusOK || !strings.Contains(text, "leat_") {
			t.Errorf("got %d and %d bytes of metrics from %s", code, len(text), m.name)
		}
		metrics.WriteString(text)
	}
	inRedis := h.inRedis(t)
	for _, m := range members {
		m.stop() // exports the last spans
	}
	search := func(where, text string, isNamed bool) {
		t.Helper()
		if isNamed && len(control.Find(text)) == 0 {
			t.Errorf("%s names no repository, so that a secret would not be found either", where)
		}
		set.Check(t, where, text)
	}
	search("what people are shown", shown.String(), true)
	search("metrics", metrics.String(), false)
	search("logs", log.String(), true)
	search("Redis", inRedis, true)
	spans := map[string]*strings.Builder{}
	for _, span := range collected.Spans() {
		if spans[span.Service] == nil {
			spans[span.Service] = &strings.Builder{}
		}
		spans[span.Service].WriteString(protojson.Format(span.Span))
	}
	for _, m := range members {
		if spans[m.name] == nil {
			t.Fatalf("got no span of %s", m.name)
		}
		search("a trace of "+m.name, spans[m.name].String(), m.name != "distributor") // whose spans name procedures
	}
	for _, part := range []string{"gitcache", "distributor", "leat.db", "leat.db-wal"} {
		search("the disk: "+part, h.onDisk(t, part), part == "gitcache")
	}
}

// misplace has people and agents show secrets where they are refused, and where they do not belong.
func (h *hub) misplace(t *testing.T, set *canarytest.Set, name string) {
	t.Helper()
	wrong := "leat_" + set.PlantWord("a token that is not known")
	if _, err := fleetcalls.Get[*fleetv1.Service](t.Context(), h.fleetClient(t, wrong), name); err == nil {
		t.Error("want no answer to a wrong token")
	}
	join, err := h.fleet.CreateJoinToken(t.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	set.Add("a join token", join.GetJoinToken())
	agents := distributorv1connect.NewDistributorServiceClient(http.DefaultClient, h.distributor.url())
	if _, err := agents.Enroll(t.Context(), &distributorv1.EnrollRequest{JoinToken: join.GetJoinToken(), PublicKey: []byte("short")}); err == nil {
		t.Error("want no enrolment with half a key")
	}
	access, err := h.fleet.CreateAccessToken(t.Context(), &fleetv1.CreateAccessTokenRequest{Audience: identity.ServiceTunnel})
	if err != nil {
		t.Fatal(err)
	}
	_, signed, _ := strings.Cut(access.GetAccessToken(), ".") // all tokens begin alike
	set.Add("an access token", signed)
	path := h.tunnel.url() + "/clusters/demo/api/v1/namespaces/" + name + "/configmaps"
	query := "?fieldManager=" + set.PlantWord("a query") + "&command=" + set.PlantWord("a command")
	await.Poll(t, "an answer through the tunnel", pause, func() (bool, string) {
		code, body := get(t, http.DefaultClient, path+query, access.GetAccessToken())
		return code == http.StatusOK, body
	})
	get(t, http.DefaultClient, path+query, wrong)
	object := `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"a": "` +
		base64.StdEncoding.EncodeToString([]byte(set.Plant("a Secret that a person writes"))) + `"}}`
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.tunnel.url()+"/clusters/demo/api/v1/namespaces/"+name+"/secrets", strings.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+access.GetAccessToken())
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Cookie", "session="+set.PlantWord("a cookie"))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
}

// inRedis returns every key and value.
func (h *hub) inRedis(t *testing.T) string {
	t.Helper()
	client := h.redis.Client(t)
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, key := range keys {
		kind, err := client.Type(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		var value any
		switch kind {
		case "string":
			value, err = client.Get(t.Context(), key).Result()
		case "hash":
			value, err = client.HGetAll(t.Context(), key).Result()
		case "stream":
			value, err = client.XRange(t.Context(), key, "-", "+").Result()
		case "list":
			value, err = client.LRange(t.Context(), key, 0, -1).Result()
		case "set":
			value, err = client.SMembers(t.Context(), key).Result()
		case "zset":
			value, err = client.ZRange(t.Context(), key, 0, -1).Result()
		case "none": // it has expired
		default:
			t.Errorf("key %s has the type %s, which this test does not read", key, kind)
		}
		if err != nil && kind != "none" {
			_, _ = fmt.Fprintln(&all, key, err)
			continue
		}
		_, _ = fmt.Fprintln(&all, key, value)
	}
	return all.String()
}

// onDisk returns all files below a part of the hub's folder.
func (h *hub) onDisk(t *testing.T, part string) string {
	t.Helper()
	var all bytes.Buffer
	err := filepath.WalkDir(filepath.Join(h.dir, part), func(path string, entry fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // such as the log of a database that was closed
		}
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		_, _ = fmt.Fprintln(&all, path)
		all.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
