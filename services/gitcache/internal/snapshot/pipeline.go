// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bufio"
	"errors"
	"io"

	"github.com/leatdev/leat/internal/contract/digest"
)

// aheadBytes is how far reading a mirror may be ahead of compressing what was read.
const aheadBytes = 256 << 10

// pipeline hashes and compresses a tar on another goroutine than the one that writes it, because
// reading a mirror takes as long as compressing does.
type pipeline struct {
	*bufio.Writer
	hasher *digest.Hasher
	feed   *io.PipeWriter
	done   chan error // holds what compressing ended with
}

// newPipeline starts a pipeline into compressed, which it closes. Its owner calls finish, once.
func newPipeline(compressed io.WriteCloser) *pipeline {
	source, feed := io.Pipe()
	p := &pipeline{
		Writer: bufio.NewWriterSize(feed, aheadBytes), hasher: digest.NewHasher(), feed: feed, done: make(chan error, 1),
	}
	go func() { // ends with finish
		_, err := io.CopyBuffer(io.MultiWriter(p.hasher, compressed), source, make([]byte, aheadBytes))
		err = errors.Join(err, compressed.Close())
		_ = source.CloseWithError(err) // later writes fail for this reason
		p.done <- err
	}()
	return p
}

// finish waits until all that was written is compressed, or, where writing failed, gives it up.
func (p *pipeline) finish(failed error) (digest.Digest, error) {
	err := failed
	if err == nil {
		err = p.Flush()
	}
	_ = p.feed.CloseWithError(err) // never fails
	if compressing := <-p.done; err == nil {
		err = compressing
	}
	if err != nil {
		return digest.Digest{}, err
	}
	return p.hasher.Digest(), nil
}
