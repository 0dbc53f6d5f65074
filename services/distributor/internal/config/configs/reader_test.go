// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package configs_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// memory is a configs.Entries of one back end.
type memory struct {
	mu    sync.Mutex
	due   map[string]time.Time
	tries map[string]int
	// saved and failed are the times of answers.
	saved, failed []time.Time
	last          configs.Failed
}

func (m *memory) Due(_ context.Context, _, _ string, at time.Time, limit int) (tasks []configs.Task, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, path := range slices.Sorted(maps.Keys(m.due)) {
		if !m.due[path].After(at) && len(tasks) < limit {
			tasks = append(tasks, configs.Task{Path: path, Attempts: m.tries[path]})
		}
	}
	return tasks, nil
}

func (m *memory) Release(context.Context, string) error { return nil }

func (m *memory) Save(_ context.Context, _, path string, _ configs.Entry, at, next time.Time) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.due[path], m.tries[path] = next, 0
	m.saved = append(m.saved, at)
	return true, nil
}

func (m *memory) Fail(_ context.Context, _, path string, f configs.Failed, at time.Time) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.due[path] = f.Next
	m.tries[path]++
	m.failed, m.last = append(m.failed, at), f
	return false, nil
}

func (m *memory) Hasten(context.Context, string, string, time.Time) (int, error) { return 0, nil }
func (m *memory) Prune(context.Context, time.Time) error                         { return nil }
func (m *memory) Backend(context.Context, string) (*catalog.ConfigBackend, error) {
	return &catalog.ConfigBackend{}, nil
}

// answering is a back end of a function.
type answering struct {
	read  func(ctx context.Context, path string) (configs.Entry, error)
	check func() error
}

func (a answering) Read(ctx context.Context, path string) (configs.Entry, error) {
	return a.read(ctx, path)
}

func (a answering) Check(context.Context) error {
	if a.check == nil {
		return nil
	}
	return a.check()
}

func (a answering) Close() error { return nil }

type fixed []*catalog.ConfigBackend

func (f fixed) ConfigBackends() []*catalog.ConfigBackend { return f }

// run reads for a time.
func run(t *testing.T, m *memory, backend answering, life time.Duration) {
	t.Helper()
	reader, err := configs.NewReader(configs.Params{
		Catalog: fixed{{Metadata: catalog.Metadata{Name: "v", UID: "u", Generation: 1}}}, Entries: m,
		Open:    func(*catalog.ConfigBackend) (configs.Backend, error) { return backend, nil },
		Changed: func(context.Context) {}, Logger: slog.New(slog.DiscardHandler), Meter: noop.Meter{}, Replica: "r", Poll: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), life)
	defer cancel()
	if err := reader.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func paths(names ...string) *memory {
	m := &memory{due: map[string]time.Time{}, tries: map[string]int{}}
	for _, name := range names {
		m.due[name] = time.Time{}
	}
	return m
}

// TestReaderAsksEverMoreRarely counts the reads of a broken back end in a day, and of one that
// works.
func TestReaderAsksEverMoreRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := paths("app")
		run(t, m, answering{read: func(context.Context, string) (configs.Entry, error) { return configs.Entry{}, errors.New("away") }}, 24*time.Hour)
		if n := len(m.failed); n < 96 || n > 220 {
			t.Errorf("got %d reads of a broken back end in a day", n)
		}
		if first := m.failed[1].Sub(m.failed[0]); first > 10*time.Second {
			t.Errorf("got a first retry after %v", first)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		m := paths("app")
		run(t, m, answering{read: func(context.Context, string) (configs.Entry, error) { return configs.Entry{}, nil }}, time.Hour)
		if n := len(m.saved); n < 12 || n > 20 {
			t.Errorf("got %d reads in an hour, want one every four minutes or so", n)
		}
	})
}

// TestSecReaderIsBounded has a back end hang, ask to wait for a year, promise a life of a
// nanosecond, and send too much.
func TestSecReaderIsBounded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer func(ctx context.Context, path string) (configs.Entry, error)
		check  func(t *testing.T, m *memory)
	}{
		"hangs": {
			func(ctx context.Context, _ string) (configs.Entry, error) {
				<-ctx.Done()
				return configs.Entry{}, ctx.Err()
			},
			func(t *testing.T, m *memory) {
				t.Helper()
				if len(m.failed) < 10 {
					t.Errorf("got %d failures of paths that hang", len(m.failed))
				}
			},
		},
		"asks to wait for a year": {
			func(context.Context, string) (configs.Entry, error) {
				return configs.Entry{}, &configs.ThrottledError{After: 365 * 24 * time.Hour}
			},
			func(t *testing.T, m *memory) {
				t.Helper()
				if wait := m.last.Next.Sub(m.failed[len(m.failed)-1]); wait > time.Hour || wait < 59*time.Minute {
					t.Errorf("got a wait of %v, want an hour at most", wait)
				}
			},
		},
		"lives for a nanosecond": {
			func(context.Context, string) (configs.Entry, error) { return configs.Entry{TTL: 1}, nil },
			func(t *testing.T, m *memory) {
				t.Helper()
				if n := len(m.saved); n > 20*600/7 {
					t.Errorf("got %d reads of 20 paths in ten minutes", n)
				}
			},
		},
		"sends too much": {
			func(context.Context, string) (configs.Entry, error) {
				return configs.Entry{Fields: configs.FieldsOf(map[string]string{"a": string(make([]byte, configs.MaxEntryBytes+1))})}, nil
			},
			func(t *testing.T, m *memory) {
				t.Helper()
				if len(m.saved) != 0 {
					t.Error("an entry beyond the bounds was stored")
				}
			},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			running, most := 0, 0
			var names []string
			for c := 'a'; c < 'a'+20; c++ {
				names = append(names, string(c))
			}
			m := paths(names...)
			run(t, m, answering{read: func(ctx context.Context, path string) (configs.Entry, error) {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				defer func() {
					mu.Lock()
					defer mu.Unlock()
					running--
				}()
				return test.answer(ctx, path)
			}}, 10*time.Minute)
			if most > configs.MaxReads {
				t.Errorf("%s: got %d reads at once, want %d at most", name, most, configs.MaxReads)
			}
			test.check(t, m)
		})
	}
}
