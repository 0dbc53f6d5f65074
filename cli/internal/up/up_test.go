// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package up_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leatdev/leat/cli/internal/up/report"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/runtime/localkube/supply"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/program"
	"github.com/leatdev/leat/internal/testkit/standin"
)

// process is a running `leat up --output json`.
type process struct {
	cmd    *exec.Cmd
	events chan report.Event
	stderr *strings.Builder
	rest   []report.Event // that stop has read
}

func startUp(t *testing.T, leat, dataDir string, args ...string) *process {
	t.Helper()
	return startUpWith(t, nil, leat, dataDir, args...)
}

// startUpWith is startUp with further variables in the environment.
func startUpWith(t *testing.T, env []string, leat, dataDir string, args ...string) *process {
	t.Helper()
	args = append([]string{"up", "--output", "json", "--listen", "127.0.0.1:0", "--data-dir", dataDir}, args...)
	p := &process{cmd: exec.Command(leat, args...), events: make(chan report.Event, 1000), stderr: &strings.Builder{}}
	p.cmd.Stderr = p.stderr
	p.cmd.Env = append(os.Environ(), env...)
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // has already ended, if all went well
		for range p.events {     // until the reader has seen the end
		}
		_ = p.cmd.Wait()
	})
	go p.read(stdout)
	return p
}

func (p *process) read(stdout io.Reader) {
	defer close(p.events)
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e report.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			e = report.Event{Kind: "malformed", Message: lines.Text()}
		}
		p.events <- e
	}
}

// wait returns the first event that matches.
func (p *process) wait(t *testing.T, what string, match func(report.Event) bool) report.Event {
	t.Helper()
	var seen []string
	ctx := await.Context(t)
	for {
		select {
		case e, ok := <-p.events:
			if !ok {
				t.Fatalf("leat up ended while the test waited for %s; it said\n%s\n%s", what, strings.Join(seen, "\n"), p.stderr)
			}
			if match(e) {
				return e
			}
			seen = append(seen, fmt.Sprintf("%+v", e))
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s; leat up said\n%s", what, strings.Join(seen, "\n"))
		}
	}
}

func (p *process) ready(t *testing.T) *report.Summary {
	t.Helper()
	return p.wait(t, "ready event", func(e report.Event) bool { return e.Kind == report.Ready }).Summary
}

// stop interrupts the process and checks its exit code.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.wait(t, "stopped event", func(e report.Event) bool {
		p.rest = append(p.rest, e)
		return e.Kind == report.Stopped
	})
	for range p.events { // its end
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("after an interrupt: got %v, want exit code 0\n%s", err, p.stderr)
	}
}

// run executes leat against the hub and returns its output.
func run(t *testing.T, leat string, summary *report.Summary, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), leat, args...)
	cmd.Env = append(os.Environ(), "LEAT_CONFIG="+summary.Config)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("leat %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return string(output)
}

// TestUp is a newcomer's first hour: start, look, push, stop, start again.
func TestUp(t *testing.T) {
	t.Parallel()
	dataDir := filepath.Join(t.TempDir(), "up")

	first := startUp(t, leat, dataDir)
	summary := first.ready(t)
	if len(summary.Services) != 1 || !summary.Services[0].Delivered || summary.Services[0].Objects < 4 {
		t.Fatalf("services: got %+v, want one that is delivered", summary.Services)
	}
	if got := kubectl(t, summary, "get", "deployment", "hello", "-o", "jsonpath={.spec.replicas} {.status.readyReplicas}"); got != "2 2" {
		t.Errorf("replicas through the tunnel: got %q, want %q", got, "2 2")
	}
	if got := kubectl(t, summary, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username} {.status.userInfo.groups[0]}"); got != "admin leat:admins" {
		t.Errorf("identity in the cluster: got %q, want %q", got, "admin leat:admins")
	}

	commit := pushChange(t, summary.Repository)
	first.wait(t, "delivery of the push", func(e report.Event) bool {
		return e.Service != nil && e.Service.Delivered && len(e.Service.Commits) == 1 && e.Service.Commits[0] == commit
	})
	if got := run(t, leat, summary, "wait", "service/demo"); !strings.Contains(got, commit[:8]) {
		t.Errorf("leat wait: got %q, want commit %s", got, commit[:8])
	}
	if got := kubectl(t, summary, "get", "deployment", "hello", "-o", "jsonpath={.spec.replicas}"); got != "3" {
		t.Errorf("replicas after the push: got %q, want %q", got, "3")
	}

	servesUI(t, summary)
	notifiesHere(t, leat, summary)
	refusesSecond(t, leat, dataDir)
	uid := serviceUID(t, leat, summary)
	first.stop(t)
	nobodyListens(t, summary.Server)

	second := startUp(t, leat, dataDir)
	again := second.ready(t)
	if got := serviceUID(t, leat, again); got != uid {
		t.Errorf("service after a restart: got uid %s, want %s", got, uid)
	}
	if got := kubectl(t, again, "get", "deployment", "hello", "-o", "jsonpath={.spec.replicas}"); got != "3" {
		t.Errorf("replicas after a restart: got %q, want %q", got, "3")
	}
	log, err := os.ReadFile(filepath.Join(dataDir, "logs", "agent-demo.log"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(log), "msg=enrolled"); got != 1 {
		t.Errorf("enrolments: got %d, want 1: the agent keeps its identity\n%s", got, log)
	}
	second.stop(t)
}

// TestUpDeliversItsExamples delivers what the examples of `leat up --help` name, from copies of
// those repositories, until nothing moves any more: autoscalers have scaled by then.
func TestUpDeliversItsExamples(t *testing.T) {
	t.Parallel()
	help, err := exec.CommandContext(t.Context(), leat, "up", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile(`(?m)^ +leat up --repo (\S+)(.*)$`).FindAllStringSubmatch(string(help), -1)
	if len(examples) == 0 {
		t.Fatalf("got help without an example of a repository:\n%s", help)
	}
	server := gittest.New(t)
	for _, example := range examples {
		name := path.Base(example[1])
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo := server.Repo(t, name)
			repo.Commit(t, "main", filesBelow(t, filepath.Join("testdata", "examples", name)))
			p := startUp(t, leat, filepath.Join(t.TempDir(), "up"), append([]string{"--repo", repo.URL()}, strings.Fields(example[2])...)...)
			summary := p.ready(t)
			for _, service := range summary.Services {
				if !service.Delivered || service.Phase != "healthy" {
					t.Errorf("got %+v, want it healthy", service)
				}
			}
			if strings.Contains(kubectl(t, summary, "get", "hpa", "-o", "name"), "/") {
				kubectl(t, summary, "wait", "hpa", "--all", "--for=condition=ScalingActive", "--timeout=2m")
			}
			kubectl(t, summary, "wait", "deployments", "--all", "--for=condition=Available", "--timeout=2m")
			for _, service := range summary.Services {
				run(t, leat, summary, "wait", "service/"+service.Name, "--for=healthy", "--timeout=2m")
			}
			p.stop(t)
			for _, e := range p.rest {
				if e.Service != nil && (e.Service.Failed || e.Service.Phase == "degraded") {
					t.Errorf("got %+v after the delivery, want it to stay healthy", e.Service)
				}
			}
		})
	}
}

// filesBelow returns the content of every file below a folder.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		files[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestUpDeliversBeforeTheNodesRun names a folder with binaries, of which the controller manager
// waits. The demo is applied meanwhile, as a start shows while the rest is still built.
func TestUpDeliversBeforeTheNodesRun(t *testing.T) {
	t.Parallel()
	binaries, gate := t.TempDir(), filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	built := builtFiles(t)
	for _, name := range append(supply.Servers(), supply.Rest()...) {
		if name == localkube.SchedulerFile {
			continue // comes from the earlier start
		}
		if err := os.Symlink(*built.Path(name), filepath.Join(binaries, name)); err != nil {
			t.Fatal(err)
		}
	}
	held := filepath.Join(binaries, localkube.ControllerManagerFile)
	if err := os.Remove(held); err != nil {
		t.Fatal(err)
	}
	standin.Write(t, held, fmt.Sprintf("#!/bin/sh\n[ \"$1\" = --version ] || read -r opened <%q\nexec %q \"$@\"\n", gate, built.ControllerManager))

	p := startUp(t, leat, filepath.Join(t.TempDir(), "up"), "--kubernetes-binaries", binaries)
	origin := p.wait(t, "origin of the servers", func(e report.Event) bool { return e.Kubernetes != nil }).Kubernetes
	if want := (report.Origin{Way: "--kubernetes-binaries", Files: supply.Servers()}); !reflect.DeepEqual(*origin, want) {
		t.Errorf("origin: got %+v, want %+v", *origin, want)
	}
	p.wait(t, "objects in the cluster", func(e report.Event) bool {
		if e.Kind == report.Ready {
			t.Error("ready before the nodes are")
		}
		return e.Service != nil && e.Service.Objects >= 4 && !e.Service.Delivered && !e.Service.Failed
	})
	if err := os.WriteFile(gate, []byte("open\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	summary := p.ready(t)
	if len(summary.Services) != 1 || !summary.Services[0].Delivered {
		t.Errorf("services: got %+v, want one that is delivered", summary.Services)
	}
	if want := filepath.Join(binaries, "kubectl"); summary.Kubectl != want {
		t.Errorf("kubectl: got %s, want %s", summary.Kubectl, want)
	}
	var ways []string
	for _, o := range summary.Kubernetes {
		ways = append(ways, o.Way+" "+strings.Join(o.Files, ","))
	}
	want := []string{
		"--kubernetes-binaries etcd,kube-apiserver",
		"--kubernetes-binaries kube-controller-manager,kwok,kubectl", "earlier start kube-scheduler",
	}
	if !reflect.DeepEqual(ways, want) {
		t.Errorf("origins: got %q, want %q", ways, want)
	}
	p.stop(t)
}

// standInKind is not kind: its clusters are the control plane of the test, whose kubeconfig is in
// $0.kubeconfig. It lists, makes and deletes names, as kind does with containers.
const standInKind = `#!/bin/sh
verb="$1"
while [ $# -gt 0 ]; do
	case "$1" in
	--name) name=$2 ;;
	--kubeconfig) kubeconfig=$2 ;;
	esac
	shift
done
case "$verb" in
get) cat "$0.clusters" ;;
create)
	echo "$name" >>"$0.clusters"
	cp "$0.kubeconfig" "$kubeconfig" ;;
delete)
	grep -vx "$name" "$0.clusters" >"$0.left"
	mv "$0.left" "$0.clusters" ;;
esac
`

// TestUpKind starts twice with a stand-in for kind, the second time in another cluster, and at last
// without kind.
func TestUpKind(t *testing.T) {
	t.Parallel()
	kind, dataDir := filepath.Join(t.TempDir(), "kind"), filepath.Join(t.TempDir(), "up")
	standin.Write(t, kind, standInKind)
	if err := os.WriteFile(kind+".clusters", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + filepath.Dir(kind) + string(os.PathListSeparator) + os.Getenv("PATH")}
	for range 2 {
		cluster := kubetest.Start(t)
		if err := os.WriteFile(kind+".kubeconfig", cluster.Kubeconfig(), 0o600); err != nil {
			t.Fatal(err)
		}
		p := startUpWith(t, env, leat, dataDir, "--kind")
		summary := p.ready(t)
		if len(summary.Services) != 1 || !summary.Services[0].Delivered || summary.Clusters[0].Simulated {
			t.Errorf("got %+v, want a service that is delivered to a cluster whose pods run", summary)
		}
		p.stop(t)
		if left, err := os.ReadFile(kind + ".clusters"); err != nil || len(left) != 0 {
			t.Errorf("clusters after the stop: got %q, %v", left, err)
		}
	}
	p := startUp(t, leat, dataDir)
	if summary := p.ready(t); !summary.Services[0].Delivered || !summary.Clusters[0].Simulated {
		t.Errorf("without --kind: got %+v, want the service delivered to simulated nodes", summary)
	}
	p.stop(t)
}

func TestUpKindNeedsKind(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), leat, "up", "--kind", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir())
	cmd.Env = []string{"PATH=" + t.TempDir(), "HOME=" + t.TempDir()}
	output, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(output), "there is no kind on the PATH") {
		t.Errorf("got %v, want exit code 1 with what is missing\n%s", err, output)
	}
}

// builtFiles returns the files that TestMain has built.
func builtFiles(t *testing.T) localkube.Binaries {
	t.Helper()
	source, err := localkube.FindSource(".")
	if err != nil {
		t.Fatal(err)
	}
	built, err := localkube.Built(localkube.BuildParams{SourceDir: source})
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// A folder that does not fit ends leat up before anything starts.
func TestUpRefusesBinariesThatDoNotFit(t *testing.T) {
	t.Parallel()
	binaries := t.TempDir()
	standin.Write(t, filepath.Join(binaries, "etcd"), "#!/bin/sh\necho etcd Version: 3.4.30\n")
	cmd := exec.CommandContext(t.Context(), leat, "up", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir(), "--kubernetes-binaries", binaries)
	output, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(output), "etcd 3.4.30 does not fit, want 3.6 or 3.7") {
		t.Errorf("got %v, want exit code 1 with the version that does not fit\n%s", err, output)
	}
}

// Outside of a checkout leat up builds what it knows itself, so Go alone is missing. A folder that is
// named has to be in a checkout.
func TestUpOutsideOfACheckout(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--kubernetes-mirror", "off"}, 1, "build: no go command)\nleat builds them where Go is installed: https://go.dev/dl."},
		{[]string{"--kube-source", "elsewhere"}, 2, "--kube-source: elsewhere is not in a checkout of Leat"},
	} {
		cmd := exec.CommandContext(t.Context(), leat, append([]string{"up", "--listen", "127.0.0.1:0"}, test.args...)...)
		cmd.Dir, cmd.Env = t.TempDir(), []string{"PATH=" + t.TempDir(), "HOME=" + t.TempDir()}
		output, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != test.code || !strings.Contains(string(output), test.want) {
			t.Errorf("%q: got %v, want exit code %d with %q\n%s", test.args, err, test.code, test.want, output)
		}
	}
}

// A repository that cannot be fetched is told with its reason, and leat up continues.
func TestUpWithoutUpstream(t *testing.T) {
	t.Parallel()
	p := startUp(t, leat, filepath.Join(t.TempDir(), "up"), "--repo", "http://127.0.0.1:1/absent.git")
	service := p.wait(t, "failure of the service", func(e report.Event) bool { return e.Service != nil && e.Service.Failed }).Service
	if service.Reason != "UPSTREAM_UNREACHABLE" || service.Advice == "" {
		t.Errorf("service: got %+v, want UPSTREAM_UNREACHABLE with advice", service)
	}
	p.stop(t)
}

// kubectl runs the command with the kubeconfig that leat up wrote, in the demo's namespace.
func kubectl(t *testing.T, summary *report.Summary, args ...string) string {
	t.Helper()
	args = append([]string{"--kubeconfig", summary.Clusters[0].Kubeconfig, "-n", summary.Namespace}, args...)
	cmd := exec.CommandContext(t.Context(), summary.Kubectl, args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir()) // kubectl's caches
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return string(output)
}

// pushChange raises the number of replicas and returns the commit.
func pushChange(t *testing.T, url string) string {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=T", "-c", "user.email=t@example.com"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		output, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, output)
		}
		return strings.TrimSpace(string(output))
	}
	git("clone", "--quiet", url, ".")
	path := filepath.Join(dir, "deploy", "deployment.yaml")
	manifest, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(manifest), "replicas: 2", "replicas: 3", 1)
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	git("commit", "--quiet", "--all", "--message", "Three replicas")
	git("push", "--quiet")
	return git("rev-parse", "HEAD")
}

func serviceUID(t *testing.T, leat string, summary *report.Summary) string {
	t.Helper()
	var service struct {
		Metadata struct{ UID string }
	}
	if err := json.Unmarshal([]byte(run(t, leat, summary, "get", "service", "demo", "-o", "json")), &service); err != nil {
		t.Fatal(err)
	}
	return service.Metadata.UID
}

// notifiesHere tests a notifier whose receiver is on this machine, which other hubs do not call.
func notifiesHere(t *testing.T, leat string, summary *report.Summary) {
	t.Helper()
	received := make(chan *http.Request, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case received <- r:
		default: // events of the fleet may follow
		}
	}))
	defer receiver.Close()
	document := filepath.Join(t.TempDir(), "notifier.yaml")
	content := fmt.Sprintf("{apiVersion: leat.dev/v1, kind: Notifier, metadata: {name: here}, spec: {webhook: {url: %q}}}\n", receiver.URL+"/leat")
	if err := os.WriteFile(document, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, leat, summary, "apply", "-f", document)
	if got := run(t, leat, summary, "notifier", "test", "here"); !strings.Contains(got, "was taken: 200 OK") {
		t.Errorf("leat notifier test: got %q, want that the receiver took it", got)
	}
	if got := (<-received).URL.Path; got != "/leat" {
		t.Errorf("the receiver got a message at %s, want /leat", got)
	}
	run(t, leat, summary, "delete", "notifier/here")
}

func refusesSecond(t *testing.T, leat, dataDir string) {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), leat, "up", "--data-dir", dataDir, "--listen", "127.0.0.1:0").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(output), "another leat up is running") {
		t.Errorf("second leat up on the same folder: got %v, want exit code 1 with an explanation\n%s", err, output)
	}
}

// servesUI asks the front for the web UI, and compares its link with what the program embeds.
func servesUI(t *testing.T, summary *report.Summary) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, summary.Server+"/ui/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	isBuilt := response.StatusCode == http.StatusOK
	_, port, _ := strings.Cut(strings.TrimPrefix(summary.Server, "http://"), ":")
	isLinked := strings.HasPrefix(summary.UI, "http://leat.localhost:"+port+"/ui/sign-in#code=")
	if response.Header.Get("Content-Security-Policy") == "" || isBuilt != isLinked || !isBuilt && summary.UI != "" {
		t.Errorf("got %s with %v, and the address %q", response.Status, response.Header, summary.UI)
	}
}

func nobodyListens(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err == nil {
		_ = response.Body.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the hub's port after the stop: got %v, want %v", err, syscall.ECONNREFUSED)
	}
}

// leat is the program under test, which TestMain builds.
var leat string

// TestMain builds the control plane's binaries and leat before the tests, which would otherwise seem
// to hang for minutes.
func TestMain(m *testing.M) {
	code, err := withBinaries(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withBinaries(run func() int) (code int, err error) {
	source, err := localkube.FindSource(".")
	if err != nil {
		return 0, err
	}
	if _, err := localkube.Build(context.Background(), localkube.BuildParams{
		SourceDir: source, Progress: func(line string) { fmt.Fprintln(os.Stderr, line) },
	}); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "leat-up-test-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if leat, err = program.Compile(context.Background(), dir, "../../cmd/leat"); err != nil {
		return 0, err
	}
	return run(), nil
}
