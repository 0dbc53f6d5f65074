// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
)

// errOther means that the agent's token is another cluster's, or from before its key was revoked.
var errOther = errors.New("agent's token is not that of the cluster that was dialled")

// Adopt makes a connection that this replica has opened to a cluster's agent one like a connection
// that an agent opens: by the headers of its answer the agent is admitted as by the headers of its
// own request, and the hub begins HTTP/2. The connection is closed when it fails.
func (h *Handler) Adopt(ctx context.Context, conn net.Conn, header http.Header, cluster, uid string) (*Conn, error) {
	info, err := h.admit(ctx, header, conn.RemoteAddr().String())
	if err == nil && (info.Cluster != cluster || info.ClusterUID != uid) {
		err = errOther
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("admit agent: %w", err), conn.Close())
	}
	info.Transport = transportDialled
	return h.begin(ctx, conn, nil, info)
}
