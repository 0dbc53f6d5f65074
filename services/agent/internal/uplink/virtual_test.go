// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/testkit/chaos"
	"github.com/leatdev/leat/services/agent/internal/uplink"
)

// TestF04AgentSendsEventsBesideDownloads creates events in a cluster while eight downloads use the
// agent's whole line of 16 MiB/s. Each event reaches the hub within 50 ms, which is the time of 800
// KiB: a frame of 64 KiB, the hub's largest, for each download, and the bytes that are on the line
// already. Time is virtual, and only the line takes any.
func TestF04AgentSendsEventsBesideDownloads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rate, events, inTime = 16 << 20, 30, 50 * time.Millisecond
		api := &paced{begin: make(chan struct{})}
		agent, err := uplink.New(uplink.Params{
			Tokens: &fakeTokens{}, Version: "v1", Logger: slog.New(slog.DiscardHandler),
			Handler: newHandler(t, uplink.HandlerParams{APIServer: &url.URL{Scheme: "http", Host: "api.test"}, Transport: api}),
		})
		if err != nil {
			t.Fatal(err)
		}
		far := make(chan net.Conn, 1)
		line := chaos.New(chaos.Params{Dial: func(context.Context) (net.Conn, error) {
			near, there := net.Pipe()
			far <- there
			return near, nil
		}})
		defer line.Close()
		serving, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { agent.Accept(serving, line.Pipe(), http.Header{}) })
		conn := <-far
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		hub, err := (&http.Transport{
			Protocols: protocols, DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
			HTTP2: &http.HTTP2Config{MaxReadFrameSize: 64 << 10},
		}).NewClientConn(t.Context(), "http", "agent:80")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		open := func(query string) io.ReadCloser {
			res, err := hub.RoundTrip(as(t, ctx, "alice", http.MethodGet, "http://agent/kubernetes/api/v1/pods"+query, nil))
			if err != nil {
				t.Fatal(err)
			}
			return res.Body
		}
		watch := open("?watch=1")
		var moved atomic.Int64
		for range 8 {
			download := open("")
			running.Go(func() {
				defer func() { _ = download.Close() }()
				_, _ = io.Copy(counter{&moved}, download)
			})
		}
		synctest.Wait() // until time is waited for where locks are held, as at an answer's beginning, a line takes none
		line.Cap(rate)
		close(api.begin)
		began, latest := time.Now(), time.Duration(0)
		for range events {
			var happened int64
			if _, err := fmt.Fscanln(watch, &happened); err != nil {
				t.Fatal(err)
			}
			latest = max(latest, time.Since(time.Unix(0, happened)))
		}
		took := time.Since(began)
		if latest > inTime {
			t.Errorf("got an event %v after it happened, want each within %v", latest, inTime)
		}
		if got, full := moved.Load(), int64(rate*took/time.Second); got < full*9/10 {
			t.Errorf("got %d KiB downloaded in %v, want the line full: %d KiB", got>>10, took, full>>10)
		}
		cancel()
		_ = watch.Close()
		stop()
		_ = conn.Close()
		running.Wait()
	})
}

// counter counts written bytes.
type counter struct{ bytes *atomic.Int64 }

// Write implements io.Writer.
func (c counter) Write(p []byte) (int, error) {
	c.bytes.Add(int64(len(p)))
	return len(p), nil
}

// paced is an API server with endless downloads in large pieces, and with watches whose events are
// their own times.
type paced struct {
	begin chan struct{} // closed when they continue
}

// RoundTrip implements http.RoundTripper.
func (p *paced) RoundTrip(r *http.Request) (*http.Response, error) {
	body, content := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = content.CloseWithError(r.Context().Err()) })
	go p.send(r, content)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, ContentLength: -1, Request: r}, nil
}

func (p *paced) send(r *http.Request, w io.Writer) {
	select {
	case <-p.begin:
	case <-r.Context().Done():
		return
	}
	piece, next := make([]byte, 1<<20), time.NewTicker(time.Hour)
	defer next.Stop()
	for i := 0; ; i++ {
		if r.URL.Query().Has("watch") {
			next.Reset(50*time.Millisecond + time.Duration(i)*time.Millisecond) // each time at another point of the downloads' turns
			select {
			case <-next.C:
			case <-r.Context().Done():
			}
			piece = fmt.Appendln(nil, time.Now().UnixNano())
		}
		if _, err := w.Write(piece); err != nil {
			return
		}
	}
}
