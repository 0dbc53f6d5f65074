// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"context"
	"net/http"

	"github.com/leatdev/leat/services/tunnel/internal/fanin"
	"github.com/leatdev/leat/services/tunnel/internal/relay"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// stream is the right to send one request to a cluster.
type stream interface {
	http.RoundTripper
	// Connection is the id of the agent's connection that carries the request, as far as it is known.
	Connection() string
	// Release gives the right back.
	Release()
}

// open obtains the right to send the request.
func (c *call) open() (stream, error) {
	if c.deps.FanIn != nil && c.r.Method == http.MethodGet && c.target.isResourceWatch() {
		return c.openShared()
	}
	return c.openStream(c.r.Context(), c.subject)
}

// openStream obtains a stream of one's own. Without a user nobody's limit is charged.
func (c *call) openStream(ctx context.Context, user string) (stream, error) {
	s, err := c.deps.Router.Open(ctx, relay.Target{
		Target:  session.Target{Cluster: c.target.cluster, ClusterUID: c.decision.ClusterUID, User: user},
		Endless: c.target.isEndless(), Watch: c.target.isWatch(),
	})
	if err != nil {
		return nil, err // and no stream, which a nil pointer would look like
	}
	return s, nil
}

// openShared opens a watch that several viewers may share. The person is charged for it as for a watch of their own,
// until the watch has ended or other viewers share it. The cluster is charged once for all of them.
func (c *call) openShared() (stream, error) {
	release, err := c.deps.Router.Charge(c.subject)
	if err != nil {
		return nil, err
	}
	return c.deps.FanIn.Watch(c.target.cluster+" "+c.decision.ClusterUID, func(ctx context.Context) (fanin.Upstream, error) {
		return c.openStream(ctx, "")
	}, release), nil
}

// isResourceWatch knows the watches of an API server's resources. What is proxied to a service, a pod or a node may look
// like a watch and mean something else each time.
func (t target) isResourceWatch() bool {
	return t.isWatch() && t.attributes.Resource != "" && t.attributes.Subresource == ""
}
