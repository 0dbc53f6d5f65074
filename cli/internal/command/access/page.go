// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/runtime/crossorigin"
)

// page returns the address of a page that the hub named, to be opened in a browser. The hub may be
// broken into, or be another one than the person believes. So the page has to be a web page of the
// hub's own host, or of one that the person confirms: openers of addresses also start programs, open
// files, and take arguments.
func (i *signIn) page(address string) (*url.URL, error) {
	page, err := parsePage(address)
	if err != nil {
		return nil, failure.New(fmt.Sprintf("the hub names %q as its page: %v", address, err), "Ask the hub's operator for its address.")
	}
	if strings.EqualFold(page.Hostname(), i.server.Hostname()) ||
		page.Port() == i.server.Port() && crossorigin.IsOwnMachine(page.Hostname()) && crossorigin.IsOwnMachine(i.server.Hostname()) {
		return page, nil
	}
	isConfirmed, err := i.session.Confirm(fmt.Sprintf("The hub's page is at another host: %s. Is that the hub's?", page.Host))
	if isConfirmed || err != nil {
		return page, err
	}
	return nil, failure.New(fmt.Sprintf("the hub's page is at another host: %s", page.Host),
		"If that is the hub's, sign in there: leat login "+page.Scheme+"://"+page.Host)
}

// parsePage returns a web address: https, or http on loopback.
func parsePage(address string) (*url.URL, error) {
	page, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, errors.New("it is not an address")
	case page.Host == "" || page.User != nil:
		return nil, errors.New("want https://HOST/…")
	case page.Scheme == "https", page.Scheme == "http" && crossorigin.IsOwnMachine(page.Hostname()):
		return page, nil
	}
	return nil, errors.New("want https, or http at a loopback address")
}

// signIn is one sign-in with an identity provider.
type signIn struct {
	session  *session.Session
	server   *url.URL // of the hub
	hub      fleetv1connect.SessionServiceClient
	methods  *fleetv1.GetSignInMethodsResponse
	provider string
}
