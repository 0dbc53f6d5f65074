// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/internal/runtime/proxyheader"
	"github.com/leatdev/leat/internal/runtime/serve"
)

// servicesPrefix begins the paths of services of the cluster.
const servicesPrefix = "/services/"

const (
	serviceIdle   = 90 * time.Second
	serviceWindow = 512 << 10
)

// ServiceParams are the settings and collaborators of NewServices.
type ServiceParams struct {
	// Allow are the services that people may reach. Requests to all others are rejected.
	Allow []Service
	// Roots are the authorities to trust for services with TLS. Nil: the system's.
	Roots *x509.CertPool
	// Dial opens connections. Nil: the network's own dialer, which rejects addresses of this
	// machine and its link.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Resolver resolves the names of services if Dial is nil. Nil: the system's.
	Resolver *net.Resolver
	Logger   *slog.Logger
	// Meter counts active requests. Nil: they are not counted.
	Meter metric.Meter
	// StallTimeout is how long a caller may read nothing before its request to the service is
	// ended. Zero: two minutes.
	StallTimeout time.Duration
}

// Services forwards requests to the allowed services of the cluster, without any identity: neither
// the caller's credentials nor the agent's reach a service.
type Services struct {
	allowed  map[Service]bool
	lanes    lanes
	stall    time.Duration
	buffers  *serve.CopyBuffers
	logger   *slog.Logger
	errorLog *log.Logger
}

var _ http.Handler = (*Services)(nil)

// NewServices returns the handler for paths below /services/. It fails if the meter rejects its
// instruments.
func NewServices(p ServiceParams) (*Services, error) {
	p.Dial = p.dialer()
	config := p.tls()
	carried := newLane(laneService, serviceTransport(p.Dial, config))
	s := &Services{
		allowed: map[Service]bool{}, buffers: &serve.CopyBuffers{}, stall: cmp.Or(p.StallTimeout, stallTimeout),
		logger: p.Logger, errorLog: slog.NewLogLogger(p.Logger.Handler(), slog.LevelDebug),
		lanes: lanes{
			short: carried, endless: carried,
			upgrade: newLane(laneServiceUpgrade, NewUpgrader(UpgraderParams{Dial: p.Dial, TLS: config})),
		},
	}
	for _, service := range p.Allow {
		s.allowed[service] = true
	}
	if err := observe(p.Meter, carried, s.lanes.upgrade); err != nil {
		return nil, fmt.Errorf("observe requests: %w", err)
	}
	return s, nil
}

// NewServiceTransport returns a transport for the agent's own requests to services of the cluster. It
// connects as Services does, to any service.
func NewServiceTransport(p ServiceParams) *http.Transport {
	return serviceTransport(p.dialer(), p.tls())
}

// dialer returns what connects to services. A user who may change a service in the cluster could make
// its name resolve to an address of the agent's own machine or link.
func (p ServiceParams) dialer() func(context.Context, string, string) (net.Conn, error) {
	if p.Dial != nil {
		return p.Dial
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second, Control: dialguard.Guard{}.Control, Resolver: p.Resolver}
	return dialer.DialContext
}

func (p ServiceParams) tls() *tls.Config {
	return &tls.Config{RootCAs: p.Roots, MinVersion: tls.VersionTLS12}
}

// serviceTransport connects to services directly, regardless of the agent's proxy to the hub.
func serviceTransport(dial func(context.Context, string, string) (net.Conn, error), config *tls.Config) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTimeout)
			defer cancel()
			return dial(ctx, network, address)
		},
		TLSClientConfig: config.Clone(), TLSHandshakeTimeout: dialTimeout, Protocols: protocols,
		HTTP2:              &http.HTTP2Config{MaxReceiveBufferPerStream: serviceWindow},
		DisableCompression: true, IdleConnTimeout: serviceIdle, MaxResponseHeaderBytes: maxAnswerHead,
	}
}

// ServeHTTP implements http.Handler.
func (s *Services) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	service, rest, ok := splitService(r.URL.EscapedPath())
	switch {
	case !ok || r.Header.Get("Upgrade") != "" || r.Method == http.MethodConnect:
		problem{
			code: http.StatusBadRequest, kubeReason: "BadRequest", reason: "FIELD_INVALID",
			message: "the path is not /services/{namespace}/{service}:{port}/… without dot segments, or the request asks for an upgrade in a form " +
				"that the hub has to convert; correct the path, or report it",
		}.write(w, r)
	case !s.allowed[service]:
		problem{
			code: http.StatusForbidden, kubeReason: "Forbidden", reason: "ACCESS_DENIED",
			message: fmt.Sprintf("the agent does not allow requests to service %s; an operator of the cluster can add it to LEAT_AGENT_SERVICE_PROXY_ALLOW", service),
		}.write(w, r)
	default:
		if rest == "" {
			r = withSlash(r)
		}
		s.proxy(service, rest).ServeHTTP(w, r)
	}
}

// proxy returns the proxy to one service. It does not bound the time to answer, because the caller
// knows better how long that may take.
func (s *Services) proxy(service Service, rest string) *proxy {
	return &proxy{
		server: server{
			name: "service " + service.String(),
			base: service.URL(), prefix: servicesPrefix + service.String(),
			scrub: proxyheader.ScrubRequest, tidy: func(header http.Header) { tidyServiceAnswer(header, service, rest) },
			buffers: s.buffers, logger: s.logger, errorLog: s.errorLog,
		},
		lanes: s.lanes, stall: s.stall,
	}
}

// splitService splits a path with its escapes. The service receives only what follows its name.
func splitService(path string) (service Service, rest string, ok bool) {
	path, ok = strings.CutPrefix(path, servicesPrefix)
	if !ok {
		return Service{}, "", false
	}
	namespace, name, _ := strings.Cut(path, "/")
	if slash := strings.IndexByte(name, '/'); slash >= 0 {
		name, rest = name[:slash], name[slash:]
	}
	service, ok = parseService(namespace + "/" + name)
	return service, rest, ok && !hasDotSegment(rest)
}

// hasDotSegment reports whether a server could take the path for one outside of its place, also in
// escaped form. The hub rejects all such paths, too.
func hasDotSegment(path string) bool {
	decoded, err := url.PathUnescape(path)
	if err != nil {
		return true
	}
	for segment := range strings.SplitSeq(strings.ReplaceAll(decoded, `\`, "/"), "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// withSlash requests the root if the path ends with the service's name.
func withSlash(r *http.Request) *http.Request {
	clone := r.WithContext(r.Context())
	location := *r.URL
	location.Path += "/"
	if location.RawPath != "" {
		location.RawPath += "/"
	}
	path, query, found := strings.Cut(r.RequestURI, "?")
	if clone.RequestURI = path + "/"; found {
		clone.RequestURI += "?" + query
	}
	clone.URL = &location
	return clone
}

// tidyServiceAnswer removes headers that would affect the hub's host instead of the service:
// cookies, policies for the host, and redirects to any other place, which clients would follow with
// the caller's token.
func tidyServiceAnswer(header http.Header, service Service, rest string) {
	proxyheader.ScrubAnswer(header)
	for _, name := range []string{"Location", "Content-Location"} {
		values := header.Values(name)
		if len(values) == 0 {
			continue
		}
		header.Del(name)
		if location, ok := relative(values[0], service, rest); ok && len(values) == 1 {
			header.Set(name, location)
		}
	}
}

// relative turns a reference of the service into one below the path by which the caller reaches the
// service, whatever that path begins with. ok is false if the reference leads elsewhere.
func relative(reference string, service Service, rest string) (location string, ok bool) {
	base, err := url.Parse(service.scheme() + "://" + service.host() + rest)
	if err != nil {
		return "", false
	}
	to, err := base.Parse(reference)
	if err != nil || to.Scheme != base.Scheme || !strings.EqualFold(hostPort(to), hostPort(base)) ||
		to.User != nil || to.Opaque != "" {
		return "", false
	}
	path := strings.TrimPrefix(to.EscapedPath(), "/")
	if hasDotSegment(path) || strings.HasPrefix(path, "/") {
		return "", false // its reader may resolve it differently
	}
	up := "./" + service.segment() + "/" // the caller's path ends with the service's name
	if rest != "" {
		up = "./" + strings.Repeat("../", strings.Count(rest, "/")-1)
	}
	local := url.URL{RawQuery: to.RawQuery, ForceQuery: to.ForceQuery, Fragment: to.Fragment, RawFragment: to.RawFragment}
	return up + path + local.String(), true
}
