// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/leatdev/leat/cli/internal/settings"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/runtime/identity"
)

// reserve is how long before its end a cached token is replaced: kubectl obtains a token before it
// makes a request, which may then wait for a while.
const reserve = 5 * time.Minute

// AccessToken returns a token from cacheDir, or a new one that it stores there, readable only by
// its owner. A cache that cannot be used only costs time. Each API token has its own cached tokens.
// A session and a workload keep their access tokens themselves.
func (c *Client) AccessToken(ctx context.Context, cacheDir string) (AccessToken, error) {
	if c.params.Token == "" && c.params.Session != nil {
		return c.params.Session.AccessToken(ctx, identity.ServiceTunnel)
	}
	if c.params.Token == "" && c.params.Workload != nil {
		return c.params.Workload.AccessToken(ctx, identity.ServiceTunnel)
	}
	path := filepath.Join(cacheDir, cacheName(c.params.Server, c.params.Token))
	if kept, ok := readCached(path, time.Now()); ok {
		return kept, nil
	}
	response, err := c.CreateAccessToken(ctx, &fleetv1.CreateAccessTokenRequest{Audience: identity.ServiceTunnel})
	if err != nil {
		return AccessToken{}, err
	}
	token := AccessToken{Token: response.GetAccessToken(), Expires: response.GetExpireTime().AsTime()}
	content, err := json.Marshal(token)
	if err != nil {
		return AccessToken{}, fmt.Errorf("store access token: %w", err)
	}
	_ = settings.WriteFile(path, content) // without the file the next call requests a new token
	return token, nil
}

// cacheName distinguishes the tokens of different people and hubs without revealing either.
func cacheName(server, apiToken string) string {
	sum := sha256.Sum256([]byte(server + "\x00" + identity.ServiceTunnel + "\x00" + apiToken))
	return hex.EncodeToString(sum[:16]) + ".json"
}

func readCached(path string, now time.Time) (token AccessToken, ok bool) {
	content, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(content, &token) != nil {
		return AccessToken{}, false
	}
	return token, token.Token != "" && now.Add(reserve).Before(token.Expires)
}
