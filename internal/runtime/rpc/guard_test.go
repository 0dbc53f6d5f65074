// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/rpctest"
)

// forms maps the content types of a message to the header that names the compression.
var forms = map[string]string{
	"application/proto": "Content-Encoding", "application/json": "Content-Encoding",
	"application/grpc": "Grpc-Encoding", "application/grpc-web+proto": "Grpc-Encoding", "application/connect+proto": "Connect-Content-Encoding",
}

func framed(contentType string, flags byte, message []byte) []byte {
	if contentType == "application/proto" || contentType == "application/json" {
		return message
	}
	return append(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(message))), message...)
}

func compress(t *testing.T, size int64) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.CopyN(w, endless{}, size); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// counting counts the bytes read from it.
type counting struct {
	io.Reader

	read atomic.Int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read.Add(int64(n))
	return n, err
}

func (s *serving) post(ctx context.Context, t *testing.T, path, contentType string, header http.Header, body io.Reader) (int, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, rpctest.BaseURL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header.Clone()
	request.Header.Set("Content-Type", contentType)
	response, err := s.server.Client().Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, nil
}

// TestSecStrangersBodiesAreNotRead uploads an endless body without a token. The server must refuse
// it by its header.
func TestSecStrangersBodiesAreNotRead(t *testing.T) {
	t.Parallel()
	stack := started(t, both(func(context.Context) error { return nil }))
	for contentType := range forms {
		body := &counting{Reader: io.LimitReader(endless{}, 64<<20)}
		status, err := stack.post(t.Context(), t, gitcachev1connect.GitCacheServiceGetRepositoryProcedure, contentType, http.Header{}, body)
		if err == nil && status == http.StatusOK && contentType == "application/proto" {
			t.Errorf("%s: got %d", contentType, status)
		}
		// The client has sent what an HTTP/2 window allows before the answer arrived.
		if read := body.read.Load(); read > 8<<20 {
			t.Errorf("%s: %d MiB of the body were taken", contentType, read>>20)
		}
	}
}

// TestSecMessagesInflateNoFurther sends messages that are 128 MiB when decompressed.
func TestSecMessagesInflateNoFurther(t *testing.T) {
	stack := started(t, both(func(context.Context) error { return nil }), gitcachev1connect.GitCacheServiceGetRepositoryProcedure)
	compressed := compress(t, 128<<20)
	for contentType, encoding := range forms {
		for _, path := range []string{gitcachev1connect.GitCacheServiceGetRepositoryProcedure, gitcachev1connect.GitCacheServicePutRepositoryProcedure} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			header := http.Header{"Authorization": {"Bearer good"}, encoding: {"gzip"}}
			_, _ = stack.post(t.Context(), t, path, contentType, header, bytes.NewReader(framed(contentType, 1, compressed)))
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > 96<<20 {
				t.Errorf("%s as %s: %d MiB were allocated", path, contentType, took>>20)
			}
		}
	}
}

// TestSecPublicProceduresTakeLittle sends a message that is too large for a public procedure.
func TestSecPublicProceduresTakeLittle(t *testing.T) {
	t.Parallel()
	var called atomic.Bool
	stack := started(t, both(func(context.Context) error { called.Store(true); return nil }), gitcachev1connect.GitCacheServiceGetRepositoryProcedure)
	for contentType := range forms {
		message := framed(contentType, 0, bytes.Repeat([]byte{0}, rpc.MaxPublicBytes+1))
		status, err := stack.post(t.Context(), t, gitcachev1connect.GitCacheServiceGetRepositoryProcedure, contentType, http.Header{}, bytes.NewReader(message))
		if err == nil && status == http.StatusOK && contentType == "application/proto" {
			t.Errorf("%s: got %d", contentType, status)
		}
	}
	if called.Load() {
		t.Error("the handler was called with a message that is too large")
	}
}

// TestSecSlowBodiesEnd has an authenticated caller begin a body and then send nothing.
func TestSecSlowBodiesEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stack := serveStack(t, both(func(context.Context) error { return nil }))
		silent, hold := io.Pipe()
		began := time.Now()
		status, err := stack.post(t.Context(), t, gitcachev1connect.GitCacheServiceGetRepositoryProcedure, "application/proto",
			http.Header{"Authorization": {"Bearer good"}}, silent)
		if took := time.Since(began); took != 30*time.Second || err == nil && status == http.StatusOK {
			t.Errorf("got %d, %v after %v, want the call to end after 30s", status, err, took)
		}
		_ = hold.Close()
		if err := stack.server.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestSecUnreadBodiesEnd has a caller over HTTP/1.1 keep back the rest of a body that no handler
// reads. The server reads it after the answer, and must not do so for longer than any other body.
func TestSecUnreadBodiesEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		guard, err := rpc.NewServer(rpc.ServerParams{
			Telemetry: telemetry.Noop(), Logger: slog.New(slog.DiscardHandler), Verifier: verifierFunc(acceptGood),
		})
		if err != nil {
			t.Fatal(err)
		}
		pipes := loopback.NewPipes()
		server := &http.Server{Handler: guard.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))}
		go func() { _ = server.Serve(pipes) }() // ends with Close
		conn, err := pipes.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: leat.test\r\nAuthorization: Bearer good\r\nContent-Length: 100\r\n\r\nhello",
			gitcachev1connect.GitCacheServiceGetRepositoryProcedure)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, conn) // until the server closes the connection
		if took := time.Since(began); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("the connection ended after %v, want 30s", took)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestSlowBodiesThatArriveAreRead sends 64 KiB a second for two minutes, and then nothing.
func TestSlowBodiesThatArriveAreRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stack := serveStack(t, both(func(context.Context) error { return nil }))
		slow, feed := io.Pipe()
		began := time.Now()
		go func() {
			chunk := make([]byte, 64<<10)
			for range 120 { // 64 KiB a second
				<-time.After(time.Second)
				_, _ = feed.Write(chunk) // fails if the body was cut off, which the time shows
			}
		}()
		status, err := stack.post(t.Context(), t, gitcachev1connect.GitCacheServiceGetRepositoryProcedure, "application/proto",
			http.Header{"Authorization": {"Bearer good"}}, slow)
		if took := time.Since(began); took != 150*time.Second || err == nil && status == http.StatusOK {
			t.Errorf("got %d, %v after %v, want the call to end after 150s", status, err, took)
		}
		_ = feed.Close()
		if err := stack.server.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestSecBodiesHaveABudget sends large messages from many callers at once, until the budget is used
// up.
func TestSecBodiesHaveABudget(t *testing.T) {
	t.Parallel()
	const callers, size = 12, 7 << 20
	stack := started(t, both(func(context.Context) error { return nil }))
	begun := make(chan *io.PipeWriter, callers)
	statuses := make(chan int, callers)
	for range callers {
		go func() {
			body, feed := io.Pipe()
			begun <- feed
			status, _ := stack.post(t.Context(), t, gitcachev1connect.GitCacheServicePutRepositoryProcedure, "application/proto",
				http.Header{"Authorization": {"Bearer good"}}, body)
			_ = body.Close()
			statuses <- status
		}()
	}
	chunk := make([]byte, size)
	var feeds []*io.PipeWriter
	for range callers {
		feed := <-begun
		_, _ = feed.Write(chunk) // fails if this call was refused
		feeds = append(feeds, feed)
	}
	for _, feed := range feeds {
		_ = feed.Close()
	}
	refused := 0
	for range callers {
		if <-statuses == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused == 0 {
		t.Errorf("%d MiB were read at once and no caller was refused", callers*size>>20)
	}
	if _, err := stack.client(t, "good").GetRepository(t.Context(), &gitcachev1.GetRepositoryRequest{Name: "a"}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
