// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/cli/internal/command"
	"github.com/leatdev/leat/cli/internal/hubtest"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/await"
)

// inventory is a cluster in which a real hub's clusters are published.
type inventory struct {
	*helmCluster

	hub *hubtest.Hub
	env map[string]string // of the command line
}

const profilesPath = "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/fleet/clusterprofiles"

// leat runs the command line until it ends, or ctx does.
func (i *inventory) leat(ctx context.Context, args ...string) (out, words string, code int) {
	var stdout, stderr bytes.Buffer
	code = command.Run(ctx, command.Params{
		Args: args, In: strings.NewReader(""), Out: &stdout, Err: &stderr,
		LookupEnv: func(name string) (string, bool) { value, ok := i.env[name]; return value, ok },
	})
	return stdout.String(), stderr.String(), code
}

func (i *inventory) publish(t *testing.T, args ...string) (out, words string, code int) {
	t.Helper()
	return i.leat(t.Context(), append([]string{"cluster", "publish", "--kubeconfig", i.cp.KubeconfigPath(), "--namespace", "fleet"}, args...)...)
}

// published fails the test unless a look prints that, and nothing is left for a second one.
func (i *inventory) published(t *testing.T, want string, args ...string) {
	t.Helper()
	if out, words, code := i.publish(t, args...); out != want || code != 0 {
		t.Fatalf("got %d, %q and %q, want %q", code, out, words, want)
	}
	if out, words, code := i.publish(t, args...); out != "" || code != 0 {
		t.Errorf("a second look: got %d, %q and %q, want no change", code, out, words)
	}
}

func (i *inventory) get(t *testing.T, name string) map[string]any {
	t.Helper()
	status, answer := i.request(t, http.MethodGet, profilesPath+"/"+name, "")
	var object map[string]any
	if err := json.Unmarshal([]byte(answer), &object); err != nil {
		t.Fatal(err)
	}
	if status == http.StatusNotFound {
		return nil
	}
	return object
}

// labels returns the labels of a profile.
func (i *inventory) labels(t *testing.T, name string) string {
	t.Helper()
	return fmt.Sprint(i.get(t, name)["metadata"].(map[string]any)["labels"])
}

// label gives a cluster these labels and no others.
func (i *inventory) label(t *testing.T, cluster, labels string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: leat.dev/v1\nkind: Cluster\nmetadata: {name: "+cluster+", labels: {"+labels+"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, words, code := i.leat(t.Context(), "apply", "-f", file); code != 0 {
		t.Fatal(words)
	}
}

// TestPublish makes ClusterProfiles of a real hub's clusters in a real API server.
func TestPublish(t *testing.T) {
	t.Parallel()
	i := &inventory{helmCluster: &helmCluster{cp: kubetest.Borrow(t)}, hub: hubtest.Start(t)}
	i.env = map[string]string{"LEAT_SERVER": i.hub.URL, "LEAT_TOKEN": hubtest.Token, "LEAT_CONFIG": filepath.Join(t.TempDir(), "leat.yaml")}
	for _, name := range []string{"berlin", "oslo", "rome"} {
		if _, words, code := i.leat(t.Context(), "cluster", "create", name, "--label", "stage=prod,city="+name); code != 0 {
			t.Fatal(words)
		}
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if out, words, code := i.publish(t, args...); code == 0 || out != "" || !strings.Contains(words, want) {
			t.Errorf("%v: got %d, %q and %q, want %q", args, code, out, words, want)
		}
	}
	refused("the cluster has no ClusterProfiles")
	text, err := os.ReadFile("testdata/clusterprofiles.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if status, answer := i.request(t, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", asJSON(t, string(text))); status != http.StatusCreated {
		t.Fatalf("create the definition: %d %s", status, answer)
	}
	await.True(t, "the kind", func() bool {
		status, _ := i.request(t, http.MethodGet, profilesPath, "")
		return status == http.StatusOK
	})
	refused("there is no namespace fleet")
	if status, answer := i.request(t, http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"fleet"}}`); status != http.StatusCreated {
		t.Fatalf("create the namespace: %d %s", status, answer)
	}
	refused("--selector", "--selector", "a=b=c")
	refused("cannot be the value of a label", "--manager", "a b")
	refused("want text or json", "-o", "yaml")

	i.asPod(t)
	i.published(t, "clusterprofile/berlin applied\n", "--selector", "city=berlin")
	i.published(t, "clusterprofile/oslo applied\nclusterprofile/rome applied\n")
	state := i.get(t, "oslo")["status"].(map[string]any)
	if got, want := fmt.Sprint(state["accessProviders"]), "[map[cluster:map[server:https://127.0.0.1:1/clusters/oslo] name:leat]]"; got != want {
		t.Errorf("access: got %s, want %s", got, want)
	}
	if got, want := i.labels(t, "oslo"), "map[city:oslo stage:prod x-k8s.io/cluster-manager:leat]"; got != want {
		t.Errorf("labels: got %s, want %s", got, want)
	}
	condition := state["conditions"].([]any)[0].(map[string]any)
	if got, want := fmt.Sprint(condition["type"], condition["status"], condition["reason"]), "ControlPlaneHealthyUnknownNotEnrolled"; got != want {
		t.Errorf("condition: got %s, want %s", got, want)
	}

	// What somebody changes is put back; their own labels, and profiles of other managers, stay.
	i.request(t, http.MethodPatch, profilesPath+"/rome", `{"metadata":{"labels":{"city":"paris","mine":"1"}}}`)
	if status, answer := i.request(t, http.MethodPost, profilesPath, `{"apiVersion":"multicluster.x-k8s.io/v1alpha1","kind":"ClusterProfile",
"metadata":{"name":"bern"},"spec":{"clusterManager":{"name":"another"}}}`); status != http.StatusCreated {
		t.Fatalf("create a profile: %d %s", status, answer)
	}
	i.leat(t.Context(), "cluster", "create", "bern")
	out, words, code := i.publish(t, "-o", "json")
	if want := `{"applied":["rome"],"removed":[],"foreign":["bern"]}` + "\n"; out != want || code != 0 {
		t.Errorf("got %d, %q and %q, want %q", code, out, words, want)
	}
	if got, want := i.labels(t, "rome"), "map[city:rome mine:1 stage:prod x-k8s.io/cluster-manager:leat]"; got != want {
		t.Errorf("labels: got %s, want %s", got, want)
	}
	if _, words, _ := i.publish(t); !strings.Contains(words, "clusterprofile/bern is of another cluster manager") {
		t.Errorf("got %q, want a word about bern", words)
	}

	// A label that the cluster loses goes, and the one that somebody gave to the profile stays.
	i.label(t, "rome", "city: rome")
	if out, _, _ := i.publish(t); out != "clusterprofile/rome applied\n" {
		t.Errorf("got %q, want the change of rome", out)
	}
	if got, want := i.labels(t, "rome"), "map[city:rome mine:1 x-k8s.io/cluster-manager:leat]"; got != want {
		t.Errorf("labels: got %s, want %s", got, want)
	}
	i.leat(t.Context(), "delete", "cluster/berlin")
	i.published(t, "clusterprofile/berlin deleted\n")
	i.follow(t)
	i.loseMost(t)
}

// asPod does what docs/guides/cluster-profiles.md says for a pod, with its rights at the hub and in the cluster: its binding lets it see none
// of the clusters, and then one.
func (i *inventory) asPod(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/guides/cluster-profiles.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]string{}
	for _, block := range regexp.MustCompile("(?ms)^```[a-z]+ ([^\n]+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		blocks[block[1]] = block[2]
	}
	var config string
	for document := range strings.SplitSeq(blocks["publisher.yaml"], "---\n") {
		var object struct {
			APIVersion, Kind string
			Data             map[string]string
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		if object.Kind == "ConfigMap" {
			config = object.Data["config.yaml"]
		}
		group := "/apis/" + object.APIVersion
		if object.APIVersion == "v1" {
			group = "/api/v1"
		}
		path := group + "/namespaces/fleet/" + strings.ToLower(object.Kind) + "s?fieldValidation=Strict"
		if status, answer := i.request(t, http.MethodPost, path, asJSON(t, document)); status != http.StatusCreated {
			t.Fatalf("%s: got %d %s", object.Kind, status, answer)
		}
	}

	folder := t.TempDir()
	_, keys := i.request(t, http.MethodGet, "/openid/v1/jwks", "")
	write := func(name, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	hub := strings.Replace(blocks["hub.yaml"], "  audience: ", "  jwks: '"+keys+"'\n  audience: ", 1)
	hub = strings.Replace(hub, "clusters: {all: true}", "clusters: {names: [oslo]}", 1)
	if _, words, code := i.leat(t.Context(), "apply", "-f", write("hub.yaml", hub)); code != 0 {
		t.Fatal(words)
	}
	_, answer := i.request(t, http.MethodPost, "/api/v1/namespaces/fleet/serviceaccounts/leat-publish/token", `{"spec":{"audiences":["https://leat.example.com"]}}`)
	var issued struct{ Status struct{ Token string } }
	if err := json.Unmarshal([]byte(answer), &issued); err != nil {
		t.Fatal(err)
	}
	config = strings.NewReplacer("https://leat.example.com", i.hub.URL, "/run/leat/token", write("token", issued.Status.Token)).Replace(config)
	pod := &inventory{i.helmCluster, i.hub, map[string]string{"LEAT_CONFIG": write("config.yaml", config)}}
	kubeconfig, err := clientcmd.LoadFromFile(i.cp.KubeconfigPath())
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range kubeconfig.AuthInfos {
		user.Impersonate = "system:serviceaccount:fleet:leat-publish"
	}
	account := filepath.Join(folder, "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, account); err != nil {
		t.Fatal(err)
	}
	args := append(strings.Fields("cluster publish --namespace fleet"), "--kubeconfig", account)
	if !strings.Contains(blocks["publish"], "leat "+strings.Join(args[:4], " ")+"\n") {
		t.Errorf("the page runs %s", blocks["publish"])
	}
	var out string
	await.Success(t, "the rights of the account", func(ctx context.Context) error {
		var words string
		var code int
		if out, words, code = pod.leat(ctx, args...); code != 0 {
			return errors.New(words)
		}
		return nil
	})
	if out != "clusterprofile/oslo applied\n" {
		t.Errorf("got %q, want the only cluster of its binding", out)
	}
	// Without the binding, the account sees no cluster, and what it has made goes.
	i.leat(t.Context(), "delete", "accessbinding/inventory")
	await.Success(t, "the end of the rights", func(ctx context.Context) error {
		if out, words, code := pod.leat(ctx, args...); out != "clusterprofile/oslo deleted\n" || code != 0 {
			return fmt.Errorf("got %q and %q", out, words)
		}
		return nil
	})
}

func asJSON(t *testing.T, document string) string {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// follow keeps profiles as the clusters are.
func (i *inventory) follow(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type ended struct {
		words string
		code  int
	}
	end := make(chan ended, 1)
	go func() {
		_, words, code := i.leat(ctx, "cluster", "publish", "--kubeconfig", i.cp.KubeconfigPath(), "--namespace", "fleet", "--selector", "city", "--follow")
		end <- ended{words, code}
	}()
	paris := func() string {
		state, _ := i.get(t, "paris")["status"].(map[string]any)
		if state == nil {
			return "" // what it is comes before its state
		}
		return fmt.Sprint(state["conditions"].([]any)[0].(map[string]any)["reason"], state["version"])
	}
	i.leat(t.Context(), "cluster", "create", "paris", "--label", "city=paris")
	await.True(t, "the profile of a new cluster", func() bool { return paris() == "NotEnrolled<nil>" })
	i.hub.Agent(t, "paris")
	await.True(t, "its agent in the profile", func() bool { return paris() == "AgentConnectedmap[kubernetes:v1.36.3]" })
	i.label(t, "paris", "city: paris, new: label")
	await.True(t, "a label", func() bool { return i.labels(t, "paris") == "map[city:paris new:label x-k8s.io/cluster-manager:leat]" })
	i.label(t, "paris", "city: paris")
	await.True(t, "its end", func() bool { return i.labels(t, "paris") == "map[city:paris x-k8s.io/cluster-manager:leat]" })
	i.leat(t.Context(), "delete", "cluster/rome")
	await.True(t, "the end of a profile", func() bool { return i.get(t, "rome") == nil })
	cancel()
	if got := await.Value(t, "the end of leat", end); got.code != 0 || got.words != "" {
		t.Errorf("got %d and %q, want the end without an error", got.code, got.words)
	}
}

// loseMost has most clusters disappear at once.
func (i *inventory) loseMost(t *testing.T) {
	t.Helper()
	var all strings.Builder
	for n := range 5 {
		i.leat(t.Context(), "cluster", "create", fmt.Sprintf("edge-%d", n), "--label", "edge=yes")
		fmt.Fprintf(&all, "clusterprofile/edge-%d applied\n", n)
	}
	i.published(t, all.String())
	out, words, code := i.publish(t, "--selector", "!edge,city")
	if want := "5 of 7 profiles are of clusters that you do not see any more"; out != "" || code != 1 || !strings.Contains(words, want) || i.get(t, "edge-0") == nil {
		t.Errorf("got %d, %q and %q, want %q, and all profiles as they were", code, out, words, want)
	}
	i.published(t, strings.ReplaceAll(all.String(), "applied", "deleted"), "--selector", "!edge,city", "--allow-removals")
}
