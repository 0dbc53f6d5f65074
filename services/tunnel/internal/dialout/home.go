// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package dialout

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/h2"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

const (
	// headerScope is scopeEnrol on a connection to an agent that the hub does not know yet.
	headerScope = "Leat-Home-Scope"
	scopeEnrol  = "enrol"

	// maxCalls is how many calls of one agent may be under way.
	maxCalls = 100
	// callWindow is how much of one call's body is taken ahead of the distributor.
	callWindow = 256 << 10
	frameSize  = 64 << 10
	maxHeader  = 64 << 10
	// An agent that vanished without a word is noticed by pings.
	pingAfter   = 20 * time.Second
	pingTimeout = 15 * time.Second
	// writeTimeout ends a connection that takes no byte for so long.
	writeTimeout = 20 * time.Second
	retrySoon    = 2 * time.Second
)

// allowed are the calls that an agent may make. FleetService, AccessService and whatever else the
// distributor serves are not for agents.
var allowed = []string{
	distributorv1connect.DistributorServiceEnrollProcedure,
	distributorv1connect.DistributorServiceRefreshTokenProcedure,
	distributorv1connect.DistributorServiceGetPlanProcedure,
	distributorv1connect.DistributorServiceGetDigestProcedure,
	distributorv1connect.DistributorServiceWatchPlanProcedure,
	distributorv1connect.DistributorServiceGetServiceConfigProcedure,
	distributorv1connect.DistributorServiceReportStatusProcedure,
	"/.well-known/jwks.json",
}

// bundles begins the paths of bundles, which end with a digest.
const bundles = "/v1/bundles/"

// mayCall reports whether the agent may call a path. An agent that is not enrolled may only enrol.
func mayCall(u *url.URL, enrolled bool) bool {
	if u.RawPath != "" {
		return false // what needs escapes is no path of these
	}
	if !enrolled {
		return u.Path == distributorv1connect.DistributorServiceEnrollProcedure
	}
	digest, isBundle := strings.CutPrefix(u.Path, bundles)
	return slices.Contains(allowed, u.Path) || isBundle && digest != "" && !strings.ContainsAny(digest, "/.")
}

// HomeParams are the arguments of NewHome; all are required.
type HomeParams struct {
	// Distributor is the base URL of the distributor, and Transport what reaches it, without a
	// token of the hub's.
	Distributor string
	Transport   http.RoundTripper
	// Enrolled is sent to, unless it is full, when an agent may have enrolled. The answer to the
	// agent may still be on its way.
	Enrolled chan<- struct{}
	// Budget bounds the bytes read ahead of the distributor, over all connections.
	Budget *h2.Budget
	Logger *slog.Logger
}

// Home passes the calls of agents on to the distributor, with the agents' own credentials.
type Home struct {
	params HomeParams
	proxy  *httputil.ReverseProxy
}

// NewHome returns a Home. It fails when the URL is malformed.
func NewHome(p HomeParams) (*Home, error) {
	base, err := url.Parse(p.Distributor)
	if err != nil {
		return nil, err
	}
	h := &Home{params: p}
	h.proxy = &httputil.ReverseProxy{
		Transport: p.Transport, FlushInterval: -1, // the plan is a stream
		ErrorLog: slog.NewLogLogger(p.Logger.Handler(), slog.LevelDebug),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(base)
			r.Out.Host = ""
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, _ error) {
			rpcerr.WriteHTTP(w, r, rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE,
				"the distributor does not answer; retry", rpcerr.With("dependency", "distributor"), rpcerr.RetryAfter(retrySoon)))
		},
	}
	return h, nil
}

// server returns what answers calls on a connection.
func (h *Home) server(conn net.Conn, enrolled bool) *h2.Server {
	return h2.NewServer(context.Background(), conn, h2.ServerParams{
		Settings: h2.Settings{
			Windows: h2.Windows{Initial: callWindow, Max: callWindow}, FrameSize: frameSize, MaxHeaderBytes: maxHeader, MaxStreams: maxCalls,
			PingAfter: pingAfter, PingTimeout: pingTimeout, WriteTimeout: writeTimeout,
		},
		Budget: h.params.Budget, Logger: h.params.Logger,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !mayCall(r.URL, enrolled) {
				rpcerr.WriteHTTP(w, r, rpcerr.New(connect.CodePermissionDenied, errorsv1.Reason_REASON_ACCESS_DENIED, "agents may not call this"))
				return
			}
			h.proxy.ServeHTTP(w, r)
			if !enrolled { // by now it may be
				select {
				case h.params.Enrolled <- struct{}{}:
				default:
				}
			}
		}),
	})
}
