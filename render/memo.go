// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/klauspost/compress/zstd"
)

const (
	// maxRemembered bounds the failures and the outputs that a Memo remembers, in number.
	maxRemembered = 1000
	// maxOutputs bounds the compressed bytes of those outputs.
	maxOutputs = 16 << 20
	// firstPause is the pause before content that took too much memory or time is rendered again. It
	// doubles with each further failure, up to lastPause.
	firstPause, lastPause = time.Minute, time.Hour
)

// Memo is a Renderer that remembers what another Renderer answered, so that unchanged content costs
// no render, and a bad commit costs one instead of one at each reconciliation. It remembers outputs,
// compressed, as long as there is room: the least recently used is dropped first. It remembers an
// *Error, and a *LimitError that depends on the content alone. After a *LimitError of memory or time
// it renders the same content again after a minute, and then after longer and longer pauses of up to
// an hour. The zero Memo is not usable. Its methods are safe for concurrent use.
type Memo struct {
	renderer Renderer
	limits   Limits

	rendered, remembered atomic.Int64 // answers

	mu       sync.Mutex // guards what follows
	failures map[key]failure
	outputs  *simplelru.LRU[key, []byte] // encoded and compressed
	bytes    int                         // of all outputs
	asked    *simplelru.LRU[key, Asked]  // by the key of an input without facts: what its render asked
}

type failure struct {
	err      error
	attempts int       // renders that failed
	last     time.Time // when the failure was used last
	retryAt  time.Time // zero: never
}

// NewMemo returns a Memo that remembers nothing yet. Limits are the renderer's.
func NewMemo(renderer Renderer, limits Limits) (*Memo, error) {
	m := &Memo{renderer: renderer, limits: limits, failures: map[key]failure{}}
	var err, askedErr error
	m.outputs, err = simplelru.NewLRU(maxRemembered, func(_ key, output []byte) { m.bytes -= len(output) })
	m.asked, askedErr = simplelru.NewLRU[key, Asked](maxRemembered, nil)
	return m, errors.Join(err, askedErr)
}

// Render implements Renderer. It does not merge concurrent renders of the same content.
func (m *Memo) Render(ctx context.Context, in Input) (Output, error) {
	files, err := in.Files.sum()
	if err != nil {
		return Output{}, err
	}
	bare := in.key(files, Asked{})
	k := in.key(files, m.askedBy(bare))
	known, output := m.lookUp(k)
	if known.err != nil && (known.retryAt.IsZero() || time.Now().Before(known.retryAt)) {
		m.remembered.Add(1)
		return Output{}, known.err
	}
	if output != nil {
		m.remembered.Add(1)
		return m.decode(output)
	}
	m.rendered.Add(1)
	out, err := m.renderer.Render(ctx, in)
	if err != nil {
		return Output{}, m.note(k, known.attempts, err)
	}
	m.keep(bare, in.key(files, out.Asked), out)
	return out, nil
}

// Counts returns how many inputs were rendered so far, and for how many a remembered answer sufficed.
func (m *Memo) Counts() (rendered, remembered int64) { return m.rendered.Load(), m.remembered.Load() }

// askedBy returns what the render of an input asked last time, by the input's key without facts. It
// returns everything for an unknown input.
func (m *Memo) askedBy(bare key) Asked {
	m.mu.Lock()
	defer m.mu.Unlock()
	if asked, ok := m.asked.Get(bare); ok {
		return asked
	}
	return Asked{Facts: true, APIVersions: true, Lookups: true}
}

// decode returns a copy of an output.
func (m *Memo) decode(output []byte) (Output, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(m.limits.EncodedLimit())))
	if err != nil {
		return Output{}, fmt.Errorf("read remembered objects: %w", err)
	}
	defer decoder.Close()
	text, err := decoder.DecodeAll(output, nil)
	if err != nil {
		return Output{}, fmt.Errorf("read remembered objects: %w", err)
	}
	return DecodeOutput(text, m.limits)
}

// keep remembers an output. It drops others to make room.
func (m *Memo) keep(bare, k key, out Output) {
	var compressed []byte
	if text, err := out.Encode(); err == nil {
		if encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true)); err == nil {
			compressed = encoder.EncodeAll(text, nil)
			_ = encoder.Close()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.failures, k)
	m.asked.Add(bare, out.Asked)
	if compressed == nil || len(compressed) > maxOutputs {
		return
	}
	m.outputs.Remove(k)
	m.outputs.Add(k, compressed)
	for m.bytes += len(compressed); m.bytes > maxOutputs; {
		m.outputs.RemoveOldest()
	}
}

// lookUp returns the record of an input: a failure, an output, or neither.
func (m *Memo) lookUp(k key) (failure, []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.failures[k]
	if ok {
		known.last = time.Now()
		m.failures[k] = known
	}
	output, _ := m.outputs.Get(k)
	return known, output
}

// note remembers err after attempts failed renders, and returns it with the time when the content is
// rendered again.
func (m *Memo) note(k key, attempts int, err error) error {
	limit, isLimit := errors.AsType[*LimitError](err)
	_, isError := errors.AsType[*Error](err)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !isLimit && !isError {
		return err
	}
	now := time.Now()
	known := failure{err: err, attempts: attempts + 1, last: now}
	if isLimit && limit.DependsOnMachine() {
		known.retryAt = now.Add(pauseAfter(attempts))
		later := *limit
		later.RetryAt = known.retryAt
		known.err = &later
	}
	if len(m.failures) >= maxRemembered {
		m.forgetOldestLocked()
	}
	m.failures[k] = known
	return known.err
}

func pauseAfter(attempts int) time.Duration {
	pause := firstPause
	for range attempts {
		if pause *= 2; pause >= lastPause {
			return lastPause
		}
	}
	return pause
}

func (m *Memo) forgetOldestLocked() {
	var oldest key
	var at time.Time
	for k, known := range m.failures {
		if at.IsZero() || known.last.Before(at) {
			oldest, at = k, known.last
		}
	}
	delete(m.failures, oldest)
}
