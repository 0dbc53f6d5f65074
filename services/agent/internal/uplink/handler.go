// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/gen/go/leat/agent/v1/agentv1connect"
	"github.com/leatdev/leat/internal/kit/timeouts"
	"github.com/leatdev/leat/internal/runtime/serve"
)

// kubernetesPrefix begins the paths of the cluster's API server.
const kubernetesPrefix = "/kubernetes"

// HandlerParams are the settings and collaborators of NewHandler.
type HandlerParams struct {
	// APIServer is the base URL of the cluster's API server.
	APIServer *url.URL
	// Transport authenticates as the agent. So does Watches, which has connections of its own, so
	// that endless answers never delay short ones. Nil: Transport is used for both.
	Transport http.RoundTripper
	Watches   http.RoundTripper
	// Upgrades is an [Upgrader], possibly wrapped to authenticate as the agent. Nil: an Upgrader
	// that does not authenticate.
	Upgrades http.RoundTripper
	// Services serves requests to services of the cluster; see [NewServices]. Nil: no service is
	// reachable.
	Services http.Handler
	// Agent serves AgentService calls.
	Agent  http.Handler
	Logger *slog.Logger
	// Meter counts active requests. Nil: they are not counted.
	Meter metric.Meter
	// AnswerTimeout is how long the API server may take to begin its answer. Zero: two minutes.
	AnswerTimeout time.Duration
	// StallTimeout is how long a caller may read nothing before its request to the API server is
	// ended. Zero: two minutes.
	StallTimeout time.Duration
	// People bounds the identities under which the hub may act.
	People People
}

// NewHandler returns the handler for the hub's requests. Requests below /kubernetes/ go to the
// cluster's API server under the identity that the hub names, those below /services/ to services,
// and AgentService calls to the agent itself. All others are rejected. NewHandler fails if the
// meter rejects its instruments.
func NewHandler(p HandlerParams) (http.Handler, error) {
	mux := http.NewServeMux()
	mux.Handle("/"+agentv1connect.AgentServiceName+"/", p.Agent)
	kubernetes := &door{kubernetes: p.kubernetes(), people: p.People}
	lanes := kubernetes.kubernetes.lanes
	if err := observe(p.Meter, lanes.short, lanes.endless, lanes.upgrade); err != nil {
		return nil, fmt.Errorf("observe requests: %w", err)
	}
	var err error
	if kubernetes.refusals, err = newRefusals(p.Meter, p.Logger); err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The mux would redirect paths that the API server accepts as they are.
		if strings.HasPrefix(r.URL.Path, kubernetesPrefix+"/") {
			kubernetes.ServeHTTP(w, r)
			return
		}
		if p.Services != nil && strings.HasPrefix(r.URL.Path, servicesPrefix) {
			p.Services.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}), nil
}

// kubernetes returns the proxy to the API server.
func (p HandlerParams) kubernetes() *proxy {
	watches, upgrades := p.Watches, p.Upgrades
	if watches == nil {
		watches = p.Transport
	}
	if upgrades == nil {
		upgrades = NewUpgrader(UpgraderParams{})
	}
	return &proxy{
		server: server{
			name: "the cluster's API server", base: p.APIServer, prefix: kubernetesPrefix, scrub: scrubKubernetes,
			silences: timeouts.NewQueue(cmp.Or(p.AnswerTimeout, answerTimeout)), buffers: &serve.CopyBuffers{},
			logger: p.Logger, errorLog: slog.NewLogLogger(p.Logger.Handler(), slog.LevelDebug),
		},
		lanes: lanes{
			short: newLane(laneShort, p.Transport), endless: newLane(laneWatch, watches),
			upgrade: newLane(laneUpgrade, upgrades),
		},
		stall: cmp.Or(p.StallTimeout, stallTimeout),
	}
}

// door checks the identity of a request, and passes the request to the API server.
type door struct {
	kubernetes *proxy
	people     People
	refusals   *refusals
}

// ServeHTTP implements http.Handler.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if refused := d.people.check(r.Header); refused != nil {
		d.refusals.note(r, refused)
		problem{code: http.StatusForbidden, kubeReason: "Forbidden", reason: "ACCESS_DENIED", message: refused.message}.write(w, r)
		return
	}
	// A Connection header could make the proxy drop the checked identity. HTTP/2 does not allow
	// one.
	if len(r.Header["Connection"]) > 0 || r.Header.Get("Upgrade") != "" || r.Method == http.MethodConnect {
		problem{
			code: http.StatusBadRequest, kubeReason: "BadRequest", reason: "FIELD_INVALID",
			message: "the hub must send upgrades as " + headerUpgrade + ", which is a defect of the hub; report it",
		}.write(w, r)
		return
	}
	d.kubernetes.ServeHTTP(w, r)
}
