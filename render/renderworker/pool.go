// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package renderworker

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leatdev/leat/internal/kit/childproc"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/renderworker/internal/turns"
)

const (
	// idleAfter is how long a worker may be idle before it is ended.
	idleAfter = 30 * time.Second
	// maxWords is how many bytes at the end of a worker's standard error are kept. The runtime
	// writes less when it ends a process.
	maxWords = 64 << 10
	// cpuOverTime bounds the CPU time of a worker over its life, as a multiple of the timeout of
	// one render. The deadline ends a slow one. This bound ends a worker that the agent could not
	// end.
	cpuOverTime = 2
	// slowAfter is how long a render may hold the last turn. Then others go before it.
	slowAfter = 2 * time.Second
)

// Pool renders in workers. It does not start a worker before there is something to render. Its methods may be called concurrently.
type Pool struct {
	cfg     Config
	limits  render.Limits
	bounds  bounds
	program func() (string, error) // returns the program to start as a worker
	turns   *turns.Queue           // a turn for each worker

	mu       sync.Mutex // guards what follows
	resting  []*worker  // idle workers; the most recently used are at the end
	noUnplug bool       // the system does not allow a worker its own network interfaces
	closed   bool
}

var _ render.Renderer = (*Pool)(nil)

// worker is one process. It belongs to a render, or to Pool.resting.
type worker struct {
	cmd    *exec.Cmd
	pipes  childproc.Pipes
	out    *bufio.Reader
	ended  <-chan struct{}
	words  *tail // the end of its standard error
	asked  bool  // it has rendered something
	rested time.Time
}

// NewPool returns a Pool without workers. Limits bound each render.
func NewPool(cfg Config, limits render.Limits) *Pool {
	cfg, limits = cfg.withDefaults(), limits.WithDefaults()
	return &Pool{
		cfg: cfg, limits: limits, program: thisProgram,
		bounds: bounds{memory: int64(cfg.Memory), cpu: cpuOverTime * cfg.Timeout.Round(time.Second)},
		turns:  turns.New(cfg.Workers, min(slowAfter, cfg.Timeout)),
	}
}

// Close ends the idle workers. A busy worker ends with its render, whose context the caller must end
// first.
func (p *Pool) Close() {
	p.mu.Lock()
	resting := p.resting
	p.resting, p.closed = nil, true
	p.mu.Unlock()
	for _, w := range resting {
		w.end()
	}
}

// errTime is the cause of the end of a render that exceeds its timeout.
var errTime = errors.New("rendering takes too long")

// Render implements render.Renderer. It waits for its turn until ctx ends. The timeout begins after
// that wait, which it records with render.AddWait. Renders of services that take long leave turns to
// others, as package turns describes. One that was stopped for them begins again, and what it had done
// counts as a wait.
func (p *Pool) Render(ctx context.Context, in render.Input) (out render.Output, err error) {
	began := time.Now()
	var waited time.Duration
	err = p.turns.Do(ctx, in.Service, func(ctx context.Context) (err error) {
		waited = time.Since(began)
		out, err = p.renderNow(ctx, in)
		return err
	})
	render.AddWait(ctx, waited)
	return out, err
}

// renderNow renders within the timeout.
func (p *Pool) renderNow(ctx context.Context, in render.Input) (render.Output, error) {
	timed, stop := context.WithTimeoutCause(ctx, p.cfg.Timeout, errTime)
	defer stop()
	w := p.rested()
	for {
		if w == nil {
			var err error
			if w, err = p.start(); err != nil {
				return render.Output{}, err
			}
		}
		used := w.asked
		output, err := p.ask(timed, w, in)
		if died := new(deathError); !errors.As(err, &died) {
			if err != nil {
				return render.Output{}, err
			}
			return render.DecodeOutput(output, p.limits)
		} else if !used || timed.Err() != nil {
			return render.Output{}, p.explain(timed, died, folderOf(in))
		}
		w = nil // an earlier render may have caused its death: a new worker decides
	}
}

// folderOf returns the folder that a message about a whole render names.
func folderOf(in render.Input) string {
	if len(in.Steps) == 1 && in.Steps[0].Path != "" {
		return in.Steps[0].Path
	}
	return cmp.Or(in.Folder, ".")
}

// ask makes a worker render, and then puts the worker back or ends it. The error is a *deathError if
// the worker died without an answer.
func (p *Pool) ask(ctx context.Context, w *worker, in render.Input) ([]byte, error) {
	release := context.AfterFunc(ctx, w.kill)
	head, output, err := w.exchange(in, p.limits)
	if !release() || err != nil {
		w.kill()
		<-w.ended
		_ = w.pipes.Close()
		if err == nil { // the answer arrived just when ctx ended
			err = context.Cause(ctx)
		} else if ctx.Err() == nil && !isEnd(err) {
			return nil, err
		}
		return nil, &deathError{cause: err, state: w.cmd.ProcessState, words: w.words.String()}
	}
	if head.Last {
		w.end()
	} else {
		p.rest(w)
	}
	return output, head.err()
}

// exchange writes a request and reads its answer.
func (w *worker) exchange(in render.Input, limits render.Limits) (head answerHead, output []byte, err error) {
	w.asked = true
	request := bufio.NewWriter(w.pipes.In)
	if err := errors.Join(writeHead(request, requestHead{Limits: limits}), in.Encode(request), request.Flush()); err != nil {
		return head, nil, fmt.Errorf("ask render worker: %w", err)
	}
	if err := readHead(w.out, &head); err != nil {
		return head, nil, fmt.Errorf("read answer of render worker: %w", err)
	}
	if head.Bytes < 0 || head.Bytes > limits.EncodedLimit() {
		return head, nil, fmt.Errorf("render worker answers with %d bytes, want at most %d", head.Bytes, limits.EncodedLimit())
	}
	output = make([]byte, head.Bytes)
	if _, err := io.ReadFull(w.out, output); err != nil {
		return head, nil, fmt.Errorf("read answer of render worker: %w", err)
	}
	return head, output, nil
}

// isEnd reports whether an error of a pipe means that the process at its other end is gone.
func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE)
}

// deathError reports a worker that ended without an answer.
type deathError struct {
	cause error // the error of its pipes, or of ctx
	state *os.ProcessState
	words string
}

// Error implements error.
func (e *deathError) Error() string {
	return fmt.Sprintf("render worker ended (%v): %v: %s", e.state, e.cause, lastWords(e.words))
}

// explain returns the error of a render whose worker died.
func (p *Pool) explain(ctx context.Context, died *deathError, folder string) error {
	used := died.state.UserTime() + died.state.SystemTime()
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTime), p.bounds.cpu > 0 && killed(died.state) && used >= p.bounds.cpu-time.Second:
		return &render.LimitError{Path: folder, Limit: render.LimitTime, Message: fmt.Sprintf(
			"rendering takes longer than %v; split the service, or raise --agent-render-timeout", p.cfg.Timeout)}
	case cause != nil:
		return cause
	case strings.Contains(died.words, "stack exceeds"):
		return &render.LimitError{Path: folder, Limit: render.LimitDepth, Message: "rendering recurses too deeply; nest less"}
	case killed(died.state), outOfMemory(died.words):
		return &render.LimitError{Path: folder, Limit: render.LimitMemory, Message: fmt.Sprintf(
			"rendering needs more than %d MiB of memory; split the service, or raise --agent-render-memory", p.bounds.memory>>20)}
	case died.state.ExitCode() == exitUnusable:
		return died
	default:
		return &render.Error{Path: folder, Cause: fmt.Errorf("the renderer ends at this content: %s", lastWords(died.words))}
	}
}

// outOfMemory reports whether words hold an error about a lack of memory: one of Go's runtime, or a
// signal in code that is not Go's, which ends the process where an allocation fails.
func outOfMemory(words string) bool {
	return slices.ContainsFunc([]string{
		"out of memory", "cannot allocate memory", "failed to create new OS thread", "pthread_create failed",
		"SIGABRT: abort", "SIGSEGV: segmentation violation",
	}, func(sign string) bool { return strings.Contains(words, sign) })
}

// rested removes and returns the most recently used idle worker, or returns nil.
func (p *Pool) rested() *worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.resting) == 0 {
		return nil
	}
	last := len(p.resting) - 1
	w := p.resting[last]
	p.resting = p.resting[:last]
	return w
}

// rest keeps a worker for the next render.
func (p *Pool) rest(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		go w.end()
		return
	}
	w.rested = time.Now()
	p.resting = append(p.resting, w)
	time.AfterFunc(idleAfter, p.endIdle)
}

// endIdle ends the workers that have been idle for idleAfter.
func (p *Pool) endIdle() {
	var idle []*worker
	p.mu.Lock()
	for len(p.resting) > 0 && time.Since(p.resting[0].rested) >= idleAfter {
		idle, p.resting = append(idle, p.resting[0]), p.resting[1:]
	}
	p.mu.Unlock()
	for _, w := range idle {
		w.end()
	}
}

// start starts a worker, without a network where the system allows that.
func (p *Pool) start() (*worker, error) {
	program, err := p.program()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	noUnplug := p.noUnplug
	p.mu.Unlock()
	if !noUnplug {
		if w, err := p.launch(program, true); err == nil {
			return w, nil
		}
	}
	w, err := p.launch(program, false)
	if err != nil {
		return nil, fmt.Errorf("start render worker: %w", err)
	}
	p.mu.Lock()
	p.noUnplug = true
	p.mu.Unlock()
	return w, nil
}

func (p *Pool) launch(program string, unplugged bool) (*worker, error) {
	cmd := exec.Command(program, p.bounds.args()...) //nolint:noctx // it is this program; Pool.ask ends it with its context
	cmd.Env, cmd.Dir = []string{}, "/"
	words := &tail{}
	cmd.Stderr = words
	if unplugged {
		unplug(cmd)
	}
	pipes, ended, err := childproc.StartPiped(cmd)
	if err != nil {
		return nil, err
	}
	return &worker{cmd: cmd, pipes: pipes, out: bufio.NewReader(pipes.Out), ended: ended, words: words}, nil
}

// kill ends a worker at once. It may be called concurrently, and after the worker's end.
func (w *worker) kill() {
	select {
	case <-w.ended:
	default:
		childproc.KillGroup(w.cmd)
	}
}

// end ends an idle worker, and blocks until its process has ended.
func (w *worker) end() {
	w.kill()
	<-w.ended
	_ = w.pipes.Close()
}

// tail keeps the last maxWords bytes that are written to it. It is safe for concurrent use.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text...)
	if extra := len(t.text) - maxWords; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(text), nil
}

// String returns the bytes that are kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// lastWords returns the line that explains why a process ended: the error line of the runtime,
// which other lines may follow, or else the last line.
func lastWords(words string) string {
	lines := strings.Split(strings.TrimSpace(words), "\n")
	for _, line := range slices.Backward(lines) {
		if strings.HasPrefix(line, "fatal error: ") || strings.HasPrefix(line, "panic: ") {
			return cut(line)
		}
	}
	return cut(strings.TrimSpace(lines[len(lines)-1]))
}
