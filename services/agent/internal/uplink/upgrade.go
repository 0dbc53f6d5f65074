// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"
)

// hopByHop are the headers of one connection.
var hopByHop = [...]string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// upgrade forwards a request to switch the protocol over the transport, and then the bytes of the new
// protocol.
func (s *server) upgrade(transport http.RoundTripper, w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	res, err := transport.RoundTrip(s.upgradeRequest(ctx, r))
	if err != nil {
		s.unreachable(w, r, err)
		return
	}
	defer res.Body.Close()
	conn, joined := res.Body.(*Joined)
	if !joined {
		s.answer(given{res}).ServeHTTP(w, r.WithContext(ctx))
		return
	}
	s.passOn(res.Header)
	header := w.Header()
	maps.Copy(header, res.Header)
	for _, name := range append([]string{"Content-Length"}, hopByHop[:]...) {
		header.Del(name)
	}
	for _, name := range []string{"Content-Type", "Date"} {
		if header[name] == nil {
			header[name] = nil // otherwise the server adds its own
		}
	}
	header.Set(headerUpgradeStatus, "101")
	header.Set(headerUpgrade, cmp.Or(res.Header.Get("Upgrade"), r.Header.Get(headerUpgrade)))
	w.WriteHeader(http.StatusOK)
	s.join(w, r, conn)
}

// upgradeRequest builds the request for the server. Its method, path and query are the caller's,
// byte for byte.
func (s *server) upgradeRequest(ctx context.Context, r *http.Request) *http.Request {
	out := r.Clone(ctx)
	protocol := out.Header.Get(headerUpgrade)
	s.rewrite(&httputil.ProxyRequest{In: r, Out: out})
	out.RequestURI = s.requestURI(r)
	for _, name := range hopByHop {
		out.Header.Del(name)
	}
	out.Header.Set("Connection", "Upgrade")
	out.Header.Set("Upgrade", protocol)
	out.Body, out.ContentLength = nil, 0
	return out
}

// join copies between the stream to the hub and the connection to the server, and returns when both
// directions have ended. The server's end ends both: HTTP/2 in Go cannot end a response while it
// still reads the request.
func (s *server) join(w http.ResponseWriter, r *http.Request, conn *Joined) {
	control := http.NewResponseController(w)
	var sending sync.WaitGroup
	sending.Go(func() { s.send(conn, r.Body) })
	err := control.Flush()
	if err == nil {
		err = s.receive(w, control, conn)
	}
	_ = conn.Close() // the sender may wait for it to read more
	if !errors.Is(err, io.EOF) {
		_ = control.SetWriteDeadline(time.Unix(1, 0)) // resets the stream, so that this is not mistaken for the end
	}
	_ = control.SetReadDeadline(time.Unix(1, 0)) // the sender may wait for the hub to send more
	sending.Wait()
}

// send copies the hub's bytes to the server, to their end.
func (s *server) send(conn *Joined, body io.Reader) {
	buffer := s.buffers.Get()
	defer s.buffers.Put(buffer)
	for {
		n, err := body.Read(buffer)
		if n > 0 {
			if _, err := conn.Write(buffer[:n]); err != nil {
				return // the server reads no more; its remaining bytes are still to be received
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			_ = conn.CloseWrite() // fails if the server is gone, which the other direction notices
			return
		case err != nil:
			_ = conn.Close() // the hub has aborted
			return
		}
	}
}

// receive copies the server's bytes to the hub, to their end, which is io.EOF, or to a failure of
// one side.
func (s *server) receive(w io.Writer, control *http.ResponseController, conn *Joined) error {
	buffer := s.buffers.Get()
	defer s.buffers.Put(buffer)
	for {
		n, err := conn.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return err
			}
			if err := control.Flush(); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// given is a transport with an answer that has already arrived.
type given struct{ res *http.Response }

// RoundTrip implements http.RoundTripper.
func (g given) RoundTrip(req *http.Request) (*http.Response, error) {
	g.res.Request = req
	return g.res, nil
}
