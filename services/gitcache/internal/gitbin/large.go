// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitbin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// OpenLarge streams a blob of the bare repository in dir out of a process of git, which ends with
// the file or the context.
func (p program) OpenLarge(ctx context.Context, dir, id string) (content.File, error) {
	printed, err := p.output(ctx, dir, nil, "cat-file", "-s", id)
	if err != nil {
		return content.File{}, fmt.Errorf("measure blob %s: %w", id, err)
	}
	size, err := strconv.ParseInt(printed, 10, 64)
	if err != nil {
		return content.File{}, fmt.Errorf("measure blob %s: %w", id, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	run := p.command(ctx, dir, "cat-file", "blob", id)
	stdout, err := run.cmd.StdoutPipe()
	if err == nil {
		err = run.start()
	}
	if err != nil {
		cancel()
		return content.File{}, fmt.Errorf("start git: %w", err)
	}
	return content.File{Size: size, ReadCloser: &largeFile{stdout: stdout, left: size, run: run, cancel: cancel}}, nil
}

// largeFile is git's output for a blob.
type largeFile struct {
	stdout io.Reader
	left   int64
	run    *process
	cancel context.CancelFunc
}

// Read implements io.Reader. An end before the blob's is git's error about it.
func (f *largeFile) Read(p []byte) (int, error) {
	n, err := f.stdout.Read(p)
	f.left -= int64(n)
	if errors.Is(err, io.EOF) && f.left > 0 {
		return n, errors.Join(io.ErrUnexpectedEOF, f.Close())
	}
	return n, err
}

// Close implements io.Closer. A reader that has enough ends git, which is not a failure.
func (f *largeFile) Close() error {
	if f.cancel == nil {
		return nil
	}
	f.cancel()
	f.cancel = nil
	if err := f.run.wait(); f.left > 0 && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
