// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// clients run concurrently, each over its own connection.
	clients = 64
	// warm is how many requests each client makes before measurement.
	warm = 3
	// fewest is the minimum number of answers for a median.
	fewest = 20
	// endless is the requested number of bytes if time decides the end.
	endless = 1 << 50
	MiB     = 1 << 20
)

// figure is a measurement for each side.
type figure struct {
	name    string
	bulk    bool
	measure func(b *testing.B, s *side)
}

var errDone = errors.New("measured for long enough")

// BenchmarkPath (run it with -benchtime 1x) measures requests and bulk transfers, at each
// round-trip time, in rounds in which Leat and its peers take turns. "Per operation" is the median
// of a small GET, the time of one request of many, or of one MiB.
func BenchmarkPath(b *testing.B) {
	figures := []figure{
		{"get", false, measureLatency},
		{"gets=" + strconv.Itoa(clients), false, measureRate},
		{"download=1", true, func(b *testing.B, s *side) { measureBulk(b, s, 1, download) }},
		{"download=16", true, func(b *testing.B, s *side) { measureBulk(b, s, 16, download) }},
		{"upload=1", true, func(b *testing.B, s *side) { measureBulk(b, s, 1, upload) }},
		{"upload=16", true, func(b *testing.B, s *side) { measureBulk(b, s, 16, upload) }},
	}
	shared := newBench(b)
	for _, rtt := range durations(b, *rtts) {
		b.Run("rtt="+rtt.String(), func(b *testing.B) {
			sides := shared.sides(b, rtt)
			for range *rounds {
				for _, f := range figures {
					for _, s := range sides {
						if f.bulk && s.getsOnly {
							continue
						}
						b.Run(f.name+"/"+s.name, func(b *testing.B) { f.measure(b, s) })
					}
				}
			}
		})
	}
}

// measureLatency requests one small object after another.
func measureLatency(b *testing.B, s *side) {
	hub, agent := s.cpu(b)
	latencies := s.ask(b, s.client(b), *each)
	hubAfter, agentAfter := s.cpu(b)
	b.ReportMetric(float64(quantile(latencies, 0.5)), "ns/op")
	b.ReportMetric(micro(quantile(latencies, 0.5)), "p50-µs")
	b.ReportMetric(micro(quantile(latencies, 0.99)), "p99-µs")
	reportCPU(b, hubAfter-hub, agentAfter-agent, float64(len(latencies)), "req")
}

// ask returns how long each answer took, sorted.
func (s *side) ask(b *testing.B, client *http.Client, during time.Duration) []time.Duration {
	b.Helper()
	buffer := make([]byte, 32<<10)
	var latencies []time.Duration
	begun := time.Now()
	for i := 0; len(latencies) < fewest || time.Since(begun) < during; i++ {
		asked := time.Now()
		if err := unexpected(get(b.Context(), client, s.url+pathSmall, s.token, buffer)); err != nil {
			b.Fatal(err)
		}
		if i < warm {
			begun = time.Now()
			continue
		}
		latencies = append(latencies, time.Since(asked))
	}
	slices.Sort(latencies)
	return latencies
}

// measureRate has many clients request small objects as fast as they are answered.
func measureRate(b *testing.B, s *side) {
	done := make(chan struct{})
	var answers atomic.Int64
	var group errgroup.Group
	var warmed sync.WaitGroup
	warmed.Add(clients)
	latencies := make([][]time.Duration, clients)
	for i := range clients {
		client := s.client(b)
		group.Go(func() error {
			err := s.askOften(b.Context(), client, warm, nil)
			warmed.Done()
			if err == nil {
				err = s.askOften(b.Context(), client, endless, func(took time.Duration) bool {
					answers.Add(1)
					latencies[i] = append(latencies[i], took)
					return isClosed(done)
				})
			}
			return err
		})
	}
	warmed.Wait()
	hub, agent := s.cpu(b)
	begun, before := time.Now(), answers.Load()
	<-time.After(*each)
	took, n := time.Since(begun), answers.Load()-before
	hubAfter, agentAfter := s.cpu(b)
	close(done)
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(took)/float64(n), "ns/op")
	b.ReportMetric(float64(n)/took.Seconds(), "req/s")
	all := slices.Sorted(slices.Values(slices.Concat(latencies...)))
	b.ReportMetric(micro(quantile(all, 0.5)), "p50-µs")
	b.ReportMetric(micro(quantile(all, 0.99)), "p99-µs")
	reportCPU(b, hubAfter-hub, agentAfter-agent, float64(n), "req")
}

// askOften requests a small object so many times, or until enough, which is called with the time of
// each answer, returns true.
func (s *side) askOften(ctx context.Context, client *http.Client, times int, enough func(took time.Duration) bool) error {
	buffer := make([]byte, 32<<10)
	for range times {
		asked := time.Now()
		if err := unexpected(get(ctx, client, s.url+pathSmall, s.token, buffer)); err != nil {
			return err
		}
		if enough != nil && enough(time.Since(asked)) {
			return nil
		}
	}
	return nil
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// reportCPU reports the cost of one operation, in hub and agent, and how many operations a core of
// both together does.
func reportCPU(b *testing.B, hub, agent time.Duration, n float64, unit string) {
	b.Helper()
	if hub+agent == 0 {
		return // nothing is between, or the run was too short
	}
	b.ReportMetric(micro(hub)/n, "hub-µs/"+unit)
	b.ReportMetric(micro(agent)/n, "agent-µs/"+unit)
	b.ReportMetric(n/(hub+agent).Seconds(), unit+"/core-s")
}

// transfer moves bytes until ctx ends, and reports how many were moved each time.
type transfer func(ctx context.Context, s *side, client *http.Client, moved func(n int)) error

// measureBulk moves bytes in several streams at once, each on its own connection to the hub.
func measureBulk(b *testing.B, s *side, streams int, move transfer) {
	ctx, cancel := context.WithCancelCause(b.Context())
	defer cancel(nil)
	var moved atomic.Int64
	var group errgroup.Group
	for range streams {
		client := s.client(b)
		// A client that has not received the server's settings yet sends the whole of its first
		// body in the smallest frames. To leave nothing to chance, each client makes a request
		// before.
		if err := unexpected(get(b.Context(), client, s.url+pathSmall, s.token, make([]byte, 32<<10))); err != nil {
			b.Fatal(err)
		}
		group.Go(func() error {
			err := move(ctx, s, client, func(n int) { moved.Add(int64(n)) })
			if errors.Is(context.Cause(ctx), errDone) {
				return nil
			}
			return fmt.Errorf("transfer ended early: %w", err)
		})
	}
	<-time.After(*each / 4) // until the windows are full
	hub, agent := s.cpu(b)
	begun, before := time.Now(), moved.Load()
	<-time.After(*each)
	took, n := time.Since(begun), moved.Load()-before
	hubAfter, agentAfter := s.cpu(b)
	cancel(errDone)
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	if n == 0 {
		b.Fatal("nothing was moved")
	}
	b.ReportMetric(float64(took)*MiB/float64(n), "ns/op")
	b.ReportMetric(float64(n)/MiB/took.Seconds(), "MiB/s")
	reportCPU(b, hubAfter-hub, agentAfter-agent, float64(n)/MiB, "MiB")
}

func download(ctx context.Context, s *side, client *http.Client, moved func(n int)) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+pathBulk+"?bytes="+strconv.Itoa(endless), http.NoBody)
	if err != nil {
		return err
	}
	authorize(request, s.token)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := unexpected(response.StatusCode, nil); err != nil {
		return err
	}
	for buffer := make([]byte, 256<<10); ; {
		n, err := response.Body.Read(buffer)
		moved(n)
		if err != nil {
			return err
		}
	}
}

func upload(ctx context.Context, s *side, client *http.Client, moved func(n int)) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, s.url+pathBulk, &source{moved: moved})
	if err != nil {
		return err
	}
	authorize(request, s.token)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	why, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // for the message only
	return fmt.Errorf("answered before the end: %d %s", response.StatusCode, why)
}

// source is endless. It counts the bytes that the client has read, which is slightly more than what
// was sent.
type source struct{ moved func(n int) }

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	s.moved(len(p))
	return len(p), nil
}

// quantile returns a quantile of sorted values.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(int(float64(len(sorted))*q), len(sorted)-1)]
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

var _ io.Reader = (*source)(nil)
