// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package renderworker_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/program"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/renderers"
	"github.com/leatdev/leat/render/renderworker"
)

// TestMain makes it possible to start this program as a worker.
func TestMain(m *testing.M) {
	renderworker.ServeBare(os.Args[1:])
	renderworker.Serve(os.Args[1:])
	code := m.Run()
	if plainWorker.dir != "" {
		_ = os.RemoveAll(plainWorker.dir) // the system deletes it if this fails
	}
	os.Exit(code)
}

// plainWorker is the program of workers without the race detector, which is built once.
var plainWorker struct {
	sync.Once

	dir, path string
	err       error
}

// buildPlainWorker returns the path of the program.
func buildPlainWorker() (string, error) {
	plainWorker.Do(func() {
		if plainWorker.dir, plainWorker.err = os.MkdirTemp("", "renderworker"); plainWorker.err != nil {
			return
		}
		plainWorker.path, plainWorker.err = program.Compile(context.Background(), plainWorker.dir, "./testdata/worker")
	})
	return plainWorker.path, plainWorker.err
}

// newPool returns a pool. Unless a test sets a timeout, only a render that hangs reaches it.
func newPool(t testing.TB, cfg renderworker.Config) *renderworker.Pool {
	t.Helper()
	cfg.Timeout = cmp.Or(cfg.Timeout, await.Patience)
	pool := renderworker.NewPool(cfg, render.Limits{})
	t.Cleanup(pool.Close)
	return pool
}

// needsLimits skips a test if the kernel does not limit workers. With the race detector, this
// program would be too large for its limits, so the pool starts a program without the detector.
func needsLimits(t *testing.T, pool *renderworker.Pool) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the kernel limits workers on Linux alone")
	}
	if !renderworker.RaceDetector {
		return
	}
	program, err := buildPlainWorker()
	if err != nil {
		t.Fatal(err)
	}
	pool.Start(program)
}

// listener starts a server that workers must not reach. It returns the server's URL and the number
// of its requests.
func listener(t *testing.T) (url string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	t.Cleanup(server.Close)
	return server.URL + "/x", requests
}

func files(content map[string]string) *render.Files {
	all := map[string][]byte{}
	for name, text := range content {
		all[name] = []byte(text)
	}
	return render.NewFiles(all)
}

func configMap(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
}

// good returns a valid kustomization.
func good(name string) *render.Files {
	return files(map[string]string{"kustomization.yaml": "namePrefix: my-\nresources: [a.yaml]\n", "a.yaml": configMap(name)})
}

// slow returns a kustomization whose build takes minutes: objects that name one another.
func slow(objects int) *render.Files {
	var text strings.Builder
	for i := range objects {
		fmt.Fprintf(&text, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\n---\n", i)
		fmt.Fprintf(&text, "apiVersion: v1\nkind: Pod\nmetadata: {name: p%d}\nspec: {volumes: [{name: v, configMap: {name: c%d}}], containers: [{name: a, image: b}]}\n---\n", i, i)
	}
	return files(map[string]string{"kustomization.yaml": "namePrefix: my-\nresources: [a.yaml]\n", "a.yaml": text.String()})
}

// build renders the kustomization of a folder, and returns the names of its objects.
func build(ctx context.Context, renderer render.Renderer, files *render.Files, folder string) (names string, err error) {
	out, err := renderer.Render(ctx, render.Input{Files: files, Folder: folder, Steps: []renderstep.Step{{Renderer: renderstep.Kustomize}}})
	for _, o := range out.Objects {
		names += "name: " + o.GetName() + "\n"
	}
	return names, err
}

// mustBuild renders a kustomization. If the pool gives a render little time, mustBuild tries again: on
// a busy machine, the start of a worker alone can take longer than that time.
func mustBuild(t *testing.T, pool *renderworker.Pool, name string) {
	t.Helper()
	await.Success(t, "a build in time", func(ctx context.Context) error {
		text, err := build(ctx, pool, good(name), "")
		if limit, ok := errors.AsType[*render.LimitError](err); ok && limit.Limit == render.LimitTime {
			return err
		}
		if err != nil || !strings.Contains(text, "my-"+name) {
			t.Fatalf("got %q, %v, want the ConfigMap my-%s", text, err, name)
		}
		return nil
	})
}

func TestBuilds(t *testing.T) {
	t.Parallel()
	pool := newPool(t, renderworker.Config{})
	for i := range 3 {
		mustBuild(t, pool, strconv.Itoa(i)+"-x")
	}
	if n := pool.Resting(); n != 1 {
		t.Errorf("got %d workers, want one that built all", n)
	}
	linked := files(map[string]string{"app/kustomization.yaml": "resources: [../a.yaml]\n", "a.yaml": configMap("a")})
	if text, err := build(t.Context(), pool, linked, "app"); err != nil || !strings.Contains(text, "name: a") {
		t.Errorf("in a folder: got %q, %v", text, err)
	}
	pool.Close()
	if n := pool.Resting(); n != 0 {
		t.Errorf("got %d workers after the end, want none", n)
	}
	mustBuild(t, pool, "a") // the last build of an agent that ends
}

// TestErrors checks that errors keep their type and message through the pipe.
func TestErrors(t *testing.T) {
	t.Parallel()
	pool := newPool(t, renderworker.Config{})
	for name, content := range map[string]*render.Files{
		"refused":  files(map[string]string{"kustomization.yaml": "Resources: [a.yaml]\n", "a.yaml": configMap("a")}),
		"not good": files(map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": "kind: [\n"}),
		"too much": files(map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": configMap("a") + "x: [&x {x: *x}]\n"}),
		"panic":    files(map[string]string{"kustomization.yaml": "crds: [a]\n", "a": ""}),
	} {
		_, want := build(t.Context(), renderers.Engine(render.Limits{}), content, "")
		_, err := build(t.Context(), pool, content, "")
		if want == nil || err == nil || err.Error() != want.Error() || fmt.Sprintf("%T", err) != fmt.Sprintf("%T", want) {
			t.Errorf("%s: got %T %v, want %T %v", name, err, err, want, want)
		}
	}
	mustBuild(t, pool, "a")
	if n := pool.Resting(); n != 1 {
		t.Errorf("got %d workers, want one: errors end none", n)
	}
}

// TestSecBombEndsTheWorkerAlone builds a kustomization that passes every check but takes all
// memory: each of its many levels doubles the objects. The test's process, which stands for the
// agent's, survives, and other builds still succeed.
func TestSecBombEndsTheWorkerAlone(t *testing.T) {
	t.Parallel()
	pool := newPool(t, renderworker.Config{Memory: 192 * config.MiB})
	needsLimits(t, pool)
	mustBuild(t, pool, "before")
	content := map[string]string{"00/a.yaml": configMap("a") + "data: {k: '" + strings.Repeat("x", 256<<10) + "'}\n", "00/kustomization.yaml": "resources: [a.yaml]\n"}
	const levels = 12
	for i := 1; i <= levels; i++ {
		below := fmt.Sprintf("%02d", i-1)
		for _, side := range []string{"l", "r"} {
			content[fmt.Sprintf("%02d%s/kustomization.yaml", i, side)] = "nameSuffix: " + side + "\nresources: [../" + below + "]\n"
		}
		content[fmt.Sprintf("%02d/kustomization.yaml", i)] = fmt.Sprintf("resources: [../%02dl, ../%02dr]\n", i, i)
	}
	_, err := build(t.Context(), pool, files(content), fmt.Sprintf("%02d", levels))
	limit := new(render.LimitError)
	if !errors.As(err, &limit) || limit.Limit != render.LimitMemory {
		t.Errorf("got %v, want limit %s", err, render.LimitMemory)
	}
	mustBuild(t, pool, "after")
}

// TestSecSlowBuildIsEnded builds two kustomizations that take minutes. The timeout ends both builds
// and their workers. Another pool builds afterwards.
func TestSecSlowBuildIsEnded(t *testing.T) {
	t.Parallel()
	pool := newPool(t, renderworker.Config{Workers: 2, Timeout: 1500 * time.Millisecond})
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			_, err := build(t.Context(), pool, slow(4_000), "")
			limit := new(render.LimitError)
			if !errors.As(err, &limit) || limit.Limit != render.LimitTime {
				t.Errorf("got %v, want limit %s", err, render.LimitTime)
			}
		})
	}
	group.Wait()
	if n := pool.Resting(); n != 0 {
		t.Errorf("got %d workers, want none", n)
	}
	patient := newPool(t, renderworker.Config{})
	mustBuild(t, patient, "after")
}

// TestSecCPUTimeIsBounded checks that the kernel ends a build that no deadline ends.
func TestSecCPUTimeIsBounded(t *testing.T) {
	t.Parallel()
	pool := newPool(t, renderworker.Config{Timeout: 10 * time.Minute})
	needsLimits(t, pool)
	pool.BoundCPU(2 * time.Second)
	_, err := build(t.Context(), pool, slow(4_000), "")
	limit := new(render.LimitError)
	if !errors.As(err, &limit) || limit.Limit != render.LimitTime {
		t.Errorf("got %v, want limit %s", err, render.LimitTime)
	}
}

// TestCanceledBuildIsNoFailure ends the context of a build. The error is the context's cause, and
// does not concern the content.
func TestCanceledBuildIsNoFailure(t *testing.T) {
	t.Parallel()
	pool := newPool(t, renderworker.Config{})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("there is a newer plan")
	time.AfterFunc(time.Second, func() { cancel(why) })
	if _, err := build(ctx, pool, slow(4_000), ""); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	if _, err := build(ctx, pool, good("a"), ""); err != nil && !errors.Is(err, why) {
		t.Errorf("before its turn: got %v, want %v", err, why)
	}
	mustBuild(t, pool, "after")
}

// TestDeadWorkerIsReplaced kills an idle worker, and builds again.
func TestDeadWorkerIsReplaced(t *testing.T) {
	t.Parallel()
	pool := newPool(t, renderworker.Config{})
	mustBuild(t, pool, "a")
	pids := pool.Pids()
	if len(pids) != 1 {
		t.Fatalf("got %d workers, want 1", len(pids))
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	mustBuild(t, pool, "b")
}

// TestSecWorkerIsShutIn checks what a worker can reach.
func TestSecWorkerIsShutIn(t *testing.T) {
	t.Parallel()
	needsLimits(t, newPool(t, renderworker.Config{}))
	report := renderworker.Inspect(t)
	for name, want := range map[string]string{
		"environment": "[]", "folder": "/", "git": "not found", "http": "refused", "open files": "16", "file size": "0", "core": "0",
	} {
		if report[name] != want {
			t.Errorf("%s: got %q, want %q", name, report[name], want)
		}
	}
	if report["oom_score_adj"] != "500" {
		t.Logf("oom_score_adj is %q: the system did not allow more", report["oom_score_adj"])
	}
	t.Logf("worker: %v", report)
}

// TestSecNothingIsFetchedBehindTheCheck builds without the check, as if the check had a gap. The
// worker itself does not fetch anything.
func TestSecNothingIsFetchedBehindTheCheck(t *testing.T) {
	t.Parallel()
	url, requests := listener(t)
	for _, field := range []string{
		"resources: ['URL']", "Resources: ['URL']", "configMapGenerator: [{name: g, Files: ['a=URL']}]", "patches: [{Path: 'URL'}]", "openapi: {path: 'URL'}",
		"crds: ['URL']", "resources: ['git@127.0.0.1:a/b']", "resources: ['file:///etc/b']", "components: ['git::URL/a/b']",
	} {
		message := renderworker.BuildUnchecked(t, map[string]string{"kustomization.yaml": strings.ReplaceAll(field, "URL", url)})
		if !strings.Contains(message, "remote references are not fetched") && !strings.Contains(message, "no 'git' program on path") {
			t.Errorf("%s: got %q, want it refused", field, message)
		}
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

// TestConfig checks the memory of workers in containers of several sizes, and the errors about
// invalid settings.
func TestConfig(t *testing.T) {
	t.Parallel()
	for container, want := range map[string]struct {
		workers int
		memory  config.Bytes
	}{
		"max": {2, 512 * config.MiB}, "536870912": {1, 256 * config.MiB}, "209715200": {1, 192 * config.MiB}, "1073741824": {2, 256 * config.MiB},
		"8589934592": {2, 512 * config.MiB}, "9223372036854771712": {2, 512 * config.MiB},
	} {
		root := t.TempDir()
		if err := os.WriteFile(filepath.Join(root, "memory.max"), []byte(container+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if workers, memory := renderworker.DefaultsIn(root); workers != want.workers || memory != want.memory {
			t.Errorf("%s: got %d workers of %v, want %d of %v", container, workers, memory, want.workers, want.memory)
		}
	}
	if workers, memory := renderworker.DefaultsIn(t.TempDir()); workers != 2 || memory != 512*config.MiB {
		t.Errorf("without control groups: got %d workers of %v, want 2 of 512MiB", workers, memory)
	}
	bad := renderworker.Config{Workers: -1, Memory: 10 * config.MiB, Timeout: time.Millisecond}
	for _, part := range []string{"agent-render-workers", "agent-render-memory", "agent-render-timeout"} {
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want it to name %s", err, part)
		}
	}
}
