// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"golang.org/x/net/http/httpguts"
)

// Headers that carry an upgrade through HTTP/2, which has none: the hub asks for a protocol, and the agent says that the
// cluster has switched to it.
const (
	headerUpgrade       = "Leat-Upgrade"
	headerUpgradeStatus = "Leat-Upgrade-Status"
)

// hopByHop are the headers of one connection.
var hopByHop = [...]string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// isUpgrade knows requests that want to speak something else than HTTP. Who offers HTTP/2 without TLS is as content with
// HTTP/1.1.
func isUpgrade(r *http.Request) bool {
	protocol := r.Header.Get("Upgrade")
	return protocol != "" && !strings.EqualFold(protocol, "h2c") &&
		httpguts.HeaderValuesContainsToken(r.Header["Connection"], "Upgrade")
}

// checkUpgrade refuses what can never become an upgraded connection.
func (c *call) checkUpgrade() *refusal {
	switch {
	case c.r.Method == http.MethodConnect:
		return refuseUpgrade("CONNECT is no method of a Kubernetes API; use a GET or POST with an Upgrade header over HTTP/1.1")
	case c.r.ProtoMajor != 1 && (isUpgrade(c.r) || c.target.needsUpgrade()):
		return refuseUpgrade("exec, attach and port-forward upgrade their connection, which HTTP/2 has no means for; use HTTP/1.1")
	case !isUpgrade(c.r):
		return nil
	case c.target.isAgentCall():
		return refuseUpgrade("calls of the agent are not upgraded; leave the Upgrade header out")
	case c.r.ContentLength != 0:
		return refuseUpgrade("a request with an Upgrade header has no body here; send the bytes after the 101")
	}
	return nil
}

func refuseUpgrade(message string) *refusal {
	return &refusal{
		code: http.StatusBadRequest, kubeReason: "BadRequest", reason: "FIELD_INVALID", origin: originHub, message: message,
	}
}

// needsUpgrade knows the subresources of pods that are nothing without an upgrade.
func (t target) needsUpgrade() bool {
	path := strings.TrimSuffix(t.path, "/")
	switch path[strings.LastIndexByte(path, '/')+1:] {
	case "exec", "attach", "portforward":
	default:
		return false
	}
	segments := strings.Split(path, "/")
	return len(segments) == 8 && segments[1] == "api" && segments[3] == "namespaces" && segments[5] == "pods"
}

// runUpgrade carries a request that asks to speak another protocol. When the cluster agrees, the caller's connection and
// the stream to the agent are one from then on; otherwise its answer goes to the caller like any other, so that clients
// can try another protocol.
func (f *forward) runUpgrade() {
	defer f.sessions.begin()()
	defer func() { f.linger() }() // by then the request has ended and is recorded
	// The server takes a connection that was taken over for ended when it stops, and ends its context. The session has to
	// outlive that; it has an end of its own.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(f.r.Context()))
	defer cancel(nil)
	f.cause = func() error { return context.Cause(ctx) }
	f.answered = func() { cancel(errAnswered) }
	defer f.close()
	stillThere := context.AfterFunc(f.r.Context(), func() { cancel(errCallerGone) })
	defer stillThere()
	defer f.watchOver(ctx, cancel)()
	defer f.endAtDrain(ctx, cancel)()

	recording, err := f.beginRecording(ctx)
	if err != nil {
		f.refuseUnrecorded(err)
		return
	}
	defer func() { recording.End(f.outcome()) }()
	up := newUplift(recording.FromCaller, func(n int) error { return f.moved(&f.instruments.received, n) })
	// As long as the HTTP/2 client reads a body, it does not see that its request is over.
	defer context.AfterFunc(ctx, func() { _ = up.Close() })()
	defer up.Close()
	res, err := f.stream.RoundTrip(f.upgradeRequest(ctx, up))
	if err != nil {
		f.fail(f.w, f.r.WithContext(ctx), err)
		return
	}
	defer res.Body.Close()
	defer cancel(errAnswered) // first, because closing waits for the upload otherwise
	protocol, agreed := switched(res)
	if !agreed {
		defer f.cutStalled(cancel)()
		f.proxy(given{res}).ServeHTTP(f.w, f.r.WithContext(ctx)) // closes the body
		f.returned = true
		return
	}
	f.download = &download{ReadCloser: res.Body, mapError: func(err error) error { return err }, answered: f.answered, res: res}
	if stillThere() {
		header := upgradeAnswer(res, protocol)
		recording.Upgraded(protocol, header)
		f.join(ctx, cancel, header, up, recording)
	}
}

// switched returns the protocol that the cluster has agreed to speak.
func switched(res *http.Response) (protocol string, agreed bool) {
	protocol = res.Header.Get(headerUpgrade)
	return protocol, res.StatusCode == http.StatusOK && res.Header.Get(headerUpgradeStatus) == "101" && protocol != ""
}

// join makes one of the caller's connection and the stream to the agent, and returns when both have ended.
func (f *forward) join(
	ctx context.Context, cancel context.CancelCauseFunc, header http.Header, up *uplift, recording Recording,
) {
	conn, buffered, err := http.NewResponseController(f.w).Hijack()
	if err != nil {
		f.fail(f.w, f.r, fmt.Errorf("take the caller's connection over: %w", err))
		return
	}
	early, _ := buffered.Peek(buffered.Reader.Buffered()) // what is there can be had
	_ = conn.SetDeadline(time.Time{})                     // the server's; if it fails, so will what follows
	s := &splice{
		conn: conn, answer: f.download, up: up, tap: recording.FromCluster, buffers: f.buffers,
		count:    func(n int) error { return f.moved(&f.instruments.sent, n) },
		farewell: newFarewell(header.Get("Upgrade")),
	}
	f.linger = func() { s.linger(f.deps.Router.Ending(), f.deps.SessionGrace) }
	f.w.status, f.upload = http.StatusSwitchingProtocols, &up.upload
	f.returned = s.run(ctx, cancel, early, switchingProtocols(header))
	f.w.bytes = s.sent
}

// upgradeAnswer returns the headers that the caller gets with the 101.
func upgradeAnswer(res *http.Response, protocol string) http.Header {
	scrubResponse(res)
	header := res.Header
	for _, name := range hopByHop {
		header.Del(name)
	}
	header.Del("Content-Length")
	header.Set("Connection", "Upgrade")
	header.Set("Upgrade", protocol)
	return header
}

// upgradeRequest makes the agent's request of the caller's. Its body is the caller's connection, as soon as there is one.
func (f *forward) upgradeRequest(ctx context.Context, up *uplift) *http.Request {
	out := f.r.Clone(ctx)
	protocol := out.Header.Get("Upgrade")
	dropHopByHop(out.Header)
	f.address(out, f.r.URL.ForceQuery)
	out.Header.Set(headerUpgrade, protocol)
	f.deps.Propagator.Inject(ctx, propagation.HeaderCarrier(out.Header))
	if _, set := out.Header["User-Agent"]; !set {
		out.Header.Set("User-Agent", "") // else the transport adds its own
	}
	out.RequestURI, out.Close, out.TransferEncoding = "", false, nil
	out.Body, out.ContentLength = up, -1
	return out
}

func dropHopByHop(header http.Header) {
	for _, list := range header["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			header.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		header.Del(name)
	}
	header.Del("Content-Length")
}

// address turns a request towards the agent: scrubbed, under the identity that was decided, with the caller's path and
// query byte for byte.
func (f *forward) address(out *http.Request, forceQuery bool) {
	scrubRequest(out.Header)
	prefix := ""
	switch {
	case f.target.isAgentCall():
		out.Header.Set(headerSubject, f.subject)
	case f.target.isServiceCall(): // a service learns of nobody
	default:
		prefix = agentPrefix
		impersonate(out.Header, f.decision)
	}
	out.Trailer = nil // trailers could name reserved headers
	out.Host = agentHost
	// An opaque URL is written as it is; a parsed one would be escaped again, and differently.
	out.URL = &url.URL{
		Scheme: "http", Host: agentHost, Opaque: prefix + f.target.path, RawQuery: f.target.query, ForceQuery: forceQuery,
	}
}

// switchingProtocols is the answer after which the connection belongs to the two sides.
func switchingProtocols(header http.Header) []byte {
	var head bytes.Buffer
	head.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	_ = header.Write(&head) // a buffer takes everything
	head.WriteString("\r\n")
	return head.Bytes()
}

// given is a transport with an answer that has come already.
type given struct{ res *http.Response }

// RoundTrip implements http.RoundTripper.
func (g given) RoundTrip(req *http.Request) (*http.Response, error) {
	g.res.Request = req
	return g.res, nil
}
