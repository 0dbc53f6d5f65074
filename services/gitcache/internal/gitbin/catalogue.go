// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitbin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack"
)

// idForm are the names of objects, by SHA-1 and by SHA-256.
var idForm = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

var (
	// errMissing is an object that the repository does not hold.
	errMissing = errors.New("object is missing")
	// errKind is an object of another kind than what was asked for.
	errKind   = errors.New("object is of another kind")
	errClosed = errors.New("reader is closed")
)

// maxWhole bounds commits and trees, which are read into memory.
const maxWhole = 256 << 20

// catalogue answers for objects through one long-lived process, which starts when it is first asked. It is for one
// goroutine.
type catalogue struct {
	ctx     context.Context //nolint:containedctx // of the process
	cancel  context.CancelFunc
	program program
	dir     string

	process *process
	stdin   io.WriteCloser
	stdout  *bufio.Reader
	open    *body // what has not been read to its end
	failed  error
}

func newCatalogue(ctx context.Context, p program, dir string) *catalogue {
	ctx, cancel := context.WithCancel(ctx)
	return &catalogue{ctx: ctx, cancel: cancel, program: p, dir: dir}
}

// Close ends the process.
func (c *catalogue) Close() {
	c.cancel()
	if c.process != nil {
		_ = c.stdin.Close()
		_ = c.process.wait()
		c.process = nil
	}
	c.failed = errClosed
}

func (c *catalogue) start() error {
	run := c.program.command(c.ctx, c.dir, "cat-file", "--batch-command")
	stdin, err := run.cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start git: %w", err)
	}
	stdout, err := run.cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start git: %w", err)
	}
	if err := run.start(); err != nil {
		return fmt.Errorf("start git: %w", err)
	}
	c.process, c.stdin, c.stdout = run, stdin, bufio.NewReaderSize(stdout, 64<<10)
	return nil
}

// header is what git says before an object's content.
type header struct {
	kind string // empty: there is no such object
	size int64
}

// ask sends one command about one object.
func (c *catalogue) ask(command, id string) (header, error) {
	if !idForm.MatchString(id) {
		return header{}, nil // nothing has such a name
	}
	if err := c.ready(); err != nil {
		return header{}, err
	}
	if _, err := io.WriteString(c.stdin, command+" "+id+"\n"); err != nil {
		return header{}, c.fail(err)
	}
	line, err := readUntil(c.stdout, '\n')
	if err != nil {
		return header{}, c.fail(err)
	}
	words := strings.Fields(line)
	if len(words) == 2 && words[1] == "missing" {
		return header{}, nil
	}
	if len(words) != 3 || words[0] != id {
		return header{}, c.fail(fmt.Errorf("git says %q of %s", line, id))
	}
	size, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil {
		return header{}, c.fail(fmt.Errorf("git says %q of %s", line, id))
	}
	return header{kind: words[1], size: size}, nil
}

// ready makes sure that the process waits for a command.
func (c *catalogue) ready() error {
	switch {
	case c.failed != nil:
		return c.failed
	case c.process == nil:
		return c.start()
	case c.open != nil:
		return c.open.skip()
	}
	return nil
}

// fail ends the process, whose own account of what happened counts more than a broken pipe.
func (c *catalogue) fail(err error) error {
	if c.ctx.Err() != nil {
		c.failed = context.Cause(c.ctx)
		return c.failed
	}
	_ = c.stdin.Close()
	ended := c.process.wait()
	c.process = nil
	if exit, ok := errors.AsType[*exitError](ended); ok && exit.damaged() {
		ended = errors.Join(content.ErrDamaged, ended)
	}
	c.failed = errors.Join(ended, err)
	if ended != nil {
		c.failed = ended
	}
	return c.failed
}

var _ uploadpack.Objects = (*catalogue)(nil)

// Kind implements [uploadpack.Objects].
func (c *catalogue) Kind(id string) (string, error) {
	h, err := c.ask("info", id)
	return h.kind, err
}

// maxAncestors bounds the history of refs that moved: where a rewritten branch may meet the old one.
const maxAncestors = 1024

// Ancestors implements [uploadpack.Objects].
func (c *catalogue) Ancestors(commits []string, add func(id string) bool) error {
	args := []string{"rev-list", fmt.Sprintf("--max-count=%d", maxAncestors), "--ignore-missing", "--end-of-options"}
	args = append(args, commits[:min(len(commits), maxAncestors)]...)
	each := func(id string) (bool, error) { return add(id), nil }
	return c.program.lines(c.ctx, c.dir, '\n', each, append(args, "--")...)
}

// contents opens an object. It is valid until the next question.
func (c *catalogue) contents(id, kind string) (*body, error) {
	h, err := c.ask("contents", id)
	if err != nil {
		return nil, err
	}
	if h.kind == "" {
		return nil, fmt.Errorf("%s: %w", id, errMissing)
	}
	c.open = &body{catalogue: c, size: h.size, left: h.size}
	if h.kind != kind {
		return nil, fmt.Errorf("%s is a %s, not a %s: %w", id, h.kind, kind, errKind)
	}
	return c.open, nil
}

// whole reads an object into memory.
func (c *catalogue) whole(id, kind string) ([]byte, error) {
	b, err := c.contents(id, kind)
	if err != nil {
		return nil, err
	}
	if b.size > maxWhole {
		return nil, fmt.Errorf("%s %s has %d bytes, more than fit into memory", kind, id, b.size)
	}
	data := make([]byte, b.size)
	if _, err := io.ReadFull(b, data); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", kind, id, err)
	}
	return data, nil
}

// body is the content of one object.
type body struct {
	catalogue *catalogue
	size      int64
	left      int64
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	switch {
	case b.catalogue.open != b:
		if b.left == 0 {
			return 0, io.EOF
		}
		return 0, errClosed
	case b.left == 0:
		return 0, io.EOF
	}
	n, err := b.catalogue.stdout.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if err != nil {
		return n, b.catalogue.fail(err)
	}
	return n, nil
}

// Close implements io.Closer. What was not read is skipped when the next object is asked for.
func (b *body) Close() error { return nil }

// skip reads what is left, and the line end behind it.
func (b *body) skip() error {
	c := b.catalogue
	c.open = nil
	left := b.left + 1
	for left > 0 {
		n, err := c.stdout.Discard(int(min(left, 1<<30)))
		left -= int64(n)
		if err != nil {
			return c.fail(err)
		}
	}
	return nil
}
