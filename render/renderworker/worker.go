// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package renderworker renders in child processes.
//
// A rendering engine cannot be interrupted, and a process cannot bound its own allocations from
// inside. So the agent starts its own program again, as a worker: a process with an empty
// environment, whose memory, CPU, files and network the kernel limits. A worker reads a request
// from its standard input, writes the answer to its standard output, and waits for the next
// request. A render that ends its worker fails, and no other render does.
//
// The program's main function calls Serve before anything else. In the agent, a Pool starts
// workers, sends them requests, and ends them. Its one lock guards the list of idle workers, and no
// goroutine waits while it holds that lock.
package renderworker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/renderers"
)

// Command is the first argument of a worker. Two numbers follow: bytes of memory, and seconds of
// CPU time. Zero: no limit.
const Command = "render-worker"

const (
	exitUnusable = 70 // the worker could not prepare itself, or its pipes failed

	// maxRenders is the most renders of one worker. Kustomize keeps some data in memory permanently.
	maxRenders = 100
	// maxStack bounds the stack, and so ends a render that recurses too deeply. The default of 1 GiB
	// is more than a worker's memory.
	maxStack = 64 << 20
)

// canServe is true once this program's main function has called Serve, so that the program can be
// started as a worker.
var canServe atomic.Bool

// Serve makes this process a worker if args, the program's arguments without its name, ask for one.
// It then ends the process after the last request. Otherwise it returns, and Pools of this process
// can start the program as their worker.
func Serve(args []string) {
	if len(args) == 0 || args[0] != Command {
		canServe.Store(true)
		return
	}
	if err := serve(args[1:]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(exitUnusable)
	}
	os.Exit(0)
}

func serve(args []string) error {
	bounds, err := parseBounds(args)
	if err != nil {
		return err
	}
	if err := shut(bounds); err != nil {
		return err
	}
	return answer(os.Stdin, os.Stdout, bounds)
}

// bounds are the limits that the kernel enforces on a worker. Zero: no limit.
type bounds struct {
	memory int64         // bytes of data
	cpu    time.Duration // in whole seconds, over the worker's life
}

func (b bounds) args() []string {
	return []string{Command, strconv.FormatInt(b.memory, 10), strconv.FormatInt(int64(b.cpu/time.Second), 10)}
}

func parseBounds(args []string) (bounds, error) {
	const count = 2
	if len(args) != count {
		return bounds{}, fmt.Errorf("%s is started by the agent: got %d arguments, want %d", Command, len(args), count)
	}
	memory, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return bounds{}, fmt.Errorf("bytes of memory: %w", err)
	}
	seconds, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return bounds{}, fmt.Errorf("seconds of CPU time: %w", err)
	}
	return bounds{memory: memory, cpu: time.Duration(seconds) * time.Second}, nil
}

// shut isolates this process from its environment, and limits it.
func shut(b bounds) error {
	os.Clearenv() // without PATH, a program such as git cannot be found
	refuseNetwork()
	debug.SetMaxStack(maxStack)
	debug.SetTraceback("none") // so that standard error ends with the reason
	if b.memory > 0 {
		debug.SetMemoryLimit(b.memory / 4 * 3)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("leave folder: %w", err)
	}
	return limit(b)
}

// errNetwork is the error of a render that dials in spite of all checks.
var errNetwork = errors.New("remote references are not fetched; put a copy into the repository")

type refusal struct{}

// RoundTrip implements http.RoundTripper.
func (refusal) RoundTrip(*http.Request) (*http.Response, error) { return nil, errNetwork }

// refuseNetwork makes HTTP clients without a transport of their own, such as kustomize's and the
// default one, refuse every request.
func refuseNetwork() {
	http.DefaultTransport = refusal{}
}

// answer answers requests until there are no more, or until the worker has made enough renders. It
// then returns nil.
func answer(in io.Reader, out io.Writer, b bounds) error {
	requests, answers := bufio.NewReader(in), bufio.NewWriter(out)
	engine := renderers.Engine(render.Limits{})
	for renders := 1; ; renders++ {
		var request requestHead
		if err := readHead(requests, &request); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		input, err := render.DecodeInput(requests, request.Limits)
		if err != nil {
			return fmt.Errorf("read request: %w", err)
		}
		engine.Limits = request.Limits
		output, err := renderInput(engine, input)
		head := headOf(output, err)
		head.Last = renders >= maxRenders || b.nearlyUsed()
		if err := writeHead(answers, head); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
		_, _ = answers.Write(output) // Flush returns the first error
		if err := answers.Flush(); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
		if head.Last {
			return nil
		}
	}
}

// renderInput returns the encoded output of an input.
func renderInput(engine *render.Engine, input render.Input) ([]byte, error) {
	output, err := engine.Render(context.Background(), input)
	if err != nil {
		return nil, err
	}
	return output.Encode()
}

// nearlyUsed reports whether this worker has used more than half of its memory or CPU time, so that
// another render could exceed the limits.
func (b bounds) nearlyUsed() bool {
	const half = 2
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return b.memory > 0 && int64(memory.HeapSys) > b.memory/half || b.cpu > 0 && cpuTime() > b.cpu/half
}
