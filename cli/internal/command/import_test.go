// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/leatdev/leat/cli/internal/command"
	"github.com/leatdev/leat/cli/internal/fleettest"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
)

// helmCluster is a real API server with releases that the real Helm program has installed.
type helmCluster struct {
	cp  *localkube.ControlPlane
	hub *fleettest.Hub
	dir string
}

func startHelm(t *testing.T) *helmCluster {
	t.Helper()
	return &helmCluster{cp: kubetest.Borrow(t), hub: fleettest.Start(t), dir: t.TempDir()}
}

// helm runs the Helm program, and returns what it prints.
func (c *helmCluster) helm(t *testing.T, args ...string) string {
	t.Helper()
	binaries, err := localkube.Build(t.Context(), localkube.BuildParams{Helm: true})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binaries.Helm, args...)
	cmd.Env = []string{"HOME=" + c.dir, "PATH=", "KUBECONFIG=" + c.cp.KubeconfigPath()}
	var words bytes.Buffer
	cmd.Stderr = &words
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helm %s: %v: %s", strings.Join(args, " "), err, words.String())
	}
	return string(out)
}

// leat runs the command line, and returns its output, its messages and its exit code.
func (c *helmCluster) leat(t *testing.T, args ...string) (out, words string, code int) {
	t.Helper()
	env := map[string]string{"LEAT_SERVER": c.hub.URL, "LEAT_TOKEN": fleettest.Token, "LEAT_CONFIG": filepath.Join(c.dir, "leat.yaml")}
	var stdout, stderr bytes.Buffer
	code = command.Run(t.Context(), command.Params{
		Args: args, In: strings.NewReader(""), Out: &stdout, Err: &stderr,
		LookupEnv: func(name string) (string, bool) { value, ok := env[name]; return value, ok },
	})
	return stdout.String(), stderr.String(), code
}

// imports runs leat import helm with the kubeconfig of the cluster.
func (c *helmCluster) imports(t *testing.T, args ...string) (out, words string, code int) {
	t.Helper()
	return c.leat(t, append([]string{"import", "helm", "--kubeconfig", c.cp.KubeconfigPath()}, args...)...)
}

// chart writes a chart, and returns its folder.
func (c *helmCluster) chart(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "web")
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// request sends a request to the API server as an administrator. A body of PATCH is a merge patch.
func (c *helmCluster) request(t *testing.T, method, path, body string) (status int, answer string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, c.cp.Host()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := c.cp.HTTPClient().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// label labels an object as an object of a service, as the agent does.
func (c *helmCluster) label(t *testing.T, path, service string) {
	t.Helper()
	if status, answer := c.request(t, http.MethodPatch, path, `{"metadata":{"labels":{"leat.dev/service":"`+service+`"}}}`); status != http.StatusOK {
		t.Fatalf("%s: got %d %s", path, status, answer)
	}
}

// service stores a service in the hub.
func (c *helmCluster) service(spec *fleetv1.ServiceSpec, status *fleetv1.ServiceStatus) {
	c.hub.Put(fleetdoc.Of(&fleetv1.Service{Metadata: &typev1.Metadata{Name: "shop", Generation: 1}, Spec: spec, Status: status}))
}

func importedChart() map[string]string {
	return map[string]string{
		"Chart.yaml":  "apiVersion: v2\nname: web\nversion: 1.2.3\n",
		"values.yaml": "color: blue\ndb: {password: none, existingSecret: ''}\n",
		"templates/a.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-a}
data:
  color: {{ .Values.color }}
  kubernetes: {{ .Capabilities.KubeVersion.Version }}
  deployments: "{{ .Capabilities.APIVersions.Has "apps/v1/Deployment" }}"
`,
		"templates/b.yaml":    "apiVersion: v1\nkind: Secret\nmetadata: {name: {{ .Release.Name }}-b}\nstringData: {password: {{ .Values.db.password | quote }}}\n",
		"templates/hook.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: once, annotations: {helm.sh/hook: post-install}}\n",
	}
}

// TestImportHelm imports a release that the real Helm program has installed, and retires it.
func TestImportHelm(t *testing.T) {
	t.Parallel()
	c := startHelm(t)
	dir := c.chart(t, importedChart())
	c.helm(t, "install", "shop", dir, "--namespace", "team", "--create-namespace", "--set=color=red")
	c.helm(t, "upgrade", "shop", dir, "--namespace", "team", "--set=color=red,db.password=hunter2hunter2")

	// Nothing is decided about a value that looks like a secret, so nothing is written.
	common := []string{"shop", "-n", "team", "--cluster", "berlin", "--repository", "charts"}
	out, words, code := c.imports(t, common...)
	if code != 1 || out != "" || !strings.Contains(words, "db.password") || !strings.Contains(words, "--secret PATH") || strings.Contains(words, "hunter2") {
		t.Errorf("undecided: got %d, %q, %q", code, out, words)
	}

	out, words, code = c.imports(t, append(common, "--secret", "db.password")...)
	if code != 0 {
		t.Fatalf("import: got %d, %s", code, words)
	}
	const summary = "release shop, revision 2, of chart web 1.2.3: 2 objects equal, 0 added, 0 changed, 0 not in the chart any more\n"
	if words != summary {
		t.Errorf("comparison: got %q, want %q", words, summary)
	}
	documents, err := document.Parse("shop.yaml", strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	spec := documents[0].Object.GetService().GetSpec()
	helm := spec.GetRender()[0].GetHelm()
	if spec.GetNamespace() != "team" || spec.GetCluster() != "berlin" || spec.GetSources()[0].GetChart() != "web" ||
		spec.GetSources()[0].GetRef().GetTag() != "1.2.3" || helm.GetReleaseName() != "shop" || !helm.GetInstalled() {
		t.Errorf("document: got %v", spec)
	}
	if got := spec.GetConfig().GetSecrets()["DB_PASSWORD"]; got != "hunter2hunter2" {
		t.Errorf("secret: got %q", got)
	}

	// A changed chart has changed objects; secrets are masked, and a hostile name is harmless.
	changed := importedChart()
	changed["templates/a.yaml"] = strings.ReplaceAll(changed["templates/a.yaml"], "color: {{ .Values.color }}", "color: {{ .Values.db.password }}")
	changed["templates/c.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
	delete(changed, "templates/b.yaml")
	_, words, code = c.imports(t, append(common, "--secret", "*", "--chart", c.chart(t, changed))...)
	for _, want := range []string{
		"+ ConfigMap c\n", "~ ConfigMap shop-a\n    data.color: \"red\" -> \"(masked)\"\n", "- Secret shop-b\n",
		"0 objects equal, 1 added, 1 changed, 1 not in the chart any more\n",
	} {
		if code != 0 || !strings.Contains(words, want) {
			t.Errorf("another chart: got %d, %q, want %q in it", code, words, want)
		}
	}

	// The document goes to a file of its own, and the chart to a folder.
	file, folder := filepath.Join(t.TempDir(), "shop.yaml"), filepath.Join(t.TempDir(), "charts", "web")
	out, _, code = c.imports(t, append(common, "--plain", "db.password", "--path", "charts/web", "--ref", "main", "--file", file, "--write-chart", folder)...)
	info, err := os.Stat(file)
	if code != 0 || out != "" || err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file: got %d, %q, %v, %v", code, out, info, err)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "templates", "a.yaml")); err != nil || string(text) != importedChart()["templates/a.yaml"] {
		t.Errorf("chart: got %q, %v", text, err)
	}

	c.throughHub(t, common)
	c.failedUpgrade(t, common)
	c.retire(t)
}

// failedUpgrade has an upgrade that failed above the deployed revision: that one is imported, and the
// release is not retired.
func (c *helmCluster) failedUpgrade(t *testing.T, args []string) {
	t.Helper()
	const secrets = "/api/v1/namespaces/team/secrets/sh.helm.release.v1.shop."
	status, recorded := c.request(t, http.MethodGet, secrets+"v2", "")
	if status != http.StatusOK {
		t.Fatalf("got %d", status)
	}
	failed := strings.NewReplacer("shop.v2", "shop.v3", `"status":"deployed"`, `"status":"failed"`).Replace(recorded)
	var secret map[string]any
	if err := json.Unmarshal([]byte(failed), &secret); err != nil {
		t.Fatal(err)
	}
	metadata := secret["metadata"].(map[string]any)
	for _, field := range []string{"uid", "resourceVersion", "managedFields", "creationTimestamp"} {
		delete(metadata, field)
	}
	text, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	if status, answer := c.request(t, http.MethodPost, strings.TrimSuffix(secrets, "/sh.helm.release.v1.shop."), string(text)); status != http.StatusCreated {
		t.Fatalf("got %d %s", status, answer)
	}
	_, words, code := c.imports(t, append(args, "--plain", "*")...)
	if code != 0 || !strings.HasPrefix(words, "Warning: revision 3 of release shop is failed; revision 2 is deployed, and is imported\n") {
		t.Errorf("failed upgrade: got %d, %q", code, words)
	}
	c.service(&fleetv1.ServiceSpec{Cluster: "berlin"}, fleettest.Healthy())
	if _, words, code := c.imports(t, "shop", "-n", "team", "--retire", "service/shop"); code != 1 || !strings.Contains(words, "revision 3 of release shop is failed") {
		t.Errorf("retire after a failed upgrade: got %d, %q", code, words)
	}
	if status, answer := c.request(t, http.MethodDelete, secrets+"v3", ""); status != http.StatusOK {
		t.Fatalf("got %d %s", status, answer)
	}
}

// throughHub imports the release through a tunnel, which admits callers with an access token.
func (c *helmCluster) throughHub(t *testing.T, args []string) {
	t.Helper()
	api, err := url.Parse(c.cp.Host())
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(api)
			r.Out.URL.Path = strings.TrimPrefix(r.In.URL.Path, "/clusters/berlin")
			r.Out.Header.Del("Authorization")
		},
		Transport: c.cp.HTTPClient().Transport,
	}
	tunnel := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer jwt-") || !strings.HasPrefix(r.URL.Path, "/clusters/berlin/") {
			http.Error(w, "no access", http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(tunnel.Close)
	c.hub.SetTunnel(tunnel.URL)
	out, words, code := c.leat(t, append([]string{"import", "helm", "--plain", "*"}, args...)...)
	if code != 0 || !strings.Contains(words, "2 objects equal, 0 added, 0 changed") || !strings.Contains(out, "password: hunter2hunter2") {
		t.Errorf("through the hub: got %d, %q, %q", code, out, words)
	}
}

// retire retires the release, after everything that keeps it from that.
func (c *helmCluster) retire(t *testing.T) {
	t.Helper()
	releases := func() string {
		var list []struct{ Name, Revision string }
		if err := json.Unmarshal([]byte(c.helm(t, "list", "-n", "team", "-o", "json")), &list); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(list)
	}
	backup := filepath.Join(t.TempDir(), "backup.json")
	args := []string{"shop", "-n", "team", "--retire", "service/shop", "--backup", backup}
	if _, words, code := c.imports(t, "shop", "-n", "team", "--retire", "service/other"); code != 1 || !strings.Contains(words, "NOT_FOUND") {
		t.Errorf("no such service: got %d, %q", code, words)
	}
	healthy := proto.CloneOf(fleettest.Healthy())
	for _, refused := range []struct {
		name    string
		prepare func()
		want    string
	}{
		{"unhealthy", func() {
			c.service(&fleetv1.ServiceSpec{Cluster: "berlin"}, &fleetv1.ServiceStatus{Phase: typev1.ServicePhase_SERVICE_PHASE_PENDING})
		}, "is not healthy"},
		{"paused", func() { c.service(&fleetv1.ServiceSpec{Cluster: "berlin", Paused: true}, healthy) }, "paused"},
		{"objects of others", func() { c.service(&fleetv1.ServiceSpec{Cluster: "berlin"}, healthy) }, "Secret shop-b, ConfigMap shop-a"},
	} {
		refused.prepare()
		if _, words, code := c.imports(t, args...); code != 1 || !strings.Contains(words, refused.want) {
			t.Errorf("%s: got %d, %q, want %q", refused.name, code, words, refused.want)
		}
	}
	if got := releases(); got != "[{shop 2}]" {
		t.Fatalf("after refusals: helm list shows %s", got)
	}
	c.service(&fleetv1.ServiceSpec{Cluster: "berlin"}, healthy)
	c.label(t, "/api/v1/namespaces/team/configmaps/shop-a", "shop")
	if _, words, code := c.imports(t, args...); code != 1 || !strings.Contains(words, ": Secret shop-b") {
		t.Errorf("one object of others: got %d, %q", code, words)
	}
	c.label(t, "/api/v1/namespaces/team/secrets/shop-b", "shop")
	out, words, code := c.imports(t, args...)
	if code != 0 || out != "release shop is retired, its objects belong to service/shop\n" {
		t.Fatalf("retire: got %d, %q, %q", code, out, words)
	}
	if got := releases(); got != "[]" {
		t.Errorf("helm list: got %s, want nothing", got)
	}
	var kept struct {
		Items []json.RawMessage
	}
	text, err := os.ReadFile(backup)
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil || len(kept.Items) != 2 {
		t.Errorf("backup: got %d Secrets, %v, want 2", len(kept.Items), err)
	}
	c.label(t, "/api/v1/namespaces/team/configmaps/shop-a", "shop") // it still exists
	if _, words, code := c.imports(t, "shop", "-n", "team", "--cluster", "berlin", "--repository", "charts"); code != 1 || !strings.Contains(words, "namespace team has no release shop") {
		t.Errorf("import of a retired release: got %d, %q", code, words)
	}
	for _, item := range kept.Items {
		if status, answer := c.request(t, http.MethodPost, "/api/v1/namespaces/team/secrets", string(item)); status != http.StatusCreated {
			t.Errorf("restore a Secret of the backup: got %d %s", status, answer)
		}
	}
	if got := releases(); got != "[{shop 2}]" {
		t.Errorf("after the restoration: helm list shows %s", got)
	}
}

// TestImportExample runs the example of docs/guides/migrate-from-helm.md.
func TestImportExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/guides/migrate-from-helm.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks, files := map[string]string{}, map[string]string{}
	for _, block := range regexp.MustCompile("(?ms)^```[a-z]+ ([^\n]+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		if name, isFile := strings.CutPrefix(block[1], "web/"); isFile {
			files[name] = block[2]
		} else {
			blocks[block[1]] = block[2]
		}
	}
	c := startHelm(t)
	dir := c.chart(t, files)
	install := strings.Fields(strings.ReplaceAll(blocks["install"], "./web", dir))
	c.helm(t, install[1:]...)
	out, words, code := c.leat(t, append(strings.Fields(blocks["import"])[1:], "--kubeconfig", c.cp.KubeconfigPath())...)
	if code != 0 || words != blocks["comparison"] || out != blocks["document"] {
		t.Errorf("got %d\n%s\n%s", code, words, out)
	}
}
