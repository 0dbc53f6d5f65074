// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/program"
)

// rival is another tool that delivers services, as it is shipped.
type rival interface {
	// install makes what the tool needs in the cluster. start runs its controllers until the test ends, or
	// stop is called.
	install(t *testing.T)
	start(t *testing.T)
	stop()
	// deliver makes the object that delivers a folder of the repository as a service.
	deliver(t *testing.T, service, folder string)
	// reconcile has the tool look at the repository and at a service again, and returns when it has, and
	// the service is as the commit has it.
	reconcile(t *testing.T, service, commit string)
	// restarts is the field manager with which people restart pods, so that the tool leaves that alone.
	restarts() string
	// look has the tool compare a paused service with a commit, and returns when it has.
	look(t *testing.T, service, commit string)
}

// takeover is a cluster in which another tool delivers two services, and a hub that takes them over.
type takeover struct {
	*hub

	whole   *testing.T // the tool outlives a part of the test
	tool    string     // as leat import calls it
	manager string     // of the fields that the tool sets
	rival   rival
	repo    *gittest.Repo
	kubectl string
	leat    string
	env     []string
	folder  string // for documents
	records map[string]*record
}

// folders are the folders of the services: an overlay of kustomize, and plain manifests.
var folders = map[string]string{"shop": "apps/shop/overlays/prod", "site": "apps/site"}

// manifests are a Deployment with its Service, its settings and a job. Fields that go first, and fields that go
// second, have a line of their own.
var manifests = map[string]string{
	"deployment.yaml": `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels:
    app: web
    example.com/note: goes-second
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: registry.example.com/web:1.4.2
        ports: [{containerPort: 8080, name: http}]
        env:
        - {name: REGION, value: eu}
        - {name: FEATURE, value: goes-first}
        envFrom:
        - configMapRef: {name: settings}
        resources:
          requests: {cpu: 10m, memory: 16Mi}
        readinessProbe:
          httpGet: {path: /ready, port: http}
`,
	"service.yaml": `apiVersion: v1
kind: Service
metadata:
  name: web
  annotations:
    example.com/owner: shop
    example.com/first: goes-first
    example.com/second: goes-second
spec:
  selector: {app: web}
  ports:
  - {name: http, port: 80, targetPort: http}
`,
	"settings.yaml": `apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  color: COLOR
  first: goes-first
  second: goes-second
`,
	"cronjob.yaml": `apiVersion: batch/v1
kind: CronJob
metadata:
  name: report
spec:
  schedule: "0 4 1 1 *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
          - name: report
            image: registry.example.com/report:1
            args:
            - --all
            - --note=goes-first
            - --note=goes-second
`,
}

// stages are the words that are no longer in the manifests from each stage on, and its color.
var stages = []struct{ color, gone string }{{"blue", "goes-never"}, {"green", "goes-first"}, {"red", "goes-second"}}

// files returns the folder of a service at a stage.
func files(service string, stage int) map[string]string {
	folder, all := "apps/site/", map[string]string{}
	if service == "shop" {
		folder = "apps/shop/base/"
	}
	for name, text := range manifests {
		for _, s := range stages[:stage+1] {
			text = regexp.MustCompile(".*"+s.gone+".*\n").ReplaceAllString(text, "")
		}
		if service == "site" {
			text = strings.Replace(text, "metadata:\n", "metadata:\n  namespace: site\n", 1)
		}
		all[folder+name] = strings.Replace(text, "COLOR", stages[stage].color, 1)
	}
	return all
}

// arrived fails the test unless the objects are as a stage has them.
func arrived(t *testing.T, own holdings, stage int) {
	t.Helper()
	if got := own.all["configmap/settings"].Object["data"].(map[string]any)["color"]; got != stages[stage].color {
		t.Errorf("color: got %v, want %s", got, stages[stage].color)
	}
	for name, object := range own.all {
		object = object.DeepCopy()
		object.SetManagedFields(nil)
		text, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range stages[:stage+1] {
			if strings.Contains(string(text), s.gone) {
				t.Errorf("%s still has what %s:\n%s", name, s.gone, text)
			}
		}
	}
}

// firstCommit returns the repository as it begins.
func firstCommit() map[string]string {
	all := map[string]string{
		"apps/shop/base/kustomization.yaml": "resources: [deployment.yaml, service.yaml, settings.yaml, cronjob.yaml]\n",
		"apps/shop/overlays/prod/kustomization.yaml": `namespace: shop
resources: [../../base]
images: [{name: registry.example.com/web, newTag: 1.5.0}]
replicas: [{name: web, count: 3}]
configMapGenerator:
- name: banner
  literals: [text=welcome]
`,
		"apps/site/account.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: site, namespace: site}\n",
	}
	maps.Copy(all, files("shop", 0))
	maps.Copy(all, files("site", 0))
	return all
}

// objects are the objects of each service, as kubectl calls them.
var objects = map[string][]string{
	"shop": {"deployment/web", "service/web", "configmap/settings", "cronjob/report", "configmap/banner"},
	"site": {"deployment/web", "service/web", "configmap/settings", "cronjob/report", "serviceaccount/site"},
}

// startTakeover starts a hub, a cluster, and the tool, which delivers both services. A person has restarted
// their pods since.
func startTakeover(t *testing.T, tool, manager string, made func(*takeover) rival) *takeover {
	t.Helper()
	if os.Getenv("LEAT_SLOW") == "" {
		t.Skip("LEAT_SLOW is not set: takeovers from other tools are left to `make test-all`")
	}
	o := &takeover{whole: t, tool: tool, manager: manager, hub: startServices(t, nil), folder: t.TempDir(), records: map[string]*record{}}
	o.kubectl = kubetest.Binaries(t.Context(), t).Kubectl
	var err error
	if o.leat, err = program.Compile(t.Context(), t.TempDir(), "../../cli/cmd/leat"); err != nil {
		t.Fatal(err)
	}
	o.env = append(os.Environ(), "PATH="+filepath.Dir(o.kubectl)+":"+filepath.Dir(o.leat)+":"+os.Getenv("PATH"), "HOME="+o.folder, "KUBECONFIG="+o.cluster.KubeconfigPath(),
		"LEAT_SERVER="+o.distributor.url(), "LEAT_TOKEN="+adminToken, "LEAT_CONFIG="+filepath.Join(o.folder, "config.yaml"))
	o.enrol(t)
	o.grantAdmins(t)
	o.repo = o.upstream.Repo(t, "deploy")
	commit := o.repo.Commit(t, "main", firstCommit())
	for service := range folders {
		o.run(t, o.kubectl, "create", "namespace", service)
		o.records[service] = o.watch(t, service)
	}
	o.rival = made(o)
	o.rival.install(t)
	o.rival.start(t)
	for service, folder := range folders {
		o.rival.deliver(t, service, folder)
	}
	for service := range folders {
		o.rival.reconcile(t, service, commit)
		o.settled(t, service)
		o.run(t, o.kubectl, "--namespace", service, "rollout", "restart", "deployment/web", "--field-manager", o.rival.restarts())
		o.settled(t, service)
	}
	for service := range folders {
		o.rival.reconcile(t, service, commit)
		o.settled(t, service)
	}
	return o
}

// run runs a program to its end, and returns what it prints to its standard output and to its standard
// error.
func (o *takeover) run(t *testing.T, name string, args ...string) (out, errs string) {
	t.Helper()
	return o.feed(t, "", name, args...)
}

// feed is run with a standard input.
func (o *takeover) feed(t *testing.T, stdin, name string, args ...string) (out, errs string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	var stdout, stderr bytes.Buffer
	command.Env, command.Stdin, command.Stdout, command.Stderr = o.env, strings.NewReader(stdin), &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", filepath.Base(name), strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String(), stderr.String()
}

// follow runs the commands of a step of the guide, whose service is shop.
func (o *takeover) follow(t *testing.T, step, service string) {
	t.Helper()
	guide, err := os.ReadFile("../../docs/guides/migrate-from-argocd-and-flux.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, isThere := strings.Cut(string(guide), "```sh "+o.tool+"-"+step+"\n")
	commands, _, isClosed := strings.Cut(rest, "```")
	if !isThere || !isClosed {
		t.Fatalf("the guide does not say how to %s %s", step, o.tool)
	}
	o.run(t, "sh", "-ec", regexp.MustCompile(`\bshop\b`).ReplaceAllString(commands, service))
}

// define applies definitions of kinds, and waits until the cluster serves them.
func (o *takeover) define(t *testing.T, flag, folder string) {
	t.Helper()
	o.run(t, o.kubectl, "apply", "--server-side", flag, folder)
	await.Success(t, "the kinds of "+o.tool, func(ctx context.Context) error { // a definition that is new has no conditions yet
		wait := exec.CommandContext(ctx, o.kubectl, "wait", "--for=condition=Established", "crd", "--all")
		wait.Env = o.env
		return wait.Run()
	})
}

// try returns an object by its name for kubectl. A poll waits for it, so that a failure is an error.
func (o *takeover) try(ctx context.Context, namespace, name string) (*unstructured.Unstructured, error) {
	command := exec.CommandContext(ctx, o.kubectl, "--namespace", namespace, "get", name, "-o", "json")
	command.Env = o.env
	out, err := command.Output()
	if err != nil {
		return nil, err
	}
	found := &unstructured.Unstructured{}
	return found, found.UnmarshalJSON(out)
}

// settled waits until the pods of a service are those that its Deployment wants.
func (o *takeover) settled(t *testing.T, service string) {
	t.Helper()
	await.Poll(t, "the pods of "+service, pause, func() (bool, string) {
		found, err := o.try(t.Context(), service, "deployment/web")
		if err != nil {
			return false, err.Error()
		}
		status := func(name string) int64 {
			n, _, _ := unstructured.NestedInt64(found.Object, "status", name)
			return n
		}
		wanted, _, _ := unstructured.NestedInt64(found.Object, "spec", "replicas")
		isSettled := status("observedGeneration") == found.GetGeneration() && status("updatedReplicas") == wanted &&
			status("replicas") == wanted && status("availableReplicas") == wanted && status("terminatingReplicas") == 0
		return isSettled, fmt.Sprint(found.Object["status"])
	})
}

// holdings are what a service has in the cluster.
type holdings struct {
	all    map[string]*unstructured.Unstructured
	record *record
	at     int // how many events of the record came before
}

// held returns the objects of a service and what controllers have made of them: pods and their sets.
func (o *takeover) held(t *testing.T, service string) holdings {
	t.Helper()
	out, _ := o.run(t, o.kubectl, "--namespace", service, "get", "deployment,service,configmap,cronjob,serviceaccount,replicaset,pod",
		"-o", "json", "--show-managed-fields")
	list := &unstructured.UnstructuredList{}
	if err := list.UnmarshalJSON([]byte(out)); err != nil {
		t.Fatal(err)
	}
	all := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		all[strings.ToLower(list.Items[i].GetKind())+"/"+list.Items[i].GetName()] = &list.Items[i]
	}
	return holdings{all, o.records[service], o.records[service].upTo(t, all)}
}

// own returns the objects that are in the service's manifests.
func (h holdings) own(t *testing.T, service string) holdings {
	t.Helper()
	own := map[string]*unstructured.Unstructured{}
	for _, name := range objects[service] {
		for found, object := range h.all {
			if found == name || name == "configmap/banner" && strings.HasPrefix(found, name+"-") {
				own[found] = object
			}
		}
	}
	if len(own) != len(objects[service]) {
		t.Fatalf("%s has the objects %q of %q", service, slices.Sorted(maps.Keys(own)), objects[service])
	}
	return holdings{own, h.record, h.at}
}

// managers returns who owns fields of the object itself.
func managers(o *unstructured.Unstructured) []string {
	var names []string
	for _, f := range o.GetManagedFields() {
		if f.Subresource == "" && !slices.Contains(names, f.Manager) {
			names = append(names, f.Manager)
		}
	}
	slices.Sort(names)
	return names
}

// documents returns what leat import makes of what the tool delivers.
func (o *takeover) documents(t *testing.T) string {
	t.Helper()
	documents, report := o.run(t, o.leat, "import", o.tool, "--cluster", "demo")
	for line := range strings.Lines(report) {
		isLeftOut := strings.Contains(line, " missing ") || strings.Contains(line, " refused ")
		if isLeftOut && !strings.Contains(line, "the project default exists at the hub") { // each Argo CD has one, too
			t.Errorf("the import leaves something out:\n%s", report)
		}
	}
	return documents
}

// apply applies the documents. The live service is no dry run in them.
func (o *takeover) apply(t *testing.T, documents, live string) {
	t.Helper()
	parts := strings.Split(documents, "---\n")
	for i, part := range parts {
		if live != "" && strings.Contains(part, "kind: Service\nmetadata:\n  name: "+live+"\n") {
			parts[i] = strings.Replace(part, "  dryRun: true\n", "", 1)
		}
	}
	file := filepath.Join(o.folder, "fleet.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(parts, "---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	o.run(t, o.leat, "apply", "-f", file)
}

// compared waits until the agent has compared a service that is a dry run. It expects no difference, except that
// objects which Leat has not applied yet would be adopted, and get its label.
func (o *takeover) compared(t *testing.T, service, commit string, isTaken bool) {
	t.Helper()
	o.sync(t, service)
	status := o.waitService(t, service, "compared", func(s *fleetv1.ServiceStatus) bool {
		return s.GetReport().GetDryRun() != nil && s.GetSources()[0].GetSnapshot().GetCommit() == commit &&
			s.GetReport().GetObservedSyncRequest() == s.GetSyncRequest()
	})
	got := status.GetReport().GetDryRun()
	want := &distributorv1.DryRunReport{Unchanged: int32(len(objects[service]))}
	if !isTaken {
		for _, c := range got.GetChanges() {
			want.Changes = append(want.Changes, &distributorv1.DryRunChange{Ref: c.GetRef(), Action: distributorv1.DryRunAction_DRY_RUN_ACTION_ADOPT})
		}
	}
	diff, _ := o.run(t, o.leat, "diff", "service/"+service)
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Errorf("dry run of %s (-want +got):\n%s\n%s", service, d, diff)
	}
	labels := 0
	for line := range strings.Lines(diff) {
		switch {
		case line == "+    leat.dev/service: "+service+"\n":
			labels++
		case line != "--- live\n" && line != "+++ desired\n" && line != "+  labels:\n" && strings.ContainsAny(line[:1], "+-"):
			t.Errorf("%s would be changed:\n%s", service, diff)
		}
	}
	if wanted := map[bool]int{false: len(objects[service])}[isTaken]; labels != wanted || len(got.GetChanges()) != wanted {
		t.Errorf("the diff of %s shows %d labels, want %d:\n%s", service, labels, wanted, diff)
	}
}

// owned fails the test unless the manager owns fields of each object and the other one none, and no label and no
// annotation of the other's is left.
func (o *takeover) owned(t *testing.T, own holdings, manager, other string, marks ...string) {
	t.Helper()
	for name, object := range own.all {
		if found := managers(object); !slices.Contains(found, manager) || slices.Contains(found, other) {
			t.Errorf("%s is managed by %q, want %s, and not %s", name, found, manager, other)
		}
		for _, marked := range []map[string]string{object.GetLabels(), object.GetAnnotations()} {
			for key := range marked {
				if slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(key, mark) }) {
					t.Errorf("%s has %s, which its deployer left", name, key)
				}
			}
		}
	}
}

// commit commits a stage of both services.
func (o *takeover) commit(t *testing.T, mine, other string, stage int) string {
	t.Helper()
	all := files(mine, stage)
	maps.Copy(all, files(other, stage))
	return o.repo.Commit(t, "main", all)
}

// tell takes a service over from the tool, and gives it back. The tool delivers the other service all the
// time.
func (o *takeover) tell(t *testing.T, mine, other string) {
	t.Helper()
	commit := o.commit(t, mine, other, 0)
	for _, service := range []string{mine, other} {
		o.rival.reconcile(t, service, commit)
		o.settled(t, service)
	}
	before, besides := o.held(t, mine), o.held(t, other)
	documents := o.documents(t)
	o.apply(t, documents, "")
	o.compared(t, mine, commit, false)
	o.compared(t, other, commit, false)
	same(t, "after the dry run", before.own(t, mine), o.held(t, mine))

	o.follow(t, "stop", mine)
	o.apply(t, documents, mine)
	o.waitService(t, mine, "healthy", healthyAt(commit))
	taken := o.held(t, mine)
	untouched(t, "after the takeover", before, taken)
	passedOn(t, before.own(t, mine), taken, o.manager, "leat")
	o.owned(t, taken.own(t, mine), "leat", o.manager, "fluxcd.io", "argoproj.io", "last-applied")
	same(t, "the other service after the takeover", besides.own(t, other), o.held(t, other))

	second := o.commit(t, mine, other, 1)
	o.sync(t, mine)
	o.waitService(t, mine, "healthy at the second commit", healthyAt(second))
	o.settled(t, mine)
	changed := o.held(t, mine)
	arrived(t, changed.own(t, mine), 1)
	lasting(t, "at the second commit", before.own(t, mine), changed)

	// The controllers are started again, and deliver the other service. Ours they leave alone, and so does the agent: at
	// first while its object is there, and paused, and then without it.
	o.rival.stop()
	o.rival.start(o.whole)
	for range 3 {
		o.rival.reconcile(t, other, second)
		o.rival.look(t, mine, second)
	}
	o.follow(t, "remove", mine)
	o.rival.reconcile(t, other, second)
	arrived(t, o.held(t, other).own(t, other), 1)
	same(t, "while the tool delivers the other service", changed.own(t, mine), o.held(t, mine))

	// Back to the tool.
	o.apply(t, documents, "")
	o.compared(t, mine, second, true)
	o.rival.deliver(t, mine, folders[mine])
	o.rival.reconcile(t, mine, second)
	o.run(t, o.leat, "delete", "service/"+mine)
	await.Poll(t, "Leat to let go of "+mine, pause, func() (bool, string) {
		held := o.held(t, mine).own(t, mine)
		for name, object := range held.all {
			if slices.Contains(managers(object), "leat") || object.GetLabels()["leat.dev/service"] != "" {
				return false, fmt.Sprintf("%s is managed by %q, with the labels %v", name, managers(object), object.GetLabels())
			}
		}
		return true, ""
	})
	back := o.held(t, mine)
	untouched(t, "back at the tool", changed, back)
	passedOn(t, changed.own(t, mine), back, "leat", o.manager)
	o.owned(t, back.own(t, mine), o.manager, "leat", "leat.dev")
	third := o.commit(t, mine, other, 2)
	o.rival.reconcile(t, mine, third)
	o.settled(t, mine)
	last := o.held(t, mine)
	arrived(t, last.own(t, mine), 2)
	lasting(t, "at the third commit", back.own(t, mine), last)
}
