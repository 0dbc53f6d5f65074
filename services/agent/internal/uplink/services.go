// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
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

	"github.com/leatdev/leat/internal/dialguard"
	"github.com/leatdev/leat/internal/proxyheader"
	"github.com/leatdev/leat/internal/serve"
)

// servicesPrefix begins the paths that are for services of the cluster.
const servicesPrefix = "/services/"

const (
	serviceIdle   = 90 * time.Second
	serviceWindow = 512 << 10
)

// ServiceParams are what NewServices needs.
type ServiceParams struct {
	// Allow are the services that people may reach. All others are refused.
	Allow []Service
	// Roots are whom to trust for services with TLS. Nil: the system's.
	Roots *x509.CertPool
	// Dial opens connections. Nil: the network's own dialer, which rejects addresses of this machine and its link.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Resolver finds the addresses of services where Dial is nil. Nil: the system's.
	Resolver *net.Resolver
	Logger   *slog.Logger
	// Meter counts requests under way. Nil: nobody does.
	Meter metric.Meter
	// StallTimeout is how long a caller may take no byte before the request to the service is ended. Zero: two minutes.
	StallTimeout time.Duration
}

// Services passes requests on to services of the cluster that it was told to allow, in nobody's name: neither the caller's
// credentials nor the agent's reach a service.
type Services struct {
	allowed  map[Service]bool
	legs     legs
	stall    time.Duration
	buffers  *serve.CopyBuffers
	logger   *slog.Logger
	errorLog *log.Logger
}

var _ http.Handler = (*Services)(nil)

// NewServices returns the handler of what is below /services/. It fails when the meter refuses its instruments.
func NewServices(p ServiceParams) (*Services, error) {
	if p.Dial == nil {
		// A user who may change an allowed service in the cluster could make its name resolve to an address of the
		// agent's own machine or link.
		p.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second, Control: dialguard.Control, Resolver: p.Resolver}).DialContext
	}
	config := &tls.Config{RootCAs: p.Roots, MinVersion: tls.VersionTLS12}
	carried := newLeg(legService, serviceTransport(p.Dial, config))
	s := &Services{
		allowed: map[Service]bool{}, buffers: &serve.CopyBuffers{}, stall: orDefault(p.StallTimeout, stallTimeout),
		logger: p.Logger, errorLog: slog.NewLogLogger(p.Logger.Handler(), slog.LevelDebug),
		legs: legs{
			short: carried, endless: carried,
			upgrade: newLeg(legServiceUpgrade, NewUpgrader(UpgraderParams{Dial: p.Dial, TLS: config})),
		},
	}
	for _, service := range p.Allow {
		s.allowed[service] = true
	}
	if err := observe(p.Meter, carried, s.legs.upgrade); err != nil {
		return nil, fmt.Errorf("observe requests: %w", err)
	}
	return s, nil
}

// serviceTransport connects to services themselves, whatever proxy the agent uses to reach the hub.
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
			message: "the path is not /services/{namespace}/{service}:{port}/… without dot segments, or the request wants an upgrade in a form " +
				"that the hub has to change; correct the path, or report it",
		}.write(w, r)
	case !s.allowed[service]:
		problem{
			code: http.StatusForbidden, kubeReason: "Forbidden", reason: "ACCESS_DENIED",
			message: fmt.Sprintf("the agent lets nobody reach service %s; whoever runs the cluster can add it to LEAT_AGENT_SERVICE_PROXY_ALLOW", service),
		}.write(w, r)
	default:
		if rest == "" {
			r = withSlash(r)
		}
		s.proxy(service, rest).ServeHTTP(w, r)
	}
}

// proxy is the way to one service. A service may take its time to answer: the caller knows better how long.
func (s *Services) proxy(service Service, rest string) *proxy {
	return &proxy{
		name: "service " + service.String(),
		base: &url.URL{Scheme: service.scheme(), Host: service.host()}, prefix: servicesPrefix + service.String(),
		legs: s.legs, stall: s.stall, scrub: proxyheader.ScrubRequest,
		tidy:    func(header http.Header) { tidyServiceAnswer(header, service, rest) },
		buffers: s.buffers, logger: s.logger, errorLog: s.errorLog,
	}
}

// splitService reads a path with its escapes. What the service is asked for is never more than what stands behind its name.
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

// hasDotSegment finds what a server could take for a way out of its place, also when it is escaped. The hub lets none through.
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

// withSlash asks for the root where the path ends with the service's name.
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

// tidyServiceAnswer removes what a service would say to the hub's host instead of its own: cookies, rules for the host, and
// redirects to anywhere but the service itself, which clients would follow with the caller's token.
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

// relative turns a reference of the service's into one that holds below the path that the caller knows the service by, whatever
// that begins with. ok is false when it leads elsewhere.
func relative(reference string, service Service, rest string) (location string, ok bool) {
	base, err := url.Parse(service.scheme() + "://" + service.host() + rest)
	if err != nil {
		return "", false
	}
	to, err := base.Parse(reference)
	if err != nil || to.Scheme != base.Scheme || !strings.EqualFold(hostPort(to), hostPort(base)) || to.User != nil || to.Opaque != "" {
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
