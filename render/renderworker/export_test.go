// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package renderworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/leatdev/leat/internal/runtime/config"
)

// Resting returns how many workers are idle.
func (p *Pool) Resting() int { return len(p.Pids()) }

// Pids returns the process ids of the idle workers.
func (p *Pool) Pids() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pids []int
	for _, w := range p.resting {
		pids = append(pids, w.cmd.Process.Pid)
	}
	return pids
}

// BoundCPU bounds the CPU time of workers that are started later.
func (p *Pool) BoundCPU(most time.Duration) { p.bounds.cpu = most }

// RaceDetector reports whether this program has the race detector. If it has, the kernel does not
// bound the memory of its workers.
const RaceDetector = raceDetector

// Start makes the pool start another program as its workers.
func (p *Pool) Start(program string) { p.program = func() (string, error) { return program, nil } }

// DefaultsIn returns the default number of workers, and the memory of each, where control groups are
// mounted at root.
func DefaultsIn(root string) (workers int, memory config.Bytes) {
	container := containerAt(root)
	workers = workersIn(container)
	return workers, memoryOf(container, workers)
}

// bare is the first argument of a process that is isolated as a worker is, but does something else.
const bare = "bare-worker"

// ServeBare makes this process such a process if args ask for it.
func ServeBare(args []string) {
	if len(args) == 0 || args[0] != bare {
		return
	}
	if err := shut(bounds{memory: int64(mostMemory), cpu: time.Minute}); err != nil {
		fail(err)
	}
	var content map[string]string
	if err := json.NewDecoder(os.Stdin).Decode(&content); err != nil {
		fail(err)
	}
	if content == nil {
		_ = json.NewEncoder(os.Stdout).Encode(inspect())
		os.Exit(0)
	}
	disk := filesys.MakeFsInMemory()
	for name, text := range content {
		_ = disk.WriteFile("/bundle/"+name, []byte(text))
	}
	_, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, "/bundle")
	_ = json.NewEncoder(os.Stdout).Encode(fmt.Sprint(err))
	os.Exit(0)
}

func fail(err error) {
	_, _ = fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// BuildUnchecked runs kustomize in a process that is isolated as a worker is, and returns its
// error.
func BuildUnchecked(t *testing.T, content map[string]string) (message string) {
	t.Helper()
	runBare(t, content, &message)
	return message
}

// Inspect returns the environment and limits that a worker has.
func Inspect(t *testing.T) (report map[string]string) {
	t.Helper()
	runBare(t, nil, &report)
	return report
}

func runBare(t *testing.T, content map[string]string, answer any) {
	t.Helper()
	input, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, bare)
	cmd.Stdin = strings.NewReader(string(input))
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if err := json.Unmarshal(output, answer); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}

func inspect() map[string]string {
	report := map[string]string{"environment": fmt.Sprint(os.Environ()), "git": "found", "http": "works"}
	report["folder"], _ = os.Getwd()
	if _, err := exec.LookPath("git"); errors.Is(err, exec.ErrNotFound) {
		report["git"] = "not found"
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://127.0.0.1:1/", nil)
	if err == nil {
		_, err = (&http.Client{}).Do(request)
	}
	if errors.Is(err, errNetwork) {
		report["http"] = "refused"
	}
	limits, _ := os.ReadFile("/proc/self/limits")
	for line := range strings.Lines(string(limits)) {
		for name, key := range map[string]string{"Max open files": "open files", "Max file size": "file size", "Max core file size": "core", "Max data size": "data"} {
			if rest, ok := strings.CutPrefix(line, name); ok {
				report[key] = strings.Fields(rest)[0]
			}
		}
	}
	score, _ := os.ReadFile("/proc/self/oom_score_adj")
	report["oom_score_adj"] = strings.TrimSpace(string(score))
	return report
}
