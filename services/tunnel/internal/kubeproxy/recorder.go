// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"context"
	"net/http"

	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/services/tunnel/internal/kubeapi"
)

// Recorder decides which upgraded connections, such as exec, are recorded.
type Recorder interface {
	// Begin is called before anything is sent to the cluster. Nil, nil means that this one is not
	// recorded. An error refuses the request: what has to be recorded and cannot be does not
	// happen.
	Begin(ctx context.Context, s Session) (Recording, error)
	// Evades reports whether a request, upgraded or not, must be refused because its session has to
	// be recorded and cannot be.
	Evades(method string, asked kubeapi.Attributes, upgraded bool) bool
}

// Session is an upgraded connection that is about to begin.
type Session struct {
	// ID is the ID of its audit records.
	ID string
	// Subject is the person, and User and Groups whom the cluster sees.
	Subject string
	User    string
	Groups  []string
	// Cluster is the cluster's name.
	Cluster string
	// Method, Path and Query are sent to the API server, byte for byte.
	Method string
	Path   string
	Query  string
	// Header is the caller's request's. It must not be changed or kept, and holds the caller's
	// token.
	Header http.Header
}

// Recording sees the bytes of one connection, as they are on the wire of the protocol that was
// agreed on. FromCaller and FromCluster run at the same time as each other, each in order; nothing
// else of one recording does.
type Recording interface {
	// Upgraded is called once the cluster has agreed, and before the first byte. The protocol is from
	// its Upgrade header, such as "websocket" or "SPDY/3.1", and header is its answer's, where the
	// subprotocol is.
	Upgraded(protocol string, header http.Header)
	// FromCaller and FromCluster receive every byte before it is passed on. They must not keep the
	// slice. The connection waits while they run, and ends if they return an error.
	FromCaller(p []byte) error
	FromCluster(p []byte) error
	// End is called exactly once and last, whether there was an upgrade or not.
	End(outcome audit.Outcome)
}

// unrecorded is the recording of a connection that is not recorded.
type unrecorded struct{}

var _ Recording = unrecorded{}

func (unrecorded) Upgraded(string, http.Header) {}
func (unrecorded) FromCaller([]byte) error      { return nil }
func (unrecorded) FromCluster([]byte) error     { return nil }
func (unrecorded) End(audit.Outcome)            {}
