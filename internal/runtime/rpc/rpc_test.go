// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/offline"
	"github.com/leatdev/leat/internal/testkit/rpctest"
)

func TestMain(m *testing.M) { os.Exit(offline.Run(m)) }

// service answers one unary call and one stream with functions of the test.
type service struct {
	gitcachev1connect.UnimplementedGitCacheServiceHandler
	unary  func(ctx context.Context) error
	stream func(ctx context.Context) error
}

func (s *service) GetRepository(ctx context.Context, _ *gitcachev1.GetRepositoryRequest) (*gitcachev1.GetRepositoryResponse, error) {
	return &gitcachev1.GetRepositoryResponse{}, s.unary(ctx)
}

func (s *service) WatchRepositories(
	ctx context.Context, _ *gitcachev1.WatchRepositoriesRequest, stream *connect.ServerStream[gitcachev1.WatchRepositoriesResponse],
) error {
	if err := stream.Send(&gitcachev1.WatchRepositoriesResponse{}); err != nil {
		return err
	}
	return s.stream(ctx)
}

// serving is a service behind the complete stack.
type serving struct {
	server *rpctest.Server
	log    *buffer
}

// buffer is a log that is read while it is being written.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// verifierFunc is a verifier made of a function.
type verifierFunc func(ctx context.Context, token string) (identity.Identity, error)

func (f verifierFunc) Verify(ctx context.Context, token string) (identity.Identity, error) {
	return f(ctx, token)
}

func acceptGood(_ context.Context, token string) (identity.Identity, error) {
	switch token {
	case "good":
		return identity.Identity{Kind: identity.KindService, Name: "ada"}, nil
	case "later":
		return identity.Identity{}, identity.ErrUnavailable
	case "defect":
		return identity.Identity{}, errors.New("dial tcp 10.1.2.3: refused")
	case "panic":
		panic("kaboom in the verifier")
	}
	return identity.Identity{}, identity.ErrTokenInvalid
}

func serveStack(t *testing.T, s *service, public ...string) *serving {
	t.Helper()
	log := new(buffer)
	server, err := rpc.NewServer(rpc.ServerParams{
		Telemetry: telemetry.Noop(), Logger: slog.New(slog.NewTextHandler(log, nil)),
		Verifier: verifierFunc(acceptGood), Public: public,
	})
	if err != nil {
		t.Fatalf("new server: %v", err)
	}
	mux := http.NewServeMux()
	path, handler := gitcachev1connect.NewGitCacheServiceHandler(s, server.Options()...)
	mux.Handle(path, server.Guard(handler))
	return &serving{server: rpctest.Start(mux), log: log}
}

// started is serveStack for tests outside of a synctest bubble.
func started(t *testing.T, s *service, public ...string) *serving {
	t.Helper()
	stack := serveStack(t, s, public...)
	t.Cleanup(func() {
		if err := stack.server.Close(); err != nil {
			t.Errorf("close server: %v", err)
		}
	})
	return stack
}

func (s *serving) client(t *testing.T, token string, options ...connect.ClientOption) gitcachev1connect.GitCacheServiceClient {
	t.Helper()
	params := rpc.ClientParams{BaseURL: rpctest.BaseURL, Telemetry: telemetry.Noop(), Transport: s.server.Transport()}
	if token != "" {
		params.Tokens = identity.StaticToken(token)
	}
	client, err := rpc.NewClient(params)
	if err != nil {
		t.Fatalf("new client: %v", err)
	}
	return gitcachev1connect.NewGitCacheServiceClient(client.HTTP, client.BaseURL, append(client.Options, options...)...)
}

func unary(ctx context.Context, client gitcachev1connect.GitCacheServiceClient) error {
	_, err := client.GetRepository(ctx, &gitcachev1.GetRepositoryRequest{})
	return err
}

// drain reads a stream to its end and returns how it ended.
func drain(ctx context.Context, client gitcachev1connect.GitCacheServiceClient) error {
	stream, err := client.WatchRepositories(ctx, &gitcachev1.WatchRepositoriesRequest{})
	if err != nil {
		return err
	}
	for stream.Receive() {
	}
	return errors.Join(stream.Err(), stream.Close())
}

// calls are the two kinds of call that the stack has to treat alike.
func calls() map[string]func(context.Context, gitcachev1connect.GitCacheServiceClient) error {
	return map[string]func(context.Context, gitcachev1connect.GitCacheServiceClient) error{"unary": unary, "stream": drain}
}

func protocols() map[string]connect.ClientOption {
	return map[string]connect.ClientOption{
		"connect": connect.WithClientOptions(), "grpc": connect.WithGRPC(), "grpc-web": connect.WithGRPCWeb(),
	}
}

func both(f func(ctx context.Context) error) *service { return &service{unary: f, stream: f} }

func assertReason(t *testing.T, err error, code connect.Code, reason errorsv1.Reason) {
	t.Helper()
	if connect.CodeOf(err) != code || rpcerr.ReasonOf(err) != reason || !rpcerr.HasReason(err) {
		t.Errorf("got %v with %s, want %s with %s on the wire", err, rpcerr.ReasonOf(err), code, reason)
	}
}

func TestIdentityReachesTheHandlerInEveryProtocol(t *testing.T) {
	t.Parallel()
	stack := started(t, both(func(ctx context.Context) error {
		if id, found := identity.FromContext(ctx); !found || id.Subject() != "service:ada" {
			return errors.New("nobody")
		}
		return nil
	}))
	for protocol, option := range protocols() {
		for shape, call := range calls() {
			if err := call(t.Context(), stack.client(t, "good", option)); err != nil {
				t.Errorf("%s %s: got %v", protocol, shape, err)
			}
		}
	}
}

func TestTokenErrors(t *testing.T) {
	t.Parallel()
	stack := started(t, both(func(context.Context) error { return nil }))
	tests := map[string]struct {
		code   connect.Code
		reason errorsv1.Reason
	}{
		"":       {connect.CodeUnauthenticated, errorsv1.Reason_REASON_TOKEN_INVALID},
		"bad":    {connect.CodeUnauthenticated, errorsv1.Reason_REASON_TOKEN_INVALID},
		"later":  {connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE},
		"defect": {connect.CodeInternal, errorsv1.Reason_REASON_INTERNAL},
		"panic":  {connect.CodeInternal, errorsv1.Reason_REASON_INTERNAL},
	}
	for token, want := range tests {
		for shape, call := range calls() {
			t.Run(shape+" "+token, func(t *testing.T) {
				t.Parallel()
				err := call(t.Context(), stack.client(t, token))
				assertReason(t, err, want.code, want.reason)
				if strings.Contains(err.Error(), "10.1.2.3") {
					t.Errorf("got %v, want no cause in it", err)
				}
			})
		}
	}
}

func TestPublicProceduresNeedNoToken(t *testing.T) {
	t.Parallel()
	stack := started(t, both(func(ctx context.Context) error {
		if id, found := identity.FromContext(ctx); found {
			t.Errorf("got identity %v, want none", id)
		}
		return nil
	}), gitcachev1connect.GitCacheServiceGetRepositoryProcedure)
	for _, token := range []string{"", "good", "bad"} {
		if err := unary(t.Context(), stack.client(t, token)); err != nil {
			t.Errorf("public with token %q: got %v", token, err)
		}
	}
	assertReason(t, drain(t.Context(), stack.client(t, "")), connect.CodeUnauthenticated, errorsv1.Reason_REASON_TOKEN_INVALID)
}

func TestErrorsAreMappedInEveryProtocol(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err    error
		code   connect.Code
		reason errorsv1.Reason
	}{
		"typed":    {rpcerr.NotFound("repository", "demo"), connect.CodeNotFound, errorsv1.Reason_REASON_NOT_FOUND},
		"unmapped": {errors.New("dial tcp 10.1.2.3: password=hunter2"), connect.CodeInternal, errorsv1.Reason_REASON_INTERNAL},
	}
	for name, tt := range tests {
		stack := started(t, both(func(context.Context) error { return tt.err }))
		for protocol, option := range protocols() {
			for shape, call := range calls() {
				err := call(t.Context(), stack.client(t, "good", option))
				assertReason(t, err, tt.code, tt.reason)
				if strings.Contains(err.Error(), "hunter2") {
					t.Errorf("%s %s %s: got %v, want no cause in it", name, protocol, shape, err)
				}
				if id := rpcerr.Metadata(err)["error_id"]; tt.code == connect.CodeInternal && !strings.Contains(stack.log.String(), id) {
					t.Errorf("%s %s: error id %q is not in the log %s", protocol, shape, id, stack.log)
				}
			}
		}
	}
}

func TestUnimplementedCallsSaySo(t *testing.T) {
	t.Parallel()
	stack := started(t, both(nil))
	_, err := stack.client(t, "good").ListRefs(t.Context(), &gitcachev1.ListRefsRequest{})
	assertReason(t, err, connect.CodeUnimplemented, errorsv1.Reason_REASON_UNIMPLEMENTED)
}

func TestPanicBecomesInternalWithAnID(t *testing.T) {
	t.Parallel()
	stack := started(t, both(func(context.Context) error { panic("kaboom") }))
	for shape, call := range calls() {
		err := call(t.Context(), stack.client(t, "good"))
		assertReason(t, err, connect.CodeInternal, errorsv1.Reason_REASON_INTERNAL)
		id, log := rpcerr.Metadata(err)["error_id"], stack.log.String()
		if id == "" || !strings.Contains(log, id) || !strings.Contains(log, "panic: kaboom") || !strings.Contains(log, "rpc_test.go") {
			t.Errorf("%s: got id %q and log %s, want the id, the panic and its stack", shape, id, log)
		}
		if strings.Contains(err.Error(), "kaboom") {
			t.Errorf("%s: got %v, want no cause in it", shape, err)
		}
	}
}

func TestAbortHandlerStillAborts(t *testing.T) {
	t.Parallel()
	stack := started(t, both(func(context.Context) error { panic(http.ErrAbortHandler) }))
	if err := unary(t.Context(), stack.client(t, "good")); err == nil || rpcerr.HasReason(err) {
		t.Errorf("got %v, want the connection's error", err)
	}
	if log := stack.log.String(); log != "" {
		t.Errorf("got log %s, want none", log)
	}
}

func TestReasonPassesThroughAServiceInBetween(t *testing.T) {
	t.Parallel()
	for want, code := range map[errorsv1.Reason]connect.Code{
		errorsv1.Reason_REASON_REF_NOT_FOUND: connect.CodeNotFound,
		// That service refused our own token. The caller's is valid.
		errorsv1.Reason_REASON_TOKEN_INVALID: connect.CodeUnauthenticated,
	} {
		owner := started(t, both(func(context.Context) error {
			return rpcerr.New(code, want, "from the owner", rpcerr.With("ref", "main"))
		}))
		between := started(t, both(func(ctx context.Context) error { return unary(ctx, owner.client(t, "good")) }))
		err := unary(t.Context(), between.client(t, "good"))
		if want == errorsv1.Reason_REASON_TOKEN_INVALID {
			assertReason(t, err, connect.CodeUnavailable, errorsv1.Reason_REASON_HUB_TOKEN_REFUSED)
			if message := rpcerr.Message(err); !strings.Contains(message, "from the owner") || rpcerr.Metadata(err)["ref"] != "" {
				t.Errorf("got %q %v, want the owner's message, and none of its metadata", message, rpcerr.Metadata(err))
			}
			continue
		}
		assertReason(t, err, code, want)
		if rpcerr.Message(err) != "from the owner" || rpcerr.Metadata(err)["ref"] != "main" {
			t.Errorf("got %q %v, want message and metadata of the owner", rpcerr.Message(err), rpcerr.Metadata(err))
		}
	}
}

func TestMessagesAreLimited(t *testing.T) {
	t.Parallel()
	stack := started(t, both(func(context.Context) error { return nil }))
	huge := &gitcachev1.GetRepositoryRequest{Name: strings.Repeat("x", rpc.MaxMessageBytes+1)}
	_, err := stack.client(t, "good").GetRepository(t.Context(), huge)
	if connect.CodeOf(err) != connect.CodeResourceExhausted || rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_MESSAGE_TOO_LARGE {
		t.Errorf("got %v with %s, want it refused", err, rpcerr.ReasonOf(err))
	}
}
