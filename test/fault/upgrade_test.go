// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	agentv1 "github.com/leatdev/leat/gen/go/leat/agent/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/selfsigned"
)

// notInCheckout is the exit code of tools/before/build.sh where the version before cannot be built.
const notInCheckout = 3

// before returns the folder with the programs of the version before. It skips the test where the
// checkout does not have that version.
func before(t *testing.T) string {
	t.Helper()
	said := &strings.Builder{}
	command := exec.CommandContext(t.Context(), "../../tools/before/build.sh")
	command.Stderr = said
	out, err := command.Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == notInCheckout:
		t.Skip(said)
	case err != nil:
		t.Fatalf("build the version before: %v\n%s", err, said)
	}
	return strings.TrimSpace(string(out))
}

const (
	// realCluster is the cluster that has an agent of its own. The others have wanderers.
	realCluster = "real"
	// ownSpace and globalSpace are the namespaces of its two services, which have the same content.
	ownSpace, globalSpace = "own", "global"
)

// upgrade is a whole hub with a cluster, whose processes are replaced one after the other.
type upgrade struct {
	*hub
	tunnels []*process
	agent   *process
	cluster *localkube.ControlPlane
	kubectl string
	door    *door // of the distributors
	front   *door // of the tunnels, with TLS
	ca      selfsigned.Certificate

	wanderer *wanderer
	readers  []*reader
	viewer   *viewer
	session  *session
	token    atomic.Value // of a person, for the tunnel
	// isAgentAway is true while the agent is replaced, when its cluster is unreachable.
	isAgentAway atomic.Bool
}

// newUpgrade starts everything with the programs of a folder.
func newUpgrade(t *testing.T, programs string, sc scale) *upgrade {
	t.Helper()
	sc.repositories, sc.lease, sc.poll = 1, 3*time.Second, 5*time.Second
	u := &upgrade{hub: newContent(t, sc, filepath.Join(programs, "gitcache")), ca: selfsigned.New(t, "localhost")}
	u.resync = 5 * time.Second
	peers := []string{loopback.Addr(t), loopback.Addr(t)}
	for i := range peers {
		u.tunnels = append(u.tunnels, &process{
			name: fmt.Sprintf("tunnel-%d", i), binary: filepath.Join(programs, "tunnel"), addr: loopback.Addr(t), log: filepath.Join(t.TempDir(), "log"),
		})
	}
	outside := newDoor(t, nil, u.tunnels[0].addr, u.tunnels[1].addr)
	u.front = newDoor(t, &tls.Config{Certificates: []tls.Certificate{u.ca.Pair}}, u.tunnels[0].addr, u.tunnels[1].addr)
	contents := newDoor(t, nil, u.replicas[0].addr, u.replicas[1].addr)
	u.settings = []string{"LEAT_GITCACHE_URL=" + contents.url(), "LEAT_TUNNEL_URL=" + outside.url(), "LEAT_DRAIN_TIMEOUT=5s"}
	u.addDistributors(t, 2, filepath.Join(programs, "distributor"))
	u.door = newDoor(t, nil, u.distributors[0].addr, u.distributors[1].addr)
	for i, p := range u.tunnels {
		p.env = []string{
			"LEAT_LISTEN_ADDR=" + p.addr,
			"LEAT_SERVICE_SECRET=" + hubkeys.Secret(identity.ServiceTunnel),
			"LEAT_SERVICE_KEYS=" + strings.Join(hubkeys.List(), ","),
			"LEAT_DISTRIBUTOR_URL=" + u.door.url(),
			"LEAT_REDIS_URL=" + u.redis.URL(),
			"LEAT_TUNNEL_PEER_LISTEN_ADDR=" + peers[i],
			"LEAT_TUNNEL_ADVERTISE_URL=http://" + peers[i],
			"LEAT_TUNNEL_AUDIT_OUTPUT=none",
			"LEAT_DRAIN_TIMEOUT=5s",
		}
		p.start(t)
	}
	u.catalog(t, 1)
	u.startCluster(t)
	u.join(t, filepath.Join(programs, "agent"))
	return u
}

// startCluster starts a control plane with a pod that carries commands out on this machine.
func (u *upgrade) startCluster(t *testing.T) {
	t.Helper()
	kubelet := fmt.Sprintf(`{"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "ClusterExec", "metadata": {"name": "all"},
		"spec": {"execs": [{"local": {"workDir": %q, "envs": [{"name": "PATH", "value": %q}]}}]}}`, t.TempDir(), os.Getenv("PATH"))
	u.cluster = kubetest.Start(t, func(p *localkube.Params) { p.Kubelet, u.kubectl = kubelet, p.Binaries.Kubectl })
	u.kubePost(t, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "leat-admins"},
		"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
		"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "leat:admins"}]}`)
	u.kubePost(t, "/api/v1/namespaces/default/pods", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "box"},
		"spec": {"containers": [{"name": "main", "image": "box:1"}]}}`)
}

func (u *upgrade) kubePost(t *testing.T, path, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, u.cluster.Host()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := u.cluster.HTTPClient().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if answer, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusCreated {
		t.Fatalf("create at %s: got %s %s", path, response.Status, answer)
	}
}

// join starts the agent of the real cluster, which runs the folder app twice: as a service of its own,
// and as one that derives from a global service.
func (u *upgrade) join(t *testing.T, binary string) {
	t.Helper()
	source := []*typev1.Source{{Repository: u.repos[0], Path: "app", Ref: &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: "main"}}}}
	u.apply(t,
		&fleetv1.Document{Object: &fleetv1.Document_Cluster{Cluster: &fleetv1.Cluster{Metadata: &typev1.Metadata{Name: realCluster}}}},
		&fleetv1.Document{Object: &fleetv1.Document_Service{Service: &fleetv1.Service{
			Metadata: &typev1.Metadata{Name: "own"}, Spec: &fleetv1.ServiceSpec{Cluster: realCluster, Namespace: ownSpace, Sources: source},
		}}},
		&fleetv1.Document{Object: &fleetv1.Document_GlobalService{GlobalService: &fleetv1.GlobalService{
			Metadata: &typev1.Metadata{Name: "global"},
			Spec: &fleetv1.GlobalServiceSpec{
				Clusters: &fleetv1.ClusterTarget{Names: []string{realCluster}}, Template: &fleetv1.ServiceSpec{Namespace: globalSpace, Sources: source},
			},
		}}},
	)
	u.agent = u.startAgent(t, realCluster, binary, u.cluster)
}

// startAgent starts the first agent of a cluster of the catalog.
func (u *upgrade) startAgent(t *testing.T, cluster, binary string, in *localkube.ControlPlane) *process {
	t.Helper()
	joined, err := u.admin(t, 0).CreateJoinToken(t.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	agent := &process{name: "agent of " + cluster, binary: binary, log: filepath.Join(t.TempDir(), "log"), probed: "LEAT_LISTEN_ADDR"}
	agent.env = []string{
		"LEAT_AGENT_HUB_URL=" + u.door.url(),
		"LEAT_AGENT_JOIN_TOKEN=" + joined.GetJoinToken(),
		"LEAT_AGENT_DATA_DIR=" + t.TempDir(),
		"LEAT_AGENT_KUBECONFIG=" + in.KubeconfigPath(),
	}
	agent.start(t)
	return agent
}

// load starts everybody who uses the hub, until ctx is done.
func (u *upgrade) load(ctx context.Context, t *testing.T, running *sync.WaitGroup) {
	t.Helper()
	u.renewToken(t)
	u.wanderer = newWanderer(t, u.hub, clusterName(0))
	list, path := &reader{name: "list of services"}, &reader{name: "object through the tunnel", isExcused: func(err error) bool {
		return u.isAgentAway.Load() && strings.Contains(err.Error(), "AGENT_OFFLINE")
	}}
	for i := range 2 {
		queries, tunnel := u.queries(t, i), u.tunnels[i]
		list.calls[i] = func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			found, err := find(ctx, queries, &fleetv1.FleetQuery{Kind: "Service", Cluster: realCluster})
			if err == nil && len(found) != 2 {
				return fmt.Errorf("got %d services of %s, want 2", len(found), realCluster)
			}
			return err
		}
		path.calls[i] = func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			_, err := fetch(ctx, http.DefaultClient, tunnel.url()+"/clusters/"+realCluster+"/api/v1/namespaces/default/pods/box", u.person())
			return err
		}
	}
	u.readers = []*reader{list, path}
	u.viewer = &viewer{url: "http://" + u.tunnels[0].addr, token: u.person}
	front := newDoor(t, nil, u.tunnels[0].addr, u.tunnels[1].addr)
	u.viewer.url = front.url() + "/clusters/" + realCluster + "/api/v1/namespaces/" + ownSpace + "/configmaps"
	u.arrive(t) // the namespace is there, and the tunnel has the agent
	await.Success(t, "an answer through the tunnel", path.calls[0])
	u.session = u.openSession(t)
	running.Go(func() { u.wanderer.wander(ctx) })
	running.Go(func() { u.viewer.view(ctx) })
	for _, r := range u.readers {
		running.Go(func() { r.read(ctx) })
	}
}

// renewToken gets a person's token for the tunnel, which does not last for the whole test.
func (u *upgrade) renewToken(t *testing.T) {
	t.Helper()
	answer, err := u.admin(t, 0).CreateAccessToken(t.Context(), &fleetv1.CreateAccessTokenRequest{Audience: identity.ServiceTunnel})
	if err != nil {
		t.Fatal(err)
	}
	u.token.Store(answer.GetAccessToken())
}

func (u *upgrade) person() string { return u.token.Load().(string) }

func (u *upgrade) openSession(t *testing.T) *session {
	t.Helper()
	file, ca := filepath.Join(t.TempDir(), "kubeconfig"), filepath.Join(t.TempDir(), "ca.crt")
	_, port, _ := strings.Cut(u.front.addr, ":")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}]\n"+
		"contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: %q}}]\n",
		"https://localhost:"+port+"/clusters/"+realCluster, ca, u.person())
	for name, content := range map[string]string{file: text, ca: string(u.ca.PEM)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return openSession(t, u.kubectl, file)
}

// arrive pushes a commit, and waits until both services of the real cluster have it.
func (u *upgrade) arrive(t *testing.T) {
	t.Helper()
	number := u.commit(t, u.repos[0])
	ctx, cancel := context.WithCancel(t.Context())
	var refreshing sync.WaitGroup
	defer refreshing.Wait()
	defer cancel()
	for i := range u.replicas {
		client := u.client(t, i)
		refreshing.Go(func() {
			// Refresh like a webhook. It fails at a replica that is replaced, and hangs at a frozen one: then the poll
			// finds the commit.
			_, _ = client.RefreshRepository(ctx, &gitcachev1.RefreshRepositoryRequest{Name: u.repos[0]})
		})
	}
	for _, namespace := range []string{ownSpace, globalSpace} {
		await.Poll(t, fmt.Sprintf("commit %d in the namespace %s", number, namespace), pause, func() (bool, string) {
			body, err := fetch(t.Context(), u.cluster.HTTPClient(), u.cluster.Host()+"/api/v1/namespaces/"+namespace+"/configmaps/serial", "")
			return err == nil && strings.Contains(body, fmt.Sprintf(`"number":"%d"`, number)), body
		})
	}
}

// replace stops a process with SIGTERM and starts it again with another program. Commits arrive while it
// ends, while it is away, and afterwards, except while the agent is away.
func (u *upgrade) replace(t *testing.T, p *process, programs, service string) {
	t.Helper()
	t.Logf("%s becomes that of %s", p.name, filepath.Base(programs))
	u.renewToken(t)
	u.isAgentAway.Store(p == u.agent)
	p.signal(t, syscall.SIGTERM)
	if p != u.agent {
		u.arrive(t)
	}
	<-p.exited
	if p != u.agent {
		u.arrive(t)
	}
	p.binary = filepath.Join(programs, service)
	p.start(t)
	u.arrive(t)
	if p == u.agent {
		await.Success(t, "the new agent at both replicas of the tunnel", func(ctx context.Context) error {
			return errors.Join(u.readers[1].calls[0](ctx), u.readers[1].calls[1](ctx))
		})
	}
	u.isAgentAway.Store(false)
	u.check(t, service)
}

// check edits the catalog at both replicas of the distributor, and fails the test if anybody lost anything
// so far.
func (u *upgrade) check(t *testing.T, replaced string) {
	t.Helper()
	var had []int
	for _, r := range u.readers {
		answers, _, _ := r.count()
		had = append(had, answers)
	}
	for i := range u.distributors {
		document := serviceOf(clusterName(0), fmt.Sprintf("extra-%02d", u.services), u.repos[0], "app")
		if _, err := u.admin(t, i).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{document}}); err != nil {
			t.Fatalf("an edit at %s: %v", u.distributors[i].name, err)
		}
		u.services++
	}
	u.arrive(t)
	for i := range u.distributors {
		u.wantHealthy(t, i)
	}
	u.waitRight(t, []*wanderer{u.wanderer})
	for i, r := range u.readers {
		await.Poll(t, "more answers of "+r.name, pause, func() (bool, string) {
			answers, _, _ := r.count()
			return answers > had[i]+4, ""
		})
	}
	if !u.session.answers(t) {
		if replaced == "gitcache" || replaced == "distributor" {
			t.Errorf("a session of kubectl exec ended when a %s was replaced", replaced)
		}
		u.session = u.openSession(t)
	}
	var failures []string
	for _, r := range u.readers {
		_, _, failed := r.count()
		failures = append(failures, failed...)
	}
	_, _, failed := u.viewer.seen()
	if failures = slices.Concat(failures, failed, u.wanderer.breaches()); len(failures) > 0 {
		t.Fatalf("got %d failures, want none:\n%s", len(failures), strings.Join(failures, "\n"))
	}
}

// wantHealthy waits until a replica of the distributor shows both services of the real cluster healthy with
// the last commit.
func (u *upgrade) wantHealthy(t *testing.T, replica int) {
	t.Helper()
	await.Poll(t, "the services to be healthy at "+u.distributors[replica].name, pause, func() (bool, string) {
		documents, err := find(t.Context(), u.queries(t, replica), &fleetv1.FleetQuery{Kind: "Service", Cluster: realCluster})
		if err != nil {
			return false, err.Error()
		}
		for _, document := range documents {
			service := document.GetService()
			status := service.GetStatus()
			if commits := status.GetReport().GetAppliedCommits(); !status.GetSynced() || status.GetPhase() != typev1.ServicePhase_SERVICE_PHASE_HEALTHY ||
				len(commits) != 1 || commits[0] != u.head(u.repos[0]) {
				return false, service.String()
			}
		}
		return len(documents) == 2, ""
	})
}

// words returns the capability words of the agent of a version.
func (u *upgrade) words(t *testing.T) []string {
	t.Helper()
	documents, err := find(t.Context(), u.queries(t, 0), &fleetv1.FleetQuery{Kind: "Cluster", Filter: "name=" + realCluster})
	if err != nil || len(documents) != 1 {
		t.Fatalf("got %d clusters, %v", len(documents), err)
	}
	return documents[0].GetCluster().GetStatus().GetReport().GetCapabilities()
}

// namesCall says whether a word is named after a call of agents, as "metrics" is after QueryMetrics. No service needs such
// a call, and an agent without it answers that it is unimplemented, so the hub withholds nothing for the word.
func namesCall(word string) bool {
	calls := agentv1.File_leat_agent_v1_agent_proto.Services().ByName("AgentService").Methods()
	for i := range calls.Len() {
		name := string(calls.Get(i).Name())
		for _, verb := range []string{"Get", "List", "Query", "Watch"} {
			name = strings.TrimPrefix(name, verb)
		}
		if strings.EqualFold(name, word) {
			return true
		}
	}
	return false
}

func (u *upgrade) queries(t *testing.T, replica int) fleetv1connect.QueryServiceClient {
	t.Helper()
	c := u.to(t, replica, adminToken)
	return fleetv1connect.NewQueryServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

// find returns what a query selects. The version before has this call, and lacks Get and List.
func find(ctx context.Context, queries fleetv1connect.QueryServiceClient, query *fleetv1.FleetQuery) ([]*fleetv1.Document, error) {
	answer, err := queries.QueryFleet(ctx, &fleetv1.QueryFleetRequest{Query: query, Documents: true})
	if err != nil {
		return nil, err
	}
	var documents []*fleetv1.Document
	for _, row := range answer.GetRows() {
		documents = append(documents, row.GetDocument())
	}
	return documents, nil
}

// TestUpgradeFromTheVersionBefore replaces each process of the version before by the one of this tree, one
// after the other, while commits are pushed and people read, watch and exec: every commit arrives, once and
// in order, no plan goes back, no watch misses an event, and no read fails that a client may make again.
// First the agent is a version ahead of its hub; then the hub is a version ahead of its agent. In the end
// what may go back goes back.
func TestUpgradeFromTheVersionBefore(t *testing.T) {
	t.Parallel()
	old, current := before(t), ""
	for _, service := range []string{"gitcache", "distributor", "tunnel", "agent"} {
		current = filepath.Dir(build(t, service))
	}
	u := newUpgrade(t, old, scale{})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	u.load(ctx, t, &running)
	u.check(t, "nothing")
	oldWords := u.words(t)

	u.replace(t, u.agent, current, "agent")
	for _, word := range u.words(t) {
		if !slices.Contains(oldWords, word) && !slices.Contains(renderstep.WordsKnown(), word) && !namesCall(word) {
			t.Errorf("only the new agent can do what the word %q means, and the hub withholds no service for it", word)
		}
	}
	u.replace(t, u.agent, old, "agent")
	for _, p := range u.replicas {
		u.replace(t, p, current, "gitcache")
	}
	first, second := u.distributors[0], u.distributors[1]
	u.replace(t, first, current, "distributor")
	u.replace(t, second, old, "distributor") // it starts on a database that a later version has moved
	u.replace(t, second, current, "distributor")
	for _, p := range u.tunnels {
		u.replace(t, p, current, "tunnel")
	}
	u.replace(t, u.agent, current, "agent")

	u.replace(t, u.replicas[0], old, "gitcache")
	u.replace(t, u.tunnels[0], old, "tunnel") // the agent went back before
	last := len(u.commits) - 1
	await.Poll(t, "the last commit in the watch", pause, func() (bool, string) {
		numbers, _, _ := u.viewer.seen()
		return slices.Contains(numbers, last), fmt.Sprint(numbers)
	})
	cancel()
	running.Wait()
	numbers, watches, _ := u.viewer.seen()
	for i, number := range numbers {
		if number != numbers[0]+i {
			t.Fatalf("the watch got the commits %v, want each of them once, in order", numbers)
		}
	}
	u.wanderer.wantBundles(t)
	for _, r := range u.readers {
		answers, retries, _ := r.count()
		t.Logf("%s: %d answers, %d of them at the second replica", r.name, answers, retries)
	}
	t.Logf("%d commits, %d of them seen by %d watches; answers of the distributors to the wanderer %v, refusals %v",
		len(u.commits), len(numbers), watches, u.wanderer.answers, u.wanderer.refusals)
}
