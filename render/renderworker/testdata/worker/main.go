// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command worker is a render worker, and a process that renders with workers while it is attacked.
// Tests under the race detector build it without the detector: a program with it needs more memory
// than a worker may use, and its own memory says nothing about the agent's.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/rendertest"
	"github.com/leatdev/leat/render/renderworker"
)

// timeout is how long an attack may take. Most would take as long as they may.
const timeout = 300 * time.Millisecond

// report is what the process writes at its end.
type report struct {
	// Before and After are the bytes of its anonymous memory.
	Before, After int
	// Untyped are the attacks that did not end as content that is refused, with their errors.
	Untyped map[string]string
	// Attacks is how many there were, and Failed how many renders of others failed after one.
	Attacks, Failed int
	// Worker is the most memory that one worker had, in bytes, with the pages of its program.
	Worker int64
}

func main() {
	renderworker.Serve(os.Args[1:])
	if err := json.NewEncoder(os.Stdout).Encode(suffer()); err != nil {
		os.Exit(1)
	}
}

// suffer carries out every attack, with a render of somebody else after each.
func suffer() report {
	hostile := renderworker.NewPool(renderworker.Config{Memory: 256 * config.MiB, Timeout: timeout}, render.Limits{})
	defer hostile.Close()
	others := renderworker.NewPool(renderworker.Config{}, render.Limits{})
	defer others.Close()
	r := report{Untyped: map[string]string{}}
	r.Failed += ordinary(others)
	attacks := rendertest.Attacks()
	r.Attacks, r.Before = len(attacks), resident()
	for _, attack := range attacks {
		_, err := hostile.Render(context.Background(), render.Input{Files: rendertest.Files(attack.Files), Steps: []renderstep.Step{attack.Step}})
		if problem, limit := new(render.Error), new(render.LimitError); !errors.As(err, &problem) && !errors.As(err, &limit) {
			r.Untyped[attack.Name] = fmt.Sprintf("%.300v", err)
		}
		r.Failed += ordinary(others)
	}
	r.After = resident()
	r.Worker = large()
	return r
}

// large carries out the attacks that allocate gigabytes at once, with as much time as they take, and
// returns the most memory that a worker had so far.
func large() int64 {
	pool := renderworker.NewPool(renderworker.Config{Memory: 256 * config.MiB, Timeout: time.Minute}, render.Limits{})
	defer pool.Close()
	for _, attack := range rendertest.Attacks() {
		if attack.Allocates {
			_, _ = pool.Render(context.Background(), render.Input{Files: rendertest.Files(attack.Files), Steps: []renderstep.Step{attack.Step}})
		}
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage); err != nil {
		return 0
	}
	return usage.Maxrss << 10
}

// ordinary renders an ordinary chart, and returns how many failed.
func ordinary(pool *renderworker.Pool) int {
	out, err := pool.Render(context.Background(), render.Input{
		Files: rendertest.Files(map[string]string{
			"Chart.yaml": "{apiVersion: v2, name: a, version: 1.0.0}", "templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n",
		}),
		Steps: []renderstep.Step{{Renderer: renderstep.Helm}}, Facts: render.Facts{Service: render.ServiceFacts{Name: "good"}},
	})
	if err != nil || len(out.Objects) != 1 {
		return 1
	}
	return 0
}

// resident returns the bytes of anonymous memory, without those that are garbage.
func resident() int {
	debug.FreeOSMemory()
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		var kib int
		if _, err := fmt.Sscanf(line, "RssAnon: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	return 0
}
