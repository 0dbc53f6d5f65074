// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
)

const (
	// agentHub is the namespace of the hub, and agentHome that of the agent, as the guide has it.
	agentHub, agentHome = "agents", "leat-system"
	agentUser           = "system:serviceaccount:leat-system:leat-agent"
	podNameExtra        = "authentication.kubernetes.io/pod-name"
	agentGuide          = "docs/guides/upgrade-agents.md"
)

// upgrades are the agent of a cluster that is delivered by the hub as docs/guides/upgrade-agents.md
// has it, and services that it delivers meanwhile.
type upgrades struct {
	*node
	steps *admission
	url   string // of the hub
	chart *gittest.Repo
	// git is where pods find the repositories.
	git string
	// isOpen lets the pods of the shop's second version become ready.
	isOpen atomic.Bool
	// template and policy are the guide's documents.
	template, policy map[string]any
	// versions are the two that the upgrades go between. The agent runs the first one.
	versions [2]string
	rollouts int // of the agent
	// before are the names of the objects that the cluster had before it got the agent.
	before []string
	// uid is that of the agent's Deployment, and objects are those of the shop, with their uids.
	uid, objects string
	// writers are the pods of the agent that wrote, in order, each once for all that it wrote in a row.
	writers []string
}

// TestAgents upgrades the agent by its own service, there and back, while it rolls out another one. It
// is killed between every two steps of an upgrade, and gets versions that do not work.
func TestAgents(t *testing.T) {
	n := requireNode(t)
	u := &upgrades{node: n}
	u.serveRepositories(t)
	u.installHub(t)
	u.installAgent(t)
	u.deliverShop(t)
	u.steps = n.admit(t, u.note, agentHome, "shop")
	u.handOver(t)
	for _, c := range []struct {
		name string
		// step is the request at which the agent is killed.
		step func(former, version string) func(*admissionv1.AdmissionRequest) bool
		// kill ends the agent. Nil: it is not killed.
		kill func(t *testing.T, former string, at held)
	}{
		{name: "nobody is killed"},
		{"the former one before the Deployment is applied", u.isApplied, func(t *testing.T, former string, at held) {
			u.kill(t, former)
			at.refuse()
		}},
		{"the former one before the new pod is ready", u.isStarted, func(t *testing.T, former string, at held) {
			u.kill(t, former)
			at.let()
		}},
		{"the new one while it rehearses", u.rehearses, func(t *testing.T, _ string, at held) {
			u.kill(t, podOf(at))
			at.let()
		}},
		{"the former one while the new one rehearses", u.rehearses, func(t *testing.T, former string, at held) {
			u.kill(t, former)
			at.let()
		}},
		{"the new one when it has taken over", u.takesOver, func(t *testing.T, _ string, at held) {
			at.let()
			u.kubectl(t, "--namespace", agentHome, "delete", "pod", podOf(at), "--grace-period=0", "--force")
		}},
		{"the former one while it ends", u.releases, func(t *testing.T, former string, at held) {
			u.kill(t, former)
			at.refuse()
		}},
	} {
		from, to := u.versions[0], u.versions[1]
		if !t.Run(c.name+", from "+from+" to "+to, func(t *testing.T) {
			former := u.leader(t)
			var step *trap
			if c.kill != nil {
				step = u.steps.next(c.step(former, to))
			}
			number := u.bring(t, to)
			if c.kill != nil {
				c.kill(t, former, step.wait(t, "the step at which the agent is killed"))
			}
			u.checkEnd(t, number, "completed", to)
		}) {
			return
		}
		u.versions = [2]string{to, from}
	}
	u.checkBadVersions(t)
	t.Run("the other rollout ends", u.endShop)
	t.Run("the agent is removed by the documented steps", u.checkRemoval)
}

// serveRepositories serves the chart with a tag for each version, and the shop.
func (u *upgrades) serveRepositories(t *testing.T) {
	t.Helper()
	other := os.Getenv("LEAT_OTHER_VERSION")
	if other == "" {
		t.Fatal("LEAT_OTHER_VERSION is not set: tools/containers/node/run.sh names the version of the second image")
	}
	chart := map[string]string{}
	root := filepath.Join(top, "deploy", "helm", "leat-agent")
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		chart[name] = read(t, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var about struct{ Version, AppVersion string }
	if err := yaml.Unmarshal([]byte(chart["Chart.yaml"]), &about); err != nil || about.AppVersion == "" {
		t.Fatalf("got %v of the chart's version", err)
	}
	u.versions = [2]string{about.AppVersion, other}
	server := gittest.New(t)
	u.chart = server.Repo(t, "leat-agent")
	for _, version := range []string{about.AppVersion, other, ends, stuck} {
		files := maps.Clone(chart)
		files["Chart.yaml"] = strings.ReplaceAll(files["Chart.yaml"], about.AppVersion, version)
		u.chart.Tag(t, version, u.chart.Commit(t, "main", files))
	}
	// Policies of the hub's chart allow Git servers at the usual ports alone.
	relay(t, u.address+":80", strings.TrimPrefix(server.URL(), "http://"))
	u.git = "http://" + u.address + "/"
	u.serveShop(t, server)
}

// serveShop serves a service whose second version is on its way until the test opens it, one that
// changes at once, and one that never does.
func (u *upgrades) serveShop(t *testing.T, server *gittest.Server) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", u.address+":0")
	if err != nil {
		t.Fatal(err)
	}
	probes := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/second" && !u.isOpen.Load() {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		}
	}))
	_ = probes.Listener.Close()
	probes.Listener = listener
	probes.Start()
	t.Cleanup(probes.Close)
	shop := server.Repo(t, "shop")
	for _, version := range []string{"first", "second"} {
		shop.Tag(t, version, shop.Commit(t, "main", map[string]string{
			"web/web.yaml":       strings.NewReplacer("VERSION", version, "ADDRESS", u.address, "PORT", fmt.Sprint(listener.Addr().(*net.TCPAddr).Port)).Replace(shopWeb),
			"prices/prices.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: prices }\ndata: { of: " + version + " }\n",
			"hours/hours.yaml":   "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: hours }\ndata: { from: nine }\n",
		}))
	}
}

const shopWeb = `apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec:
      terminationGracePeriodSeconds: 1
      securityContext: ` + restrictedPod + `
      containers:
        - name: web
          image: busybox:1.37
          command: [sleep, "86400"]
          env: [{ name: VERSION, value: VERSION }]
          readinessProbe: { httpGet: { host: ADDRESS, port: PORT, path: /VERSION }, periodSeconds: 1 }
          securityContext: ` + restrictedContainer + `
---
apiVersion: v1
kind: ConfigMap
metadata: { name: version }
data: { version: VERSION }
`

// installHub installs a hub, and signs the test in.
func (u *upgrades) installHub(t *testing.T) {
	t.Helper()
	u.namespace(t, agentHub, "pod-security.kubernetes.io/enforce=restricted")
	values := `
database: { mode: trial }
networkPolicy: { fromNamespaces: [` + agentHome + `] }
gitcache: { replicas: 1, resources: ` + light + ` }
distributor: { replicas: 1, resources: ` + light + ` }
tunnel: { replicas: 1, resources: ` + light + ` }
`
	u.run(t, "helm", "install", "leat", "deploy/helm/leat", "--namespace", agentHub, "--values", file(t, "values.yaml", values), "--wait")
	u.url = "http://distributor." + agentHub + ".svc:8700"
	u.env = append(u.env, "LEAT_SERVER="+u.url, "LEAT_TOKEN="+u.secret(t, agentHub, "leat-hub", "admin-token"))
}

// installAgent enrols the node's own cluster by the agent's chart.
func (u *upgrades) installAgent(t *testing.T) {
	t.Helper()
	u.before = namesOutside(u.everything(t), agentHub, "shop")
	t.Cleanup(func() { // a test that fails before it removes the agent leaves nothing to those after it
		u.kubectl(t, "delete", "clusterrole,clusterrolebinding", "--selector", ofAgent)
		u.kubectl(t, "delete", "namespace", agentHome, "--ignore-not-found")
	})
	u.apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: { name: "+agentHome+", labels: { pod-security.kubernetes.io/enforce: restricted } }\n")
	u.run(t, "leat", "cluster", "create", "eu-lab", "--label", "region=eu")
	u.run(t, "helm", "install", "leat-agent", "deploy/helm/leat-agent", "--namespace", agentHome, "--wait",
		"--set", "hub.url="+u.url, "--set", "join.token="+u.run(t, "leat", "cluster", "token", "eu-lab"))
}

// deliverShop delivers the first version of the shop.
func (u *upgrades) deliverShop(t *testing.T) {
	t.Helper()
	u.namespace(t, "shop") // without a profile of Pod Security: these refuse probes of another host
	u.document(t, `apiVersion: leat.dev/v1
kind: Repository
metadata: { name: shop }
spec: { url: "`+u.git+`shop.git" }
`)
	for _, service := range []string{"web", "prices", "hours"} {
		u.service(t, service, "first")
		u.run(t, "leat", "wait", "service/"+service+"@eu-lab", "--for", "healthy", patience)
	}
	u.document(t, `apiVersion: leat.dev/v1
kind: RolloutPolicy
metadata: { name: web }
spec: { services: [web], waves: [{ name: lab, clusters: [eu-lab] }] }
`)
	u.awaitTakenOver(t, "web")
}

// document has the hub apply documents.
func (u *upgrades) document(t *testing.T, documents string) {
	t.Helper()
	u.run(t, "leat", "apply", "--filename", file(t, "documents.yaml", documents))
}

// service has a service of the shop follow a tag.
func (u *upgrades) service(t *testing.T, name, tag string) {
	t.Helper()
	u.document(t, serviceOf(name, tag))
}

// serviceOf returns the document of a service of the shop that follows a tag.
func serviceOf(name, tag string) string {
	return `apiVersion: leat.dev/v1
kind: Service
metadata: { name: ` + name + ` }
spec: { cluster: eu-lab, namespace: shop, sources: [{ repository: shop, ref: { tag: ` + tag + ` }, path: ` + name + ` }] }
`
}

// awaitTakenOver blocks until a policy has taken over its only service.
func (u *upgrades) awaitTakenOver(t *testing.T, policy string) {
	t.Helper()
	await.Success(t, "rolloutpolicy "+policy+" to take its service over", func(context.Context) error {
		got, err := u.try(t, nil, "leat", "get", "rolloutpolicy", policy, "--output", "yaml")
		if err == nil && !strings.Contains(got, "takenOver: 1") {
			err = errors.New(got)
		}
		return err
	})
}

// handOver hands the agent's chart to the hub by the guide's documents, which a test changes no more
// than its time needs, and begins the rollout of the shop.
func (u *upgrades) handOver(t *testing.T) {
	t.Helper()
	page := read(t, filepath.Join(top, agentGuide))
	blocks := strings.Split(page, "```yaml\n")
	if len(blocks) < 4 {
		t.Fatalf("got %d blocks of YAML in %s, want the global service, the rollout policy, and the settings of an agent with a volume", len(blocks)-1, agentGuide)
	}
	for i, into := range []*map[string]any{&u.template, &u.policy} {
		text, _, _ := strings.Cut(blocks[i+1], "```")
		if err := yaml.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	waves, _, _ := unstructured.NestedSlice(u.policy, "spec", "waves")
	for _, wave := range waves {
		delete(wave.(map[string]any), "soak")
	}
	set(t, u.policy, waves, "spec", "waves")
	values := u.source(t, "render")["helm"].(map[string]any)["values"].(map[string]any)
	set(t, values, u.url, "hub", "url")
	u.document(t, `apiVersion: leat.dev/v1
kind: Repository
metadata: { name: leat-agent }
spec: { url: "`+u.git+`leat-agent.git" }
---
apiVersion: leat.dev/v1
kind: Cluster
metadata: { name: eu-lab, labels: { agents: leat, region: eu } }
`)
	u.uid = u.deployment(t, "{.metadata.uid}")
	// The agent has a volume, and elects before it loses that.
	volume, settings := values["persistence"], map[string]any{}
	_, text, _ := strings.Cut(blocks[3], "settings: ")
	text, _, _ = strings.Cut(text, "\n")
	if err := yaml.Unmarshal([]byte(text), &settings); err != nil || len(settings) != 1 {
		t.Fatalf("got the settings %q of an agent with a volume in %s, and %v", text, agentGuide, err)
	}
	delete(values, "persistence")
	values["settings"] = settings
	u.tag(t, u.versions[0])
	u.awaitStrategy(t, "Recreate LEAT_AGENT_LEADER_ELECTION")
	delete(values, "settings")
	values["persistence"] = volume
	u.tag(t, u.versions[0])
	u.awaitStrategy(t, "RollingUpdate LEAT_AGENT_LEADER_ELECTION")
	u.kubectl(t, "--namespace", agentHome, "get", "persistentvolumeclaim", "leat-agent")
	u.documentOf(t, u.policy)
	u.awaitTakenOver(t, "agents")
	second := u.steps.next(func(r *admissionv1.AdmissionRequest) bool {
		return r.Namespace == "shop" && r.Resource.Resource == "pods" && r.Operation == admissionv1.Create
	})
	u.service(t, "web", "second")
	second.wait(t, "the pod of the shop's second version").let()
	await.Success(t, "the pod of the shop's second version", func(context.Context) error {
		u.objects = u.shop(t)
		if strings.Count(u.objects, "Pod/") != 2 {
			return fmt.Errorf("got %s", u.objects)
		}
		return nil
	})
}

// awaitStrategy blocks until the agent has applied its own Deployment with a strategy, and with the
// variable by which it elects, and works with it.
func (u *upgrades) awaitStrategy(t *testing.T, want string) {
	t.Helper()
	await.Success(t, "the agent's Deployment to have "+want, func(context.Context) error {
		if got := u.deployment(t, `{.spec.strategy.type} {.spec.template.spec.containers[0].env[?(@.name=="LEAT_AGENT_LEADER_ELECTION")].name}`); got != want {
			return fmt.Errorf("got %s", got)
		}
		return nil
	})
	u.rolledOut(t, agentHome, "deployment/leat-agent")
	u.objects = u.shop(t)
	u.checkAgent(t, u.versions[0])
	u.run(t, "leat", "wait", "service/leat-agent@eu-lab", "--for", "healthy", patience)
}

// set sets a field of a document.
func set(t *testing.T, document map[string]any, value any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(document, value, path...); err != nil {
		t.Fatal(err)
	}
}

// source returns the only source of the template, or its only step of rendering.
func (u *upgrades) source(t *testing.T, list string) map[string]any {
	t.Helper()
	all, _, err := unstructured.NestedFieldNoCopy(u.template, "spec", "template", list)
	if err != nil {
		t.Fatal(err)
	}
	return all.([]any)[0].(map[string]any)
}

// documentOf is document of a value.
func (u *upgrades) documentOf(t *testing.T, value any) {
	t.Helper()
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	u.document(t, string(text))
}

// tag sets the version of the agent in the template.
func (u *upgrades) tag(t *testing.T, version string) {
	t.Helper()
	set(t, u.source(t, "sources"), version, "ref", "tag")
	u.documentOf(t, u.template)
}

// bring begins the rollout of a version of the agent, and returns its number.
func (u *upgrades) bring(t *testing.T, version string) int {
	t.Helper()
	u.rollouts++
	u.tag(t, version)
	return u.rollouts
}

// checkEnd waits until a rollout has ended, and requires that the agent has that version, and has
// deleted nothing.
func (u *upgrades) checkEnd(t *testing.T, number int, state, version string) {
	t.Helper()
	out := u.run(t, "leat", "rollout", "wait", "agents", "--number", fmt.Sprint(number), "--for", "ended", patience)
	if !strings.Contains(out, " is "+state) {
		t.Errorf("got %q, want that the rollout is %s", out, state)
	}
	u.checkAgent(t, version)
}

// checkAgent waits until one agent of a version is left and works, and requires that nothing was
// deleted.
func (u *upgrades) checkAgent(t *testing.T, version string) {
	t.Helper()
	await.Success(t, "one agent of version "+version, func(context.Context) error {
		pods := u.kubectl(t, "--namespace", agentHome, "get", "pods", "--selector", "app.kubernetes.io/name=leat-agent", "--output",
			`jsonpath={range .items[*]}{.metadata.name} {.spec.containers[0].image} {.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}`)
		lease := u.kubectl(t, "--namespace", agentHome, "get", "lease", "leat-agent", "--output", `jsonpath={.spec.holderIdentity} {.metadata.labels.leat\.dev/agent-version}`)
		fields, holder := strings.Fields(pods), strings.Fields(lease)
		if len(fields) != 3 || !strings.HasSuffix(fields[1], ":"+version) || fields[2] != "True" ||
			len(holder) != 2 || !strings.HasPrefix(holder[0], fields[0]+"_") || holder[1] != version {
			return fmt.Errorf("got the pods\n%s\nand the leader %s", pods, lease)
		}
		return nil
	})
	await.Success(t, "the hub to hear of version "+version, func(context.Context) error {
		got := u.run(t, "leat", "get", "cluster", "eu-lab", "--output", "yaml")
		if !strings.Contains(got, "agentVersion: "+version+"\n") || !strings.Contains(got, "connected: true\n") {
			return errors.New(got)
		}
		return nil
	})
	u.checkWriters(t)
	if got := u.deployment(t, "{.metadata.uid}"); got != u.uid {
		t.Errorf("the agent's Deployment has the uid %s, want the %s that it had", got, u.uid)
	}
	if got := u.shop(t); got != u.objects {
		t.Errorf("got the objects\n%s\nwant those that there were:\n%s", got, u.objects)
	}
}

// note records which pod of the agent writes.
func (u *upgrades) note(r *admissionv1.AdmissionRequest) {
	pod := senderOf(r)
	if pod == "" || isDry(r) || r.Resource.Resource == "leases" {
		return
	}
	if n := len(u.writers); n == 0 || u.writers[n-1] != pod {
		u.writers = append(u.writers, pod)
	}
}

// checkWriters requires that no pod wrote after another one had begun.
func (u *upgrades) checkWriters(t *testing.T) {
	t.Helper()
	u.steps.mu.Lock()
	defer u.steps.mu.Unlock()
	for i, pod := range u.writers {
		if slices.Contains(u.writers[:i], pod) {
			t.Errorf("two agents worked at once, in the order %v", u.writers)
			return
		}
	}
}

// deployment returns a field of the agent's Deployment.
func (u *upgrades) deployment(t *testing.T, field string) string {
	t.Helper()
	return u.kubectl(t, "--namespace", agentHome, "get", "deployment", "leat-agent", "--output", "jsonpath="+field)
}

// shop returns the objects of the shop, with their uids.
func (u *upgrades) shop(t *testing.T) string {
	t.Helper()
	lines := strings.Split(u.kubectl(t, "--namespace", "shop", "get", "deployments,replicasets,pods,configmaps", "--output",
		`jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.uid}{"\n"}{end}`), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// leader returns the name of the pod that leads.
func (u *upgrades) leader(t *testing.T) string {
	t.Helper()
	name, _, _ := strings.Cut(u.kubectl(t, "--namespace", agentHome, "get", "lease", "leat-agent", "--output", "jsonpath={.spec.holderIdentity}"), "_")
	if name == "" {
		t.Fatal("no agent leads")
	}
	return name
}

// kill ends the process of an agent, which has no time for anything.
func (u *upgrades) kill(t *testing.T, pod string) {
	t.Helper()
	h := &trial{node: u.node}
	if err := syscall.Kill(h.process(t, u.pod(t, agentHome, pod)), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// podOf returns the pod of the agent that makes a request.
func podOf(r held) string { return senderOf(r.AdmissionRequest) }

// senderOf returns the pod of the agent that makes a request, and nothing for others.
func senderOf(r *admissionv1.AdmissionRequest) string {
	if names := r.UserInfo.Extra[podNameExtra]; r.UserInfo.Username == agentUser && len(names) == 1 {
		return names[0]
	}
	return ""
}

// object returns the object of a request, and an empty one of a request for another kind.
func object[T any](r *admissionv1.AdmissionRequest, resource string) *T {
	value := new(T)
	if r.Resource.Resource == resource {
		_ = json.Unmarshal(r.Object.Raw, value)
	}
	return value
}

func isDry(r *admissionv1.AdmissionRequest) bool { return r.DryRun != nil && *r.DryRun }

// runs reports whether a pod has the image of a version.
func runs(pod corev1.PodSpec, version string) bool {
	return len(pod.Containers) == 1 && strings.HasSuffix(pod.Containers[0].Image, "/agent:"+version)
}

// isApplied wants the request by which the former agent brings a version.
func (u *upgrades) isApplied(former, version string) func(*admissionv1.AdmissionRequest) bool {
	return func(r *admissionv1.AdmissionRequest) bool {
		return senderOf(r) == former && !isDry(r) && r.Namespace == agentHome && runs(object[appsv1.Deployment](r, "deployments").Spec.Template.Spec, version)
	}
}

// isStarted wants the request by which Kubernetes makes the pod of a version.
func (u *upgrades) isStarted(_, version string) func(*admissionv1.AdmissionRequest) bool {
	return func(r *admissionv1.AdmissionRequest) bool {
		return r.Operation == admissionv1.Create && r.Namespace == agentHome && runs(object[corev1.Pod](r, "pods").Spec, version)
	}
}

// rehearses wants a dry run of the new agent.
func (u *upgrades) rehearses(former, _ string) func(*admissionv1.AdmissionRequest) bool {
	return func(r *admissionv1.AdmissionRequest) bool {
		return isDry(r) && senderOf(r) != "" && senderOf(r) != former
	}
}

// takesOver wants the request by which the new agent becomes the leader.
func (u *upgrades) takesOver(former, _ string) func(*admissionv1.AdmissionRequest) bool {
	return func(r *admissionv1.AdmissionRequest) bool {
		holder := object[coordinationv1.Lease](r, "leases").Spec.HolderIdentity
		return holder != nil && *holder != "" && senderOf(r) != former && senderOf(r) != ""
	}
}

// releases wants the request by which the former agent gives up its lease.
func (u *upgrades) releases(former, _ string) func(*admissionv1.AdmissionRequest) bool {
	return func(r *admissionv1.AdmissionRequest) bool {
		if r.Resource.Resource != "leases" || senderOf(r) != former {
			return false
		}
		holder := object[coordinationv1.Lease](r, "leases").Spec.HolderIdentity
		return holder == nil || *holder == ""
	}
}

// Versions that do not work, and whose tags the images of other programs get.
const (
	ends  = "0.0.1-ends"  // its process ends at once
	stuck = "0.0.1-stuck" // it runs, and never gets ready
)

// checkBadVersions brings versions that do not work. The former agent works on, and the rollout goes
// back.
func (u *upgrades) checkBadVersions(t *testing.T) {
	repository, _, _ := strings.Cut(u.deployment(t, "{.spec.template.spec.containers[0].image}"), ":")
	for version, image := range map[string]string{ends: "docker.io/library/busybox:1.37", stuck: "leat.test/pause:1"} {
		u.run(t, "ctr", "--namespace", "k8s.io", "images", "tag", "--force", image, repository+":"+version)
	}
	for i, c := range []struct {
		name, version string
		settings      map[string]any
		// healthTimeout is after how long the rollout goes back.
		healthTimeout string
	}{
		{"its process ends", ends, nil, "20s"},
		{"it never gets ready", stuck, nil, "20s"},
		// The other version is a good one, with a setting by which it would refuse services. The network of its pod
		// may begin after the first rehearsal, and the next one comes up to 40 s later.
		{"it would do something else", u.versions[1], map[string]any{"LEAT_AGENT_LOCK_DOWN": "true"}, "3m"},
	} {
		t.Run("a version does not work: "+c.name, func(t *testing.T) {
			set(t, u.policy, c.healthTimeout, "spec", "healthTimeout")
			u.documentOf(t, u.policy)
			former := u.leader(t)
			started := u.steps.next(u.isStarted(former, c.version))
			values := u.source(t, "render")["helm"].(map[string]any)["values"].(map[string]any)
			if c.settings != nil {
				values["settings"] = c.settings
			}
			number := u.bring(t, c.version)
			started.wait(t, "the pod of "+c.version).let()
			if c.settings != nil {
				u.awaitEvent(t, "TakeoverWaits", "TENANT_FORBIDDEN")
			}
			u.service(t, "prices", []string{"second", "first"}[i%2])
			u.run(t, "leat", "wait", "service/prices@eu-lab", "--for", "healthy", patience)
			u.checkEnd(t, number, "rolledBack", u.versions[0])
			if got := u.leader(t); got != former {
				t.Errorf("%s leads, want that %s works on", got, former)
			}
			delete(values, "settings")
		})
	}
}

// awaitEvent blocks until the agent's namespace has an event with a reason, and a word in its message.
func (u *upgrades) awaitEvent(t *testing.T, reason, word string) {
	t.Helper()
	await.Success(t, "the event "+reason, func(context.Context) error {
		got := u.kubectl(t, "--namespace", agentHome, "get", "events", "--field-selector", "reason="+reason, "--output", "jsonpath={.items[*].message}")
		if !strings.Contains(got, word) {
			return fmt.Errorf("got %q", got)
		}
		return nil
	})
}

// endShop lets the second version of the shop become ready.
func (u *upgrades) endShop(t *testing.T) {
	u.isOpen.Store(true)
	if out := u.run(t, "leat", "rollout", "wait", "web", "--number", "1", patience); !strings.Contains(out, "is completed") {
		t.Errorf("got %q", out)
	}
	u.run(t, "leat", "wait", "service/web@eu-lab", "--for", "healthy", patience)
	u.rolledOut(t, "shop", "deployment/web")
	if got := u.kubectl(t, "--namespace", "shop", "get", "configmap", "version", "--output", "jsonpath={.data.version}"); got != "second" {
		t.Errorf("got the version %q", got)
	}
}
