// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/await"
)

// way is how a script reaches the cluster: directly, or through the tunnel and one kind of an
// agent's connection.
type way struct {
	name      string
	rig       *rig
	namespace string // its own
	dir       string // its own, and the home of its programs
	server    string // the URL of the API server
}

// step is one command of a script, or a function.
type step struct {
	name    string
	program string   // empty: kubectl
	args    []string // NS stands for the namespace, DIR for the folder, SERVER for the URL
	stdin   []byte
	env     []string
	until   string // the command has no end: it is stopped when it has printed this
	code    int    // the exit code; checked so that a step does not compare two failures
	silent  bool   // the output differs from run to run; only success counts
	lossy   bool   // the client itself sometimes loses the last bytes, so a result counts when it came twice
	do      func(ctx context.Context, w *way) (string, error)
}

// newWay prepares a folder with a kubeconfig.
func (r *rig) newWay(t *testing.T, name, namespace string) *way {
	t.Helper()
	w := &way{name: name, rig: r, namespace: namespace, dir: t.TempDir()}
	w.server = r.cluster.Host()
	if name != direct {
		w.server = r.url(name)
	}
	if err := writeJSON(filepath.Join(w.dir, "kubeconfig"), r.kubeconfig(t, w)); err != nil {
		t.Fatal(err)
	}
	return w
}

// direct is the way directly to the API server, with the same identity as through the tunnel.
const direct = "direct"

// compare runs a script by all ways at once, and compares the output of each step with the direct
// way's.
func compare(t *testing.T, r *rig, script string, ways []string, steps []step) {
	t.Helper()
	said := make(map[string][]string)
	var (
		mu    sync.Mutex
		group sync.WaitGroup
	)
	for _, name := range append([]string{direct}, ways...) {
		w := r.newWay(t, name, script+"-"+name)
		group.Go(func() {
			var texts []string
			for _, s := range steps {
				texts = append(texts, w.takeTwice(t.Context(), s))
			}
			mu.Lock()
			defer mu.Unlock()
			said[name] = texts
		})
	}
	group.Wait()
	for i, s := range steps {
		for _, name := range append([]string{direct}, ways...) {
			if strings.HasPrefix(said[name][i], "exit -1\n") {
				t.Errorf("%s, %s: did not end within %s", s.name, name, await.Patience)
			}
		}
		if !strings.HasPrefix(said[direct][i], fmt.Sprintf("exit %d\n", s.code)) {
			t.Errorf("%s, directly: got\n%s\nwant exit %d: the script itself is wrong", s.name, said[direct][i], s.code)
		}
		for _, name := range ways {
			if diff := cmp.Diff(said[direct][i], said[name][i]); diff != "" {
				t.Errorf("%s, through the tunnel by %s (-direct +tunnel):\n%s", s.name, name, diff)
			}
		}
	}
}

// takeTwice runs a step, a lossy one until it has ended twice in the same way and as it should.
func (w *way) takeTwice(ctx context.Context, s step) string {
	const most = 20
	good := fmt.Sprintf("exit %d\n", s.code)
	ended := map[string]int{}
	for n := 1; ; n++ {
		text := w.take(ctx, s)
		ended[text]++
		if !s.lossy || n == most || ended[text] == 2 && strings.HasPrefix(text, good) {
			return text
		}
	}
}

// take runs a step and returns its exit code and output, without what may differ.
func (w *way) take(ctx context.Context, s step) string {
	ctx, cancel := context.WithTimeout(ctx, await.Patience) // if a tunnel loses the end of a stream, the command never ends
	defer cancel()
	if s.do != nil {
		text, err := s.do(ctx, w)
		if err != nil {
			return w.normal(fmt.Sprintf("exit 1\n%s\n%v\n", text, err))
		}
		return w.normal("exit 0\n" + text)
	}
	code, out, errOut := w.command(ctx, s)
	if s.silent {
		out = ""
	}
	return w.normal(fmt.Sprintf("exit %d\n%s%s", code, out, errOut))
}

// command runs a program and returns its exit code, or 0 if it printed the awaited text.
func (w *way) command(ctx context.Context, s step) (code int, out, errOut string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := w.cmd(ctx, s)
	stdout, stderr := &tail{until: s.until, found: cancel}, &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	if s.until != "" && stdout.seen() {
		return 0, s.until, ""
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode(), stdout.String(), stderr.String()
	case err != nil:
		return -2, stdout.String(), err.Error()
	}
	return 0, stdout.String(), stderr.String()
}

func (w *way) cmd(ctx context.Context, s step) *exec.Cmd {
	program := s.program
	if program == "" {
		program = w.rig.binaries.Kubectl
	}
	words := strings.NewReplacer("$NS", w.namespace, "$DIR", w.dir, "$SERVER", w.server)
	args := make([]string, len(s.args))
	for i, arg := range s.args {
		args[i] = words.Replace(arg)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = w.dir
	cmd.Env = append([]string{
		"HOME=" + w.dir, "KUBECONFIG=" + filepath.Join(w.dir, "kubeconfig"), "PATH=" + os.Getenv("PATH"), "HELM_NAMESPACE=" + w.namespace,
	}, s.env...)
	cmd.Stdin = bytes.NewReader([]byte(words.Replace(string(s.stdin))))
	if s.stdin == nil {
		cmd.Stdin = nil
	}
	cmd.WaitDelay = await.Patience
	return cmd
}

// tail holds a command's output so far.
type tail struct {
	mu    sync.Mutex
	text  bytes.Buffer
	until string
	found func()
	done  bool
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text.Write(p)
	if t.until != "" && !t.done && bytes.Contains(t.text.Bytes(), []byte(t.until)) {
		t.done = true
		t.found()
	}
	return len(p), nil
}

func (t *tail) seen() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// volatile is the output that may differ between two runs of a script, with its replacement.
var volatile = []struct {
	pattern *regexp.Regexp
	stands  string
}{
	// A client that ends its own watches sometimes reports that they ended.
	{regexp.MustCompile(`(?m)^[EIW]\d{4} .*\breflector\.go:\d+\] .*context canceled.*\n`), ""},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| [+-]\d{4} UTC)?`), "TIME"},
	{regexp.MustCompile(`(Mon|Tue|Wed|Thu|Fri|Sat|Sun),? +\w+ +\w+ \d\d:\d\d:\d\d (\+0000 )?\d{4}`), "TIME"},
	{regexp.MustCompile(`("?resourceVersion"?: ?)"\d+"`), `$1"RV"`},
	{regexp.MustCompile(`\b(web-[0-9a-f]{6,10}|once|by-hand|shop-check|shop-[0-9a-f]{6,10})-[a-z0-9]{5}\b`), "$1-RAND"},
	{regexp.MustCompile(`\b10\.\d+\.\d+\.\d+\b`), "IP"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ms|s|m)(\d+s)?\b`), "AGE"},
	{regexp.MustCompile(`(memcache|warnings|[a-z_]+)\.go:\d+\]`), "$1.go]"},
	{regexp.MustCompile(`[EIW]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ `), "LOG "},
	{regexp.MustCompile(`<(unknown|invalid)>`), "AGE"},
	{regexp.MustCompile(`(leat\.dev/cluster:\s+- )\S+`), "${1}CLUSTER"},
	{regexp.MustCompile(` {2,}`), " "},
	{regexp.MustCompile(`-{4,}`), "----"},
}

// longText is the length from which a text is compared by its hash: nothing in it may differ, and
// it is too long to read.
const longText = 64 << 10

// longEnd is how much of the end of a long text is shown if the command failed: its errors are there.
const longEnd = 500

// normal replaces everything that differs between ways and from run to run.
func (w *way) normal(text string) string {
	if len(text) > longText {
		code, rest, _ := strings.Cut(text, "\n")
		if code == "exit 0" {
			return code + "\n" + sum([]byte(rest))
		}
		return code + "\n" + sum([]byte(rest)) + ", which end with\n" + rest[len(rest)-longEnd:]
	}
	text = strings.NewReplacer(w.server, "SERVER", strings.TrimPrefix(w.server, "https://"), "SERVER", w.dir, "DIR", w.namespace, "NS").Replace(text)
	for _, v := range volatile {
		text = v.pattern.ReplaceAllString(text, v.stands)
	}
	return text
}

// kubeconfig returns a kubeconfig for the way: directly with an administrator's certificate and the
// impersonation that the tunnel does, or through the tunnel with a person's token.
func (r *rig) kubeconfig(t *testing.T, w *way) map[string]any {
	t.Helper()
	cluster, user := map[string]any{"server": w.server}, map[string]any{}
	if w.name == direct {
		given := parseKubeconfig(t, r.cluster.Kubeconfig())
		cluster["certificate-authority-data"] = given.Clusters[0].Cluster["certificate-authority-data"]
		for key, value := range given.Users[0].User {
			user[key] = value
		}
		me := r.whoami(t)
		user["as"], user["as-groups"] = me.Username, me.Groups
		if me.UID != "" {
			user["as-uid"] = me.UID
		}
		if len(me.Extra) > 0 {
			user["as-user-extra"] = me.Extra
		}
	} else {
		cluster["certificate-authority"], user["token"] = r.ca.caFile, r.token
	}
	if strings.HasPrefix(w.name, byHost) {
		cluster["proxy-url"] = r.resolver
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "it",
		"clusters": []any{map[string]any{"name": "it", "cluster": cluster}},
		"users":    []any{map[string]any{"name": "it", "user": user}},
		"contexts": []any{map[string]any{"name": "it", "context": map[string]any{
			"cluster": "it", "user": "it", "namespace": w.namespace,
		}}},
	}
}
