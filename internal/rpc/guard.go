// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/rpcerr"
)

const (
	// MaxPublicBytes is the largest request to a procedure that needs no token. Such a request may not be compressed.
	MaxPublicBytes = 64 << 10

	// envelope is what a message may have around it on the wire.
	envelope = 64

	// bodyTimeout is how long the body of a request may take to arrive, and bodyRate how many bytes extend that by a second. A peer
	// that sends 64 KiB a second is never cut off.
	bodyTimeout = 30 * time.Second
	bodyRate    = 64 << 10

	// bodyMemory bounds the bodies that are being read at once, in all requests together.
	bodyMemory = 64 << 20
	// retryBody is what callers are asked to wait while too many bodies are being read.
	retryBody = time.Second
)

// Guard returns a handler that judges a request by its header before next, a Connect handler, reads its body:
//
//   - a request without a valid token is refused, unless its procedure is public;
//   - the body may have as many bytes as the procedure's message may have, and has to arrive within 30 s and a second more for each
//     64 KiB; procedures to which the caller streams are bounded by message alone;
//   - all bodies together may take 64 MiB while they are read.
//
// The caller's identity is in the context of next. Connect by itself reads and inflates a message before any interceptor runs.
func (s *Server) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, known := s.procedures[r.URL.Path]
		if !known { // answered 404
			r.Body = http.MaxBytesReader(w, r.Body, 0)
			next.ServeHTTP(w, r)
			return
		}
		limit := int64(MaxMessageBytes + envelope)
		if s.public[r.URL.Path] {
			limit = MaxPublicBytes + envelope
		} else {
			id, err := s.identify(r)
			if err != nil {
				s.refuse(w, r, err)
				return
			}
			r = r.WithContext(identity.NewContext(r.Context(), id))
		}
		if kind == streamsRequests || r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		body := &guardedBody{
			ReadCloser: http.MaxBytesReader(w, r.Body, limit), budget: &s.reading,
			deadline: http.NewResponseController(w), begun: time.Now(),
		}
		defer body.release()
		_ = body.deadline.SetReadDeadline(body.begun.Add(bodyTimeout)) // what has no deadlines is in memory
		r.Body = body
		next.ServeHTTP(w, r)
	})
}

// identify returns the caller. A panic of the verifier is an error like others.
func (s *Server) identify(r *http.Request) (id identity.Identity, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = recovered(r.Context(), connect.Spec{}, nil, value)
		}
	}()
	return identity.FromHeader(r.Context(), s.params.Verifier, r.Header)
}

// refuse answers in the caller's protocol.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	redacting := errorInterceptor{logger: s.params.Logger}
	err = redacting.redact(r.Context(), connect.Spec{Procedure: r.URL.Path}, err)
	s.observer.refused(r, err)
	if s.errors.IsSupported(r) {
		_ = s.errors.Write(w, r, err) // a caller that has left is told nothing
		return
	}
	rpcerr.WriteHTTP(w, r, err)
}

// requests says how many messages a caller sends to a procedure.
type requests int

const (
	sendsOne requests = iota
	streamsRequests
)

// procedures returns what is known of every procedure that this program is built with, by path.
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

// guardedBody is the body of one request, while it is read.
type guardedBody struct {
	io.ReadCloser

	budget   *atomic.Int64 // bytes of all bodies that are being read
	deadline *http.ResponseController
	begun    time.Time
	read     int64
	held     int64
	ended    bool
}

// Read implements io.Reader. Connect passes its typed errors on.
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
		_ = b.deadline.SetReadDeadline(b.begun.Add(bodyTimeout + time.Duration(b.read/bodyRate)*time.Second))
	}
	return n, err
}

// end lifts the deadline: what the handler does then may take longer, and over HTTP/1.1 the server goes on reading to see the caller leave.
func (b *guardedBody) end() {
	if !b.ended {
		b.ended = true
		_ = b.deadline.SetReadDeadline(time.Time{})
	}
}

// release gives back what the body took of the budget.
func (b *guardedBody) release() {
	b.budget.Add(-b.held)
	b.held = 0
}

// errInflated is what a message ends with that is far larger than any may be.
var errInflated = errors.New("the message is too large when it is decompressed")

// boundedGzip inflates one message, and no more of it than Connect needs to see that it is too large. Connect would inflate the rest, too, in
// order to say how large it was.
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
