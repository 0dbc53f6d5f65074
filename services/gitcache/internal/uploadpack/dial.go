// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"context"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Dial opens a session. Nothing is sent before the guard has agreed.
func (c *Client) Dial(ctx context.Context, p mirror.FetchParams) (*Session, error) {
	t, err := c.target(p.Definition)
	if err != nil {
		return nil, err
	}
	if t.isSSH() {
		s, err := c.dialSSH(ctx, p, t, "git-upload-pack "+shellQuote(t.endpoint.Path))
		if err != nil {
			return nil, err
		}
		return newSession(s, c.config.Agent, c.config.Version2), nil
	}
	carrier, err := c.newAuthorizer(t, p, true)
	if err != nil {
		return nil, err
	}
	return newSession(newHTTPChannel(carrier, c.config.Agent, c.config.Version2), c.config.Agent, c.config.Version2), nil
}
