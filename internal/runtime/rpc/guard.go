// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/kit/timeouts"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

const (
	// MaxPublicBytes is the largest request to a procedure that needs no token. Such a request may
	// not be compressed.
	MaxPublicBytes = 64 << 10

	// envelope is the maximum size of a message's framing on the wire.
	envelope = 64

	// bodyTimeout is how long the body of a request may take to arrive. Every bodyRate bytes extend
	// it by a second, so a peer that sends 64 KiB a second is never cut off.
	bodyTimeout = 30 * time.Second
	bodyRate    = 64 << 10

	// bodyMemory bounds the bodies that all requests together are reading at once.
	bodyMemory = 64 << 20
	// retryBody is how long callers are asked to wait while too many bodies are being read.
	retryBody = time.Second
)

// Guard returns a handler that checks a request by its header before next, a Connect handler, reads
// its body:
//
//   - It refuses a request without a valid token, unless the procedure is public.
//   - It limits the body to the size of the procedure's message. The body must arrive within 30 s, plus a second for each
//     64 KiB. For procedures with a client stream Connect limits each message, and Guard does not limit the body.
//   - It limits all bodies that are being read to 64 MiB together.
//
// The caller's identity is in the context of next. Without Guard, Connect reads and inflates a
// message before any interceptor runs.
func (s *Server) Guard(next http.Handler) http.Handler { return &guarded{server: s, next: next} }

type guarded struct {
	server *Server
	next   http.Handler
}

// ServeHTTP implements http.Handler.
func (h *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, body := h.server.check(w, r)
	if request == nil {
		return
	}
	if body != nil {
		defer body.release()
	}
	h.next.ServeHTTP(w, request)
}

// check returns the request for next, and its body if next's time for that is limited. It returns nil if it has refused
// the request. It is a function of its own because next may run for days, and would keep this much of its stack.
func (s *Server) check(w http.ResponseWriter, r *http.Request) (*http.Request, *guardedBody) {
	kind, known := s.procedures[r.URL.Path]
	if !known { // next answers 404
		r.Body = http.MaxBytesReader(w, r.Body, 0)
		return r, nil
	}
	limit := int64(MaxMessageBytes + envelope)
	if s.public[r.URL.Path] {
		limit = MaxPublicBytes + envelope
	} else {
		id, err := s.identify(r)
		if err != nil {
			s.refuse(w, r, err)
			return nil, nil
		}
		r = r.WithContext(identity.NewContext(r.Context(), id))
	}
	if kind == streamsRequests || r.Body == nil || r.Body == http.NoBody {
		return r, nil
	}
	body := &guardedBody{
		ReadCloser: http.MaxBytesReader(w, r.Body, limit), budget: &s.reading,
		connection: http.NewResponseController(w), begun: time.Now(), allowed: bodyTimeout,
	}
	body.timeout = s.bodyTimeouts.Add(body.expire)
	r.Body = body
	return r, body
}

// identify returns the caller's identity. A panic of the verifier is returned as an error.
func (s *Server) identify(r *http.Request) (id identity.Identity, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = recovered(r.Context(), connect.Spec{}, nil, value)
		}
	}()
	return identity.FromHeader(r.Context(), s.params.Verifier, r.Header)
}

// refuse answers with an error in the caller's protocol.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	err = redact(r.Context(), s.params.Logger, connect.Spec{Procedure: r.URL.Path}, err)
	s.observer.refused(r, err)
	if s.errors.IsSupported(r) {
		_ = s.errors.Write(w, r, err) // fails only if the caller has left
		return
	}
	rpcerr.WriteHTTP(w, r, err)
}

// requests is whether a caller sends a procedure one message or several.
type requests int

const (
	sendsOne requests = iota
	streamsRequests
)

// procedures returns the kind of every procedure that is linked into this program, by path.
func procedures() map[string]requests {
	known := map[string]requests{}
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if !strings.HasPrefix(string(file.Package()), "leat.") {
			return true
		}
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				kind := sendsOne
				if method.IsStreamingClient() {
					kind = streamsRequests
				}
				known["/"+string(service.FullName())+"/"+string(method.Name())] = kind
			}
		}
		return true
	})
	return known
}

// guardedBody is the body of one request while the handler reads it.
//
// All requests share a timer. A read deadline that is set and removed for each of them would cost
// the goroutine of an HTTP/2 connection two turns.
type guardedBody struct {
	io.ReadCloser

	budget  *atomic.Int64 // bytes of all bodies that are being read
	begun   time.Time
	read    int64
	held    int64
	timeout *timeouts.Entry

	// mu keeps the handler from returning while expire uses the connection.
	mu         sync.Mutex
	hasEnded   bool
	allowed    time.Duration // since begun
	extension  *time.Timer   // nil: bodyTimeout has not passed
	connection *http.ResponseController
}

// Read implements io.Reader. Connect forwards its typed errors.
func (b *guardedBody) Read(p []byte) (int, error) {
	if b.budget.Load() > bodyMemory {
		return 0, rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED,
			"too many requests are being read at once; retry", rpcerr.RetryAfter(retryBody))
	}
	n, err := b.ReadCloser.Read(p)
	before := b.read / bodyRate
	b.read += int64(n)
	b.held += int64(n)
	b.budget.Add(int64(n))
	switch {
	case err != nil:
		b.end()
	case b.read/bodyRate != before:
		b.mu.Lock()
		b.allowed = bodyTimeout + time.Duration(b.read/bodyRate)*time.Second
		b.mu.Unlock()
	}
	return n, err
}

// expire fails a read that waits for the rest of the body, unless the bytes that have arrived have
// extended the time.
func (b *guardedBody) expire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hasEnded {
		return
	}
	if left := b.allowed - time.Since(b.begun); left > 0 {
		b.extension = time.AfterFunc(left, b.expire)
		return
	}
	_ = b.connection.SetReadDeadline(time.Unix(1, 0)) // fails only for a connection in memory, without deadlines
}

// end ends the time limit: the handler may take longer, and over HTTP/1.1 the server reads on to
// notice when the caller leaves.
func (b *guardedBody) end() {
	b.timeout.Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hasEnded = true
	if b.extension != nil {
		b.extension.Stop()
	}
}

// release returns to the budget what the body has reserved. Over HTTP/1.1 the server reads the rest
// of a body that the handler has not read to its end, so the time limit continues for the
// connection.
func (b *guardedBody) release() {
	b.mu.Lock()
	if !b.hasEnded {
		_ = b.connection.SetReadDeadline(b.begun.Add(b.allowed)) // fails only for a connection in memory, without deadlines
	}
	b.mu.Unlock()
	b.end()
	b.budget.Add(-b.held)
	b.held = 0
}

// errInflated is the error for a message that is far larger than any message may be.
var errInflated = errors.New("the message is too large when it is decompressed")

// boundedGzip inflates one message, but only as far as Connect needs to detect that it is too
// large. Connect alone would also inflate the rest, to report the size.
type boundedGzip struct {
	gzip.Reader

	left int64
}

func newBoundedGzip() connect.Decompressor { return &boundedGzip{} }

// Reset implements connect.Decompressor.
func (g *boundedGzip) Reset(r io.Reader) error {
	g.left = MaxMessageBytes + 2
	return g.Reader.Reset(r)
}

// Read implements io.Reader.
func (g *boundedGzip) Read(p []byte) (int, error) {
	if g.left <= 0 {
		return 0, errInflated
	}
	n, err := g.Reader.Read(p[:min(int64(len(p)), g.left)])
	g.left -= int64(n)
	return n, err
}

func newGzipWriter() connect.Compressor { return gzip.NewWriter(io.Discard) }
