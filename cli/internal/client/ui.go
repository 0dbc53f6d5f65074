// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"connectrpc.com/connect"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// ErrNoUI means that the program of the hub has no web UI.
var ErrNoUI = errors.New("the hub has no web UI")

// UILink is an address of a hub's web UI.
type UILink struct {
	URL string
	// Ends is when the code in the address ends; zero: the address has none, and signs nobody in.
	Ends time.Time
}

// LinkOfUI returns the address of the web UI of the hub at server. It signs the person in, in one
// browser, if they use an API token. Error: ErrNoUI.
func LinkOfUI(ctx context.Context, c *Client, server string) (UILink, error) {
	info, err := c.GetServerInfo(ctx, &fleetv1.GetServerInfoRequest{})
	if err != nil {
		return UILink{}, err
	}
	if info.GetUiUrl() == "" {
		return UILink{}, ErrNoUI
	}
	base, err := url.Parse(server)
	if err != nil {
		return UILink{}, fmt.Errorf("parse the address of the hub: %w", err)
	}
	page, err := base.Parse(info.GetUiUrl())
	if err != nil {
		return UILink{}, fmt.Errorf("parse the address of the web UI: %w", err)
	}
	made, err := c.SignIns.CreateSignInCode(ctx, &fleetv1.CreateSignInCodeRequest{})
	if code := connect.CodeOf(err); code == connect.CodePermissionDenied || code == connect.CodeUnimplemented {
		return UILink{URL: page.String()}, nil // the person has a session, or the hub is older
	}
	if err != nil {
		return UILink{}, err
	}
	page = page.JoinPath("sign-in")
	page.Fragment = url.Values{"code": {made.GetCode()}}.Encode()
	return UILink{URL: page.String(), Ends: made.GetExpireTime().AsTime()}, nil
}
