// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/leatdev/leat/cli/internal/kubeconfig"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/fleetcalls"
	"github.com/leatdev/leat/internal/identity"
)

// reachTimeout bounds how long leat up waits for a cluster's agent to connect to the tunnel.
const reachTimeout = 90 * time.Second

// reachClusters waits until every cluster answers through the tunnel, because the printed commands
// must work when they are pasted, and the catalog's state of a service is current only once its
// agent is connected.
func (u *up) reachClusters(ctx context.Context) error {
	token, err := u.client.CreateAccessToken(ctx, &fleetv1.CreateAccessTokenRequest{Audience: identity.ServiceTunnel})
	if err != nil {
		return fmt.Errorf("get an access token: %w", err)
	}
	httpClient, err := u.httpClient()
	if err != nil {
		return err
	}
	defer httpClient.CloseIdleConnections()
	for i := range u.clusters {
		if err := u.reach(ctx, httpClient, token.GetAccessToken(), u.clusters[i].Name); err != nil {
			return err
		}
	}
	return nil
}

func (u *up) reach(ctx context.Context, c *http.Client, token, cluster string) error {
	part := "cluster " + cluster
	u.tell(part, "waiting for its agent")
	limited, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	last := poll(limited, 100*time.Millisecond, func() error {
		if err := u.connected(limited, cluster); err != nil {
			return err
		}
		return probe(limited, c, kubeconfig.ServerURL(u.tunnelURL(), cluster)+"/version", token)
	})
	switch {
	case last == nil:
		u.tell(part, "reached through the tunnel")
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		u.tell(part, fmt.Sprintf("not reached through the tunnel yet (%v); see %s", last, u.dir.Log("agent "+cluster)))
	}
	return nil
}

// connected returns nil once the catalog reports that the agent is connected. The tunnel caches for
// a while what it learnt of a cluster, so it is not asked earlier.
func (u *up) connected(ctx context.Context, cluster string) error {
	response, err := fleetcalls.Get[*fleetv1.Cluster](ctx, u.client, cluster)
	if err != nil {
		return err
	}
	if !response.GetStatus().GetConnected() {
		return errors.New("its agent is not connected")
	}
	return nil
}

// probe makes one request like a user's.
func probe(ctx context.Context, c *http.Client, url, token string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", response.Status)
	}
	return nil
}
