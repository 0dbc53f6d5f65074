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

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/kubeconfig"
	"github.com/leatdev/leat/cli/internal/up/report"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/identity"
)

// reachTimeout bounds how long leat up waits for a cluster's agent to connect to the tunnel.
const reachTimeout = 90 * time.Second

// prober finds out whether clusters can be reached through the tunnel.
type prober struct {
	*base

	hub    *hub
	client *client.Client
}

// awaitAll waits until every cluster answers through the tunnel, because the printed commands
// must work when they are pasted, and the catalog's state of a service is current only once its
// agent is connected.
func (p *prober) awaitAll(ctx context.Context, clusters []report.Cluster) error {
	token, err := p.client.CreateAccessToken(ctx, &fleetv1.CreateAccessTokenRequest{Audience: identity.ServiceTunnel})
	if err != nil {
		return fmt.Errorf("get an access token: %w", err)
	}
	httpClient, err := p.hub.httpClient()
	if err != nil {
		return err
	}
	defer httpClient.CloseIdleConnections()
	for i := range clusters {
		if err := p.reach(ctx, httpClient, token.GetAccessToken(), clusters[i].Name); err != nil {
			return err
		}
	}
	return nil
}

func (p *prober) reach(ctx context.Context, c *http.Client, token, cluster string) error {
	part := "cluster " + cluster
	p.tell(part, "waiting for its agent")
	limited, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	last := poll(limited, 100*time.Millisecond, func() error {
		if err := p.connected(limited, cluster); err != nil {
			return err
		}
		return probe(limited, c, kubeconfig.ServerURL(p.hub.tunnelURL(), cluster)+"/version", token)
	})
	switch {
	case last == nil:
		p.tell(part, "reached through the tunnel")
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		p.tell(part, fmt.Sprintf("not reached through the tunnel yet (%v); see %s", last, p.dir.Log("agent "+cluster)))
	}
	return nil
}

// connected returns nil once the catalog reports that the agent is connected. The tunnel caches for
// a while what it learnt of a cluster, so it is not asked earlier.
func (p *prober) connected(ctx context.Context, cluster string) error {
	response, err := fleetcalls.Get[*fleetv1.Cluster](ctx, p.client, cluster)
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
