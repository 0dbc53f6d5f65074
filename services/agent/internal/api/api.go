// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package api serves AgentService: the calls through the tunnel that people make to the agent of
// one cluster.
package api

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/leatdev/leat/gen/go/leat/agent/v1"
	"github.com/leatdev/leat/gen/go/leat/agent/v1/agentv1connect"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/agent/internal/metrics"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/report"
	"github.com/leatdev/leat/services/agent/internal/wire"
)

const (
	defaultPage = 500
	maxPage     = 1000
	diffTimeout = time.Minute
)

// SubjectHeader names the caller. Only the hub sets it: the tunnel drops it from people's requests.
const SubjectHeader = "Leat-Subject"

// Engine is the part of the reconcile engine that the handlers need.
type Engine interface {
	Reconcile(service string) error
	Diff(ctx context.Context, service string, candidate ...plan.Bundle) ([]report.Difference, error)
	Objects(service string) ([]report.ObjectStatus, error)
	Subscribe(service string) (<-chan report.Event, func())
}

// Metrics answers what the pods of a service used.
type Metrics interface {
	Query(ctx context.Context, request metrics.Request) (metrics.Answer, error)
}

// Server implements AgentService.
type Server struct {
	engine  Engine
	metrics Metrics
	logger  *slog.Logger
}

var _ agentv1connect.AgentServiceHandler = (*Server)(nil)

// New returns the server.
func New(engine Engine, metrics Metrics, logger *slog.Logger) *Server {
	return &Server{engine: engine, metrics: metrics, logger: logger}
}

// Reconcile implements AgentService.
func (s *Server) Reconcile(ctx context.Context, request *agentv1.ReconcileRequest) (*agentv1.ReconcileResponse, error) {
	if err := named(request.GetService()); err != nil {
		return nil, err
	}
	if err := s.engine.Reconcile(request.GetService()); err != nil {
		return nil, fail(request.GetService(), err)
	}
	caller, _ := identity.FromContext(ctx)
	s.logger.InfoContext(ctx, "reconcile requested", slog.String("leat.service", request.GetService()),
		slog.String("subject", caller.Subject()))
	return &agentv1.ReconcileResponse{}, nil
}

// Diff implements AgentService.
func (s *Server) Diff(ctx context.Context, request *agentv1.DiffRequest) (*agentv1.DiffResponse, error) {
	if err := named(request.GetService()); err != nil {
		return nil, err
	}
	candidate, err := bundlesOf(request.GetBundles())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, diffTimeout)
	defer cancel()
	found, err := s.engine.Diff(ctx, request.GetService(), candidate...)
	if err != nil {
		return nil, fail(request.GetService(), err)
	}
	response := &agentv1.DiffResponse{}
	for _, d := range found {
		object := &agentv1.ObjectDiff{
			Ref: wire.Ref(d.Ref), Action: actionOf(d.Change), Unified: d.Unified, Problem: wire.Problem(d.Problem),
			Fields: fieldsOf(d.Fields), FieldsOmitted: int32(d.Omitted), Ignored: fieldsOf(d.Ignored), IgnoredOmitted: int32(d.IgnoredOmitted),
		}
		if d.Change == report.Unchanged {
			response.Unchanged = append(response.Unchanged, object)
		} else {
			response.Objects = append(response.Objects, object)
		}
	}
	return response, nil
}

// GetInventory implements AgentService.
func (s *Server) GetInventory(_ context.Context, request *agentv1.GetInventoryRequest) (*agentv1.GetInventoryResponse, error) {
	if err := named(request.GetService()); err != nil {
		return nil, err
	}
	all, err := s.engine.Objects(request.GetService())
	if err != nil {
		return nil, fail(request.GetService(), err)
	}
	start, size, err := window(request.GetPage(), len(all))
	if err != nil {
		return nil, err
	}
	end := min(start+size, len(all))
	response := &agentv1.GetInventoryResponse{}
	for _, o := range all[start:end] {
		response.Objects = append(response.Objects, wire.Object(o))
	}
	if end < len(all) {
		response.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(end)))
	}
	return response, nil
}

// QueryMetrics implements AgentService.
func (s *Server) QueryMetrics(ctx context.Context, request *agentv1.QueryMetricsRequest) (*agentv1.QueryMetricsResponse, error) {
	if err := named(request.GetService()); err != nil {
		return nil, err
	}
	question, err := questionOf(request)
	if err != nil {
		return nil, err
	}
	answer, err := s.metrics.Query(ctx, question)
	if field, ok := errors.AsType[*fielderr.Error](err); ok {
		return nil, rpcerr.Field(field.Path, field.Message)
	}
	if err != nil {
		return nil, fail(request.GetService(), err)
	}
	return answerMessage(request.GetMetric(), answer), nil
}

// WatchEvents implements AgentService. A slow reader's stream ends with an error about that.
func (s *Server) WatchEvents(
	ctx context.Context, request *agentv1.WatchEventsRequest, stream *connect.ServerStream[agentv1.WatchEventsResponse],
) error {
	events, stop := s.engine.Subscribe(request.GetService())
	defer stop()
	if err := stream.Send(nil); err != nil { // the headers confirm the subscription
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case event, ok := <-events:
			if !ok {
				return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED,
					"the caller reads more slowly than events arrive; watch again")
			}
			if err := stream.Send(eventOf(event)); err != nil {
				return err
			}
		}
	}
}

// window returns the bounds of the requested page.
func window(page *typev1.Page, total int) (start, size int, err error) {
	size = int(page.GetSize())
	if size < 0 {
		return 0, 0, rpcerr.Field("page.size", "must not be negative")
	}
	size = cmp.Or(size, defaultPage)
	if page.GetToken() != "" {
		text, decodeErr := base64.RawURLEncoding.DecodeString(page.GetToken())
		start, err = strconv.Atoi(string(text))
		if decodeErr != nil || err != nil || start < 0 {
			return 0, 0, rpcerr.Field("page.token", "is not one that this call returned")
		}
	}
	return min(start, total), min(size, maxPage), nil
}

func named(service string) error {
	if service == "" {
		return rpcerr.Field("service", "is required")
	}
	return nil
}

// fail maps the engine's errors.
func fail(service string, err error) error {
	if errors.Is(err, reconcile.ErrUnknownService) {
		return rpcerr.NotFound("service", service)
	}
	problem := reason.ProblemOf(err)
	switch problem.Reason {
	case reason.Internal:
		return err // the interceptor logs it and gives it an id
	case reason.ClusterUnreachable, reason.BundleUnavailable, reason.DependencyUnavailable, reason.MetricsUnavailable:
		return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason(problem.Reason), problem.Message)
	case reason.DeadlineExceeded:
		return rpcerr.New(connect.CodeDeadlineExceeded, errorsv1.Reason(problem.Reason), problem.Message)
	default:
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason(problem.Reason), problem.Message)
	}
}

func eventOf(e report.Event) *agentv1.WatchEventsResponse {
	response := &agentv1.WatchEventsResponse{
		Time: timestamppb.New(e.Time), Service: e.Service, Phase: wire.Phase(e.Phase), Message: e.Message,
	}
	if e.Object != nil {
		response.Object = wire.Ref(*e.Object)
	}
	return response
}

// Subjects puts the caller that the hub names into the context, and rejects requests without a
// caller. It trusts its connection: it must serve only the tunnel's, for which the hub has already
// verified the caller.
func Subjects(next http.Handler) http.Handler {
	refusals := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, name, err := identity.ParseSubject(r.Header.Get(SubjectHeader))
		if err != nil {
			// An error means that the client hung up.
			_ = refusals.Write(w, r, rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_TOKEN_INVALID,
				"the request names no caller in "+SubjectHeader))
			return
		}
		next.ServeHTTP(w, r.WithContext(identity.NewContext(r.Context(), identity.Identity{Kind: kind, Name: name})))
	})
}
