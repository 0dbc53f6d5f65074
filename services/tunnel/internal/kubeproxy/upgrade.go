// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"
)

// Headers that carry an upgrade through HTTP/2, which has none. The hub asks for a protocol, and
// the agent confirms that the cluster has switched to it.
const (
	headerUpgrade       = "Leat-Upgrade"
	headerUpgradeStatus = "Leat-Upgrade-Status"
)

// hopByHop are the headers of one connection.
var hopByHop = [...]string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// runUpgrade carries a request that asks to speak another protocol. If the cluster agrees, the
// caller's connection and the stream to the agent are one from then on. Otherwise the cluster's
// answer goes to the caller like any other, so that clients can try another protocol.
func (x *exchange) runUpgrade() {
	defer x.handler.sessions.begin()()
	defer func() { x.linger() }() // by then the request has ended and is recorded
	// When the server stops, it ends the context of a connection that was taken over. The session
	// must outlive that. It has an end of its own.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(x.request.in.Context()))
	defer cancel(nil)
	x.cause = func() error { return context.Cause(ctx) }
	x.answered = func() { cancel(errAnswered) }
	defer x.close()
	isCallerThere := context.AfterFunc(x.request.in.Context(), func() { cancel(errCallerGone) })
	defer isCallerThere()
	defer x.watchOver(ctx, cancel)()
	// Unlike a watch, a session cannot be begun again where it was. It may continue as long as
	// possible.
	defer endAtDrain(ctx, cancel, x.handler.deps.Router.Ending(), x.handler.deps.SessionGrace)()

	recording, err := x.beginRecording(ctx)
	if err != nil {
		x.handler.deps.Logger.ErrorContext(ctx, "session cannot be recorded", slog.String("error", err.Error()))
		x.giveUp(refuseUnrecordedSession())
		return
	}
	defer func() { recording.End(x.outcome()) }()
	up := newUpgradeBody(recording.FromCaller, x.traffic.receive)
	// As long as the HTTP/2 client reads a body, it does not notice that its request is over.
	defer context.AfterFunc(ctx, func() { _ = up.Close() })()
	defer up.Close()
	res, err := x.RoundTrip(x.upgradeRequest(ctx, up))
	if err != nil {
		x.fail(x.answer, x.request.in.WithContext(ctx), err)
		return
	}
	defer res.Body.Close()
	defer cancel(errAnswered) // first, because closing waits for the upload otherwise
	protocol, agreed := switched(res)
	if !agreed {
		defer x.cutStalled(cancel)()
		x.proxy(given{res}).ServeHTTP(x.answer, x.request.in.WithContext(ctx)) // closes the body
		x.isWritten = true
		return
	}
	x.download = &download{ReadCloser: res.Body, mapError: func(err error) error { return err }, answered: x.answered, res: res}
	if isCallerThere() {
		header := upgradeAnswer(res, protocol)
		recording.Upgraded(protocol, header)
		x.join(ctx, cancel, header, up, recording)
	}
}

// beginRecording returns the recording of a session. It never returns nil without an error.
func (x *exchange) beginRecording(ctx context.Context) (Recording, error) {
	r := x.request
	if x.handler.deps.Recorder == nil {
		return unrecorded{}, nil
	}
	recording, err := x.handler.deps.Recorder.Begin(ctx, Session{
		ID: r.id, Subject: r.subject, User: r.decision.User, Groups: r.decision.Groups,
		Cluster: r.target.cluster, Method: r.in.Method, Path: r.target.path, Query: r.target.query, Header: r.in.Header,
	})
	if err == nil && recording == nil {
		return unrecorded{}, nil
	}
	return recording, err
}

// switched returns the protocol that the cluster has agreed to speak.
func switched(res *http.Response) (protocol string, agreed bool) {
	protocol = res.Header.Get(headerUpgrade)
	return protocol, res.StatusCode == http.StatusOK && res.Header.Get(headerUpgradeStatus) == "101" && protocol != ""
}

// join connects the caller's connection with the stream to the agent, and returns when both have
// ended.
func (x *exchange) join(
	ctx context.Context, cancel context.CancelCauseFunc, header http.Header, up *upgradeBody, recording Recording,
) {
	conn, buffered, err := http.NewResponseController(x.answer).Hijack()
	if err != nil {
		x.fail(x.answer, x.request.in, fmt.Errorf("take the caller's connection over: %w", err))
		return
	}
	early, _ := buffered.Peek(buffered.Reader.Buffered()) // never fails for bytes that are buffered
	_ = conn.SetDeadline(time.Time{})                     // the server's; if it fails, so will what follows
	s := &splice{
		conn: conn, answer: x.download, up: up, tap: recording.FromCluster, buffers: x.handler.buffers,
		count:    x.traffic.send,
		farewell: newFarewell(header.Get("Upgrade")),
	}
	x.linger = func() { s.linger(x.handler.deps.Router.Ending(), x.handler.deps.SessionGrace) }
	x.answer.status, x.upload = http.StatusSwitchingProtocols, &up.upload
	x.isWritten = s.run(ctx, cancel, early, switchingProtocols(header))
	x.answer.bytes = s.sent
}

// upgradeAnswer returns the headers that the caller gets with the 101.
func upgradeAnswer(res *http.Response, protocol string) http.Header {
	scrubResponse(res)
	header := res.Header
	dropHopByHop(header)
	header.Set("Connection", "Upgrade")
	header.Set("Upgrade", protocol)
	return header
}

// upgradeRequest returns the agent's request for the caller's. Its body is the caller's connection,
// as soon as there is one.
func (x *exchange) upgradeRequest(ctx context.Context, up *upgradeBody) *http.Request {
	out := x.request.in.Clone(ctx)
	protocol := out.Header.Get("Upgrade")
	dropHopByHop(out.Header)
	x.request.address(out)
	out.Header.Set(headerUpgrade, protocol)
	x.handler.deps.Propagator.Inject(ctx, propagation.HeaderCarrier(out.Header))
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

// switchingProtocols returns the answer after which the connection belongs to the two sides.
func switchingProtocols(header http.Header) []byte {
	var head bytes.Buffer
	head.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	_ = header.Write(&head) // a buffer never fails
	head.WriteString("\r\n")
	return head.Bytes()
}

// given is a transport with an answer that has already arrived.
type given struct{ res *http.Response }

// RoundTrip implements http.RoundTripper.
func (g given) RoundTrip(req *http.Request) (*http.Response, error) {
	g.res.Request = req
	return g.res, nil
}
