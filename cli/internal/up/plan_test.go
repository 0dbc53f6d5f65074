// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package up_test

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/fleettest"
	"github.com/leatdev/leat/cli/internal/up"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
)

func options(change func(*up.Options)) up.Options {
	o := up.Options{Clusters: 1, Listen: "127.0.0.1:0", WaitTimeout: time.Minute}
	change(&o)
	return o
}

func TestCheck(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*up.Options)
		want   string // part of the message; empty means none
	}{
		"defaults":            {func(*up.Options) {}, ""},
		"own repository":      {func(o *up.Options) { o.RepoURL, o.Path = "https://example.com/x.git", "a" }, ""},
		"scp-like":            {func(o *up.Options) { o.RepoURL = "git@example.com:team/x.git" }, ""},
		"user without secret": {func(o *up.Options) { o.RepoURL = "ssh://git@example.com/x.git" }, ""},
		"path of the demo":    {func(o *up.Options) { o.Path = "a" }, "set --repo"},
		"password in URL":     {func(o *up.Options) { o.RepoURL = "https://me:secret@example.com/x.git" }, "leave the password out"},
		"no host in URL":      {func(o *up.Options) { o.RepoURL = "https:///x.git" }, "not the URL"},
		"a folder":            {func(o *up.Options) { o.RepoURL = "../shop" }, "reads no folder"},
		"a folder as a URL":   {func(o *up.Options) { o.RepoURL = "file:///home/me/shop" }, "want https://"},
		"a folder with an @":  {func(o *up.Options) { o.RepoURL = "/srv/me@host:shop" }, "want https://"},
		"git's own protocol":  {func(o *up.Options) { o.RepoURL = "git://example.com/x.git" }, "want https://"},
		"an option of ssh":    {func(o *up.Options) { o.RepoURL = "-oProxyCommand=x@example.com:x" }, "want https://"},
		"no cluster":          {func(o *up.Options) { o.Clusters = 0 }, "--clusters"},
		"many clusters":       {func(o *up.Options) { o.Clusters = 10 }, "--clusters"},
		"clusters of whom":    {func(o *up.Options) { o.Clusters, o.Kubeconfig = 2, "x" }, "--kubeconfig names one"},
		"no port":             {func(o *up.Options) { o.Listen = "localhost" }, "HOST:PORT"},
		"high port":           {func(o *up.Options) { o.Listen = "localhost:65533" }, "65532"},
		"no host":             {func(o *up.Options) { o.Listen = ":8700" }, "name the host"},
		"binaries of whom":    {func(o *up.Options) { o.Binaries, o.Kubeconfig = "x", "x" }, "--kubernetes-binaries"},
		"kind of whom":        {func(o *up.Options) { o.Kind, o.Kubeconfig = true, "x" }, "--kind"},
		"no time":             {func(o *up.Options) { o.WaitTimeout = 0 }, "--wait-timeout"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(test.change)
			err := o.Check()
			if test.want == "" {
				if err != nil {
					t.Errorf("got error %v, want none", err)
				}
				return
			}
			var f *failure.Failure
			if !errors.As(err, &f) || f.Exit != failure.ExitUsage || !strings.Contains(f.Message, test.want) {
				t.Errorf("got error %v, want a usage failure with %q", err, test.want)
			}
		})
	}
}

// A release has leat for Windows, where a build of the control plane would be in vain.
func TestCheckSystem(t *testing.T) {
	t.Parallel()
	for _, system := range []string{"linux", "darwin"} {
		if err := up.CheckSystem(system); err != nil {
			t.Errorf("%s: got %v, want no error", system, err)
		}
	}
	var f *failure.Failure
	if err := up.CheckSystem("windows"); !errors.As(err, &f) || !strings.Contains(f.Advice, "--kubeconfig") {
		t.Errorf("windows: got %v, want a failure with what to do instead", err)
	}
}

func TestRepoName(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://example.com/team/My_Shop.git":           "my-shop",
		"https://example.com/team/shop/":                 "shop",
		"git@example.com:shop.git":                       "shop",
		"ssh://git@example.com/~me/..":                   "repository",
		"https://example.com/" + strings.Repeat("x", 99): strings.Repeat("x", 60),
	} {
		if got := up.RepoName(url); got != want {
			t.Errorf("RepoName(%q): got %q, want %q", url, got, want)
		}
	}
}

func plan(t *testing.T, o up.Options, url string) up.Plan {
	t.Helper()
	p, err := up.NewPlan(o, url)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func ids(objects []*fleetv1.Document) []string {
	found := []string{}
	for _, object := range objects {
		kind, name := document.Identify(object)
		found = append(found, kind+"/"+name)
	}
	return found
}

func TestPlan(t *testing.T) {
	t.Parallel()
	p := plan(t, options(func(o *up.Options) { o.Clusters = 2 }), "http://127.0.0.1:1/demo.git")
	want := []string{"Cluster/demo", "Cluster/demo-2", "Repository/demo", "Service/demo@demo", "Service/demo-2@demo-2"}
	if diff := cmp.Diff(want, ids(p.Objects)); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if got, want := p.Objects[4].GetService().GetSpec().GetCluster(), "demo-2"; got != want {
		t.Errorf("cluster of the second service: got %q, want %q", got, want)
	}
	own := plan(t, options(func(o *up.Options) { o.RepoURL, o.Path, o.Ref = "https://example.com/shop", "deploy", "main" }), "https://example.com/shop")
	if diff := cmp.Diff([]string{"Cluster/demo", "Repository/shop", "Service/shop@demo"}, ids(own.Objects)); diff != "" {
		t.Errorf("objects for a repository of one's own (-want +got):\n%s", diff)
	}
	if got, want := own.Namespace, "default"; got != want {
		t.Errorf("namespace: got %q, want %q", got, want)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	demo := plan(t, options(func(*up.Options) {}), "http://127.0.0.1:1/demo.git")
	existing := demo.Objects
	mine := fleetdoc.Of(&fleetv1.Service{Metadata: &typev1.Metadata{Name: "mine"}, Spec: &fleetv1.ServiceSpec{Cluster: "demo"}})

	tests := map[string]struct {
		plan          up.Plan
		existing      []*fleetv1.Document
		apply, remove []string
	}{
		"first start":                  {demo, nil, []string{"Cluster/demo", "Repository/demo", "Service/demo@demo"}, []string{}},
		"same again":                   {demo, existing, []string{}, []string{}},
		"with something of a person's": {demo, append([]*fleetv1.Document{mine}, existing...), []string{}, []string{}},
		"the person paused it":         {demo, paused(existing), []string{}, []string{}},
		"other port": {
			plan(t, options(func(*up.Options) {}), "http://127.0.0.1:2/demo.git"), existing,
			[]string{"Repository/demo"},
			[]string{},
		},
		"other repository": {
			plan(t, options(func(o *up.Options) { o.RepoURL = "https://example.com/shop" }), "https://example.com/shop"),
			append([]*fleetv1.Document{mine}, existing...),
			[]string{"Repository/shop", "Service/shop@demo"},
			[]string{"Service/demo@demo", "Repository/demo"},
		},
		"the person's own documents, with labels": {
			plan(t, options(func(*up.Options) {}), "http://127.0.0.1:2/demo.git"), replaced(existing), []string{}, []string{},
		},
		"a cluster of an earlier version": {demo, remarked(existing), []string{"Repository/demo", "Service/demo@demo"}, []string{}},
		"fewer clusters": {
			demo, plan(t, options(func(o *up.Options) { o.Clusters = 2 }), "http://127.0.0.1:1/demo.git").Objects,
			[]string{},
			[]string{"Service/demo-2@demo-2"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			apply, remove := test.plan.Changes(test.existing)
			if diff := cmp.Diff(test.apply, ids(apply)); diff != "" {
				t.Errorf("apply (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.remove, ids(remove)); diff != "" {
				t.Errorf("remove (-want +got):\n%s", diff)
			}
		})
	}
}

func paused(objects []*fleetv1.Document) []*fleetv1.Document {
	var changed []*fleetv1.Document
	for _, object := range objects {
		object = proto.CloneOf(object)
		if service := object.GetService(); service != nil {
			service.Spec.Paused = true
		}
		changed = append(changed, object)
	}
	return changed
}

// replaced are documents that a person has applied in place of others.
func replaced(objects []*fleetv1.Document) []*fleetv1.Document {
	var changed []*fleetv1.Document
	for _, object := range objects {
		object = proto.CloneOf(object)
		metadata := document.Metadata(object)
		metadata.Annotations, metadata.Labels = nil, map[string]string{"tier": "edge"}
		changed = append(changed, object)
	}
	return changed
}

// remarked are objects that an earlier version has planned in another form.
func remarked(objects []*fleetv1.Document) []*fleetv1.Document {
	var changed []*fleetv1.Document
	for _, object := range objects {
		object = proto.CloneOf(object)
		for key := range document.Metadata(object).GetAnnotations() {
			document.Metadata(object).Annotations[key] = "another"
		}
		changed = append(changed, object)
	}
	return changed
}

func TestListen(t *testing.T) {
	t.Parallel()
	addresses, closeAll, err := up.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ports := map[int]bool{}
	for _, address := range addresses {
		ports[address.(*net.TCPAddr).Port] = true
	}
	if len(ports) != 4 {
		t.Errorf("ports: got %v, want four different ones", addresses)
	}
	taken := addresses[0].(*net.TCPAddr).Port
	var f *failure.Failure
	if _, _, err := up.Listen(t.Context(), "127.0.0.1:"+strconv.Itoa(taken)); !errors.As(err, &f) || !strings.Contains(f.Advice, "--listen") {
		t.Errorf("taken port: got error %v, want a failure that advises --listen", err)
	}
	if err := closeAll(); err != nil {
		t.Error(err)
	}
}

func TestTracker(t *testing.T) {
	t.Parallel()
	now := time.Now()
	tracker := up.NewTracker("a", "b")
	healthy := &fleetv1.Service{Metadata: &typev1.Metadata{Name: "a"}, Status: fleettest.Healthy()}
	failed := &fleetv1.Service{Metadata: &typev1.Metadata{Name: "b"}, Status: &fleetv1.ServiceStatus{
		Phase:   typev1.ServicePhase_SERVICE_PHASE_FAILED,
		Problem: &typev1.Problem{Reason: errorsv1.Reason_REASON_REF_NOT_FOUND, Message: "no branch"},
	}}
	for _, want := range []bool{true, false} {
		if _, changed := tracker.Observe(now, healthy); changed != want {
			t.Errorf("Observe(healthy): got changed %t, want %t", changed, want)
		}
	}
	if tracker.Judged(now) {
		t.Error("Judged with one of two observed: got true, want false")
	}
	state, _ := tracker.Observe(now, failed)
	if state.Reason != "REF_NOT_FOUND" || state.Advice == "" || !state.Failed {
		t.Errorf("state: got %+v, want a failed one with reason and advice", state)
	}
	if tracker.Judged(now.Add(time.Second)) {
		t.Error("Judged right after a failure: got true, want false: it may pass")
	}
	if !tracker.Judged(now.Add(time.Minute)) {
		t.Error("Judged a minute after a failure: got false, want true")
	}
	failed.Status = fleettest.Healthy()
	if state, changed := tracker.Observe(now, failed); !changed || !state.Delivered {
		t.Errorf("recovered: got %+v, %t, want a delivered one", state, changed)
	}

	// An earlier start may have left it so.
	paused := up.NewTracker("a")
	paused.Observe(now, &fleetv1.Service{
		Metadata: &typev1.Metadata{Name: "a"}, Status: &fleetv1.ServiceStatus{Phase: typev1.ServicePhase_SERVICE_PHASE_PAUSED},
	})
	if !paused.Judged(now) {
		t.Error("Judged with a service that waits for a person: got false, want true")
	}
}
