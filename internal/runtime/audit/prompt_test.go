// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/runtime/audit"
)

// prompt is an output whose batches requests may write, while it allows that.
type prompt struct {
	memory

	isSlow atomic.Bool
	asked  atomic.Int64
}

func (p *prompt) Prompt(int64) bool {
	p.asked.Add(1)
	return !p.isSlow.Load()
}

// TestRequestsThatWriteTheirDecisions has many at once write to a disk that fills up now and then,
// and is slow now and then.
func TestRequestsThatWriteTheirDecisions(t *testing.T) {
	t.Parallel()
	out := &prompt{}
	queue, stop := start(t, audit.QueueParams{Output: out, RetryAfter: time.Millisecond})
	carriedOut, mu, group := map[string]bool{}, sync.Mutex{}, sync.WaitGroup{}
	for i := range 32 {
		group.Go(func() {
			for j := range 100 {
				switch {
				case i == 0 && j%10 == 0:
					out.setRoom(j%20 == 0, 7)
				case i == 1 && j%5 == 0:
					out.isSlow.Store(j%10 == 0)
				}
				id := fmt.Sprintf("%d/%d", i, j)
				if err := request(t.Context(), queue, id); err == nil {
					mu.Lock()
					carriedOut[id] = true
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	out.setRoom(false, 0)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if len(carriedOut) == 0 || out.asked.Load() == 0 {
		t.Error("no request was carried out")
	}
	check(t, out.all(), carriedOut)
}

// TestARequestWritesWithoutAWriter holds the only goroutine that could write for it.
func TestARequestWritesWithoutAWriter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &prompt{memory: memory{called: make(chan struct{}, 10)}}
		queue, stop := start(t, audit.QueueParams{Output: out})
		synctest.Wait() // the writer waits
		if err := request(t.Context(), queue, "a"); err != nil {
			t.Fatal(err)
		}
		if len(out.called) != 1 || len(out.all()) != 1 {
			t.Errorf("got %d writes of %d records, want the decision, and the outcome later", len(out.called), len(out.all()))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		check(t, out.all(), map[string]bool{"a": true})
	})
}

// TestOthersDoNotWaitForARequestThatWrites has an output hang that has promised not to.
func TestOthersDoNotWaitForARequestThatWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &prompt{memory: memory{held: make(chan struct{})}}
		queue, stop := start(t, audit.QueueParams{Output: out, Timeout: 5 * time.Second, FlushTimeout: time.Minute})
		synctest.Wait()
		first := make(chan error, 1)
		go func() { first <- request(context.WithoutCancel(t.Context()), queue, "first") }()
		synctest.Wait()
		began := time.Now()
		if err := request(t.Context(), queue, "second"); err == nil || time.Since(began) != 5*time.Second {
			t.Errorf("got %v after %v, want a refusal after 5 s", err, time.Since(began))
		}
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		synctest.Wait()
		close(out.held)
		began = time.Now()
		if err := <-stopped; err != nil || time.Since(began) != 0 {
			t.Errorf("stop: got %v after %v, want the end as soon as everything is written", err, time.Since(began))
		}
		if err := <-first; err != nil && !strings.Contains(err.Error(), "closed") {
			t.Errorf("the first request: %v", err)
		}
	})
}

// TestFilesThatArePrompt tells files and pipes apart, and pipes with room from those without.
func TestFilesThatArePrompt(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if !audit.NewLog(file).Prompt(1 << 20) {
		t.Error("a regular file is not prompt")
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	defer func() { _ = w.Close() }()
	log := audit.NewLog(w)
	if !log.Prompt(1000) {
		t.Error("an empty pipe is not prompt")
	}
	if log.Prompt(1 << 20) {
		t.Error("an empty pipe is prompt for more than it has room for")
	}
	raw, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var full error
	if err := raw.Write(func(fd uintptr) bool {
		for full == nil {
			_, full = syscall.Write(int(fd), make([]byte, 1<<10))
		}
		return true
	}); err != nil || !errors.Is(full, syscall.EAGAIN) {
		t.Fatalf("fill the pipe: %v, %v", err, full)
	}
	if log.Prompt(1000) {
		t.Error("a full pipe is prompt")
	}
	if audit.NewLog(&strings.Builder{}).Prompt(1) {
		t.Error("a writer that says nothing is prompt")
	}
}
