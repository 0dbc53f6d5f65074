// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package hop carries requests from the replica that was called to the one that has the agent's
// connection.
//
// The first replica has authenticated, decided and recorded the request. It sends exactly what the
// agent is to receive, over HTTP/2, under the identity of its service. The second replica uses its
// own connections only: there is no second hop. docs/reference/protocol/tunnel.md describes the
// wire.
package hop

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http2"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/services/tunnel/internal/relay"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// Prefix begins the path of every hop; what follows is the agent's.
const Prefix = "/tunnel/v1/hop"

// ServiceName is the service name in the tokens of replicas.
const ServiceName = identity.ServiceTunnel

// agentHost is the name that requests carry to an agent.
const agentHost = "kubernetes"

// Headers of a hop. No agent receives them, and headers of these names that an agent sends are
// removed.
const (
	// headerHop marks the request and the answer, with the id of the replica that sends it.
	headerHop        = "Leat-Hop"
	headerCluster    = "Leat-Hop-Cluster"
	headerClusterUID = "Leat-Hop-Cluster-Uid"
	// headerEnds is how the answer may be ended: see the values below.
	headerEnds = "Leat-Hop-Ends"
	// headerError is why the agent has not answered. headerDetail has details.
	headerError  = "Leat-Hop-Error"
	headerDetail = "Leat-Hop-Detail"
)

const (
	endsWatch   = "watch"   // without an error, as API servers end watches
	endsEndless = "endless" // by breaking it off
)

// Why the agent has not answered.
const (
	errorNotHere = "not-here" // nothing was sent
	errorFull    = "full"     // nothing was sent
	errorBusy    = "busy"     // nothing was sent; the detail is the limit
	errorLost    = "lost"     // the connection was lost before a byte of the answer
	errorStream  = "stream"   // the agent broke the request off; the detail is HTTP/2's code
	errorFailed  = "failed"   // the detail has the reason
	errorRefused = "refused"  // the hop itself is not valid; the detail has the reason
)

// Matches reports whether a request is a hop. It reads the path as it was sent.
func Matches(r *http.Request) bool { return strings.HasPrefix(r.RequestURI, Prefix+"/") }

// writeError answers in place of an agent that did not answer.
func writeError(w http.ResponseWriter, self string, err error) {
	code, status, detail := describe(err)
	header := w.Header()
	header.Set(headerHop, self)
	header.Set(headerError, code)
	if detail != "" {
		header.Set(headerDetail, detail)
	}
	w.WriteHeader(status)
}

func describe(err error) (code string, status int, detail string) {
	var busy *session.BusyError
	var stream http2.StreamError
	switch {
	case errors.As(err, &busy):
		return errorBusy, http.StatusTooManyRequests, strconv.Itoa(busy.Limit)
	case errors.Is(err, session.ErrFull):
		return errorFull, http.StatusTooManyRequests, ""
	case errors.Is(err, session.ErrOffline), errors.Is(err, session.ErrDraining), errors.Is(err, session.ErrRefused):
		return errorNotHere, http.StatusMisdirectedRequest, ""
	case errors.Is(err, session.ErrLost):
		return errorLost, http.StatusBadGateway, ""
	case errors.As(err, &stream):
		return errorStream, http.StatusBadGateway, strconv.FormatUint(uint64(stream.Code), 10)
	}
	return errorFailed, http.StatusBadGateway, sanitize(err.Error())
}

// readError reads the error that writeError wrote. It returns nil for an answer of the agent.
func readError(header http.Header) error {
	code, detail := header.Get(headerError), header.Get(headerDetail)
	switch code {
	case "":
		return nil
	case errorNotHere:
		return relay.ErrNotHere
	case errorFull:
		return session.ErrFull
	case errorBusy:
		limit, _ := strconv.Atoi(detail)
		return &session.BusyError{Scope: session.ScopeCluster, Limit: limit}
	case errorLost:
		return fmt.Errorf("at another replica: %w", session.ErrLost)
	case errorStream:
		number, _ := strconv.ParseUint(detail, 10, 32)
		return http2.StreamError{Code: http2.ErrCode(number)}
	case errorRefused:
		return fmt.Errorf("%w: it refuses the hop: %s", relay.ErrUnreachable, detail)
	}
	return fmt.Errorf("at another replica: %s", detail)
}

// sanitize turns a text into the value of a header.
func sanitize(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), 500)]
}

// scrub removes a hop's headers.
func scrub(header http.Header) {
	for name := range header {
		if strings.HasPrefix(name, headerHop) {
			delete(header, name)
		}
	}
}
