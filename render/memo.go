// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"sync"
	"time"
)

const (
	// maxRemembered bounds the failures that a Memo remembers.
	maxRemembered = 1000
	// firstPause is the pause before content that took too much memory or time is built again. It
	// doubles with each further failure, up to lastPause.
	firstPause, lastPause = time.Minute, time.Hour
)

// Memo is a Builder that remembers the failures of another Builder, so that a bad commit costs one
// build instead of one at each reconciliation. It remembers an *Error, and a *LimitError that
// depends on the content alone, for as long as there is room. After a *LimitError of memory or time
// it builds the same content again after a minute, and then after longer and longer pauses of up to
// an hour. It does not remember builds that succeed. The zero Memo is not usable. Its methods are
// safe for concurrent use.
type Memo struct {
	builder Builder

	mu       sync.Mutex // guards what follows
	failures map[key]failure
}

// key is the SHA-256 of the files and the folder of a build. It does not cover the engine and its
// limits, which do not change during the life of the process.
type key [sha256.Size]byte

type failure struct {
	err      error
	attempts int       // builds that failed
	last     time.Time // when the failure was used last
	retryAt  time.Time // zero: never
}

// NewMemo returns a Memo that remembers nothing yet.
func NewMemo(builder Builder) *Memo {
	return &Memo{builder: builder, failures: map[key]failure{}}
}

// Build implements Builder. It does not merge concurrent builds of the same content.
func (m *Memo) Build(ctx context.Context, files *Files, folder string) ([]byte, error) {
	k := keyOf(files, folder)
	known := m.lookUp(k)
	if known.err != nil && (known.retryAt.IsZero() || time.Now().Before(known.retryAt)) {
		return nil, known.err
	}
	text, err := m.builder.Build(ctx, files, folder)
	return text, m.note(k, known.attempts, err)
}

func (m *Memo) lookUp(k key) failure {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.failures[k]
	if ok {
		known.last = time.Now()
		m.failures[k] = known
	}
	return known
}

// note remembers err after attempts failed builds, and returns it with the time when the content is
// built again.
func (m *Memo) note(k key, attempts int, err error) error {
	limit, isLimit := errors.AsType[*LimitError](err)
	_, isError := errors.AsType[*Error](err)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !isLimit && !isError {
		if err == nil {
			delete(m.failures, k)
		}
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

// keyOf returns the key of a build of folder in files.
func keyOf(files *Files, folder string) (k key) {
	sum := sha256.New()
	_, _ = io.WriteString(sum, folder+"\x00") // names do not contain a zero byte; a hash never fails
	_ = files.Encode(sum)
	sum.Sum(k[:0])
	return k
}
