// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/leatdev/leat/gen/go/leat/agent/v1/agentv1connect"
)

const (
	kubernetesPrefix  = "/kubernetes"
	impersonateUser   = "Impersonate-User"
	impersonatePrefix = "Impersonate-"
	leatPrefix        = "Leat-"
	headerErrorOrigin = "Leat-Error-Origin"
	originAgent       = "agent"
)

// HandlerParams are what NewHandler needs.
type HandlerParams struct {
	// APIServer is the base URL of the cluster's API server.
	APIServer *url.URL
	// Transport authenticates as the agent.
	Transport http.RoundTripper
	// Agent answers AgentService calls.
	Agent  http.Handler
	Logger *slog.Logger
}

// NewHandler answers the hub: what is below /kubernetes/ goes to the cluster's API server under the identity that the hub
// names, AgentService calls go to the agent itself, and nothing else exists.
func NewHandler(p HandlerParams) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/"+agentv1connect.AgentServiceName+"/", p.Agent)
	proxy := kubernetesProxy(p)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Not through the mux, which would redirect paths that the API server takes as they are.
		if strings.HasPrefix(r.URL.Path, kubernetesPrefix+"/") {
			proxy.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func kubernetesProxy(p HandlerParams) http.Handler {
	proxy := &httputil.ReverseProxy{
		// Answers of unknown length, such as watches, are flushed at once without being asked.
		Rewrite:        func(r *httputil.ProxyRequest) { rewrite(r, p.APIServer) },
		Transport:      p.Transport,
		ModifyResponse: passOn,
		ErrorHandler:   func(w http.ResponseWriter, r *http.Request, err error) { unreachable(w, r, err, p.Logger) },
		ErrorLog:       slog.NewLogLogger(p.Logger.Handler(), slog.LevelDebug),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get(impersonateUser) == "":
			// Without it the API server would see the agent, which may do everything.
			writeStatus(w, http.StatusForbidden, "Forbidden", "the request names nobody to impersonate")
		case r.Header.Get("Upgrade") != "" || r.Method == http.MethodConnect:
			writeStatus(w, http.StatusNotImplemented, "NotImplemented",
				"exec, attach, port-forward and other connection upgrades are not supported through the tunnel yet")
		default:
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			proxy.ServeHTTP(w, r.WithContext(context.WithValue(ctx, cancelKey{}, cancel)))
		}
	})
}

// cancelKey is where the request's context keeps the function that ends it.
type cancelKey struct{}

// passOn prepares the API server's answer.
func passOn(response *http.Response) error {
	for name := range response.Header {
		if strings.HasPrefix(name, leatPrefix) {
			response.Header.Del(name) // only the agent speaks as the agent
		}
	}
	if cancel, ok := response.Request.Context().Value(cancelKey{}).(context.CancelFunc); ok {
		response.Body = &answer{ReadCloser: response.Body, cancel: cancel}
	}
	return nil
}

// answer is a response's body. Closing one of HTTP/2 waits until the request's body has been sent, and an answer that comes
// early, such as a 413, would wait for a caller that has stopped sending because of it. So it ends the request first.
type answer struct {
	io.ReadCloser

	cancel context.CancelFunc
}

func (a *answer) Close() error {
	a.cancel()
	return a.ReadCloser.Close()
}

// rewrite makes the request for the API server: the same, under the caller's identity instead of the caller's credentials.
func rewrite(r *httputil.ProxyRequest, target *url.URL) {
	out := r.Out
	out.URL.Scheme, out.URL.Host, out.Host = target.Scheme, target.Host, ""
	base := strings.TrimRight(target.Path, "/")
	out.URL.Path = base + strings.TrimPrefix(r.In.URL.Path, kubernetesPrefix)
	if raw := r.In.URL.RawPath; raw != "" {
		out.URL.RawPath = base + strings.TrimPrefix(raw, kubernetesPrefix)
	}
	out.URL.RawQuery = r.In.URL.RawQuery // as it came; the proxy would drop what it cannot parse
	out.Header.Del("Authorization")
	out.Header.Del("Cookie")
	for name := range out.Header {
		if strings.HasPrefix(name, leatPrefix) || strings.HasPrefix(name, "X-Remote-") {
			out.Header.Del(name)
		}
	}
	dropStrangers(out.Header)
	if _, set := out.Header["User-Agent"]; !set {
		out.Header.Set("User-Agent", "") // else the transport adds its own
	}
}

// dropStrangers removes headers that look like impersonation and are none that the API server knows, so that a future
// meaning of them is not granted unseen.
func dropStrangers(header http.Header) {
	for name := range header {
		if !strings.HasPrefix(name, impersonatePrefix) {
			continue
		}
		switch {
		case name == impersonateUser, name == impersonatePrefix+"Group", name == impersonatePrefix+"Uid":
		case strings.HasPrefix(name, impersonatePrefix+"Extra-"):
		default:
			header.Del(name)
		}
	}
}

// unreachable answers in the API server's place.
func unreachable(w http.ResponseWriter, r *http.Request, err error, logger *slog.Logger) {
	if context.Cause(r.Context()) != nil {
		return // the caller is gone
	}
	logger.WarnContext(r.Context(), "request could not be passed on to the API server", slog.Any("error", err))
	writeStatus(w, http.StatusBadGateway, "CLUSTER_UNREACHABLE",
		"the agent does not reach the cluster's API server; check the cluster")
}
