// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package cloud trades the identity that a service's pod has at AWS, Google Cloud or Azure for
// credentials there: temporary keys or an access token. It also makes the bounded calls with which
// that is done, for callers that continue with another service of the cloud.
//
// Its promises:
//
//   - The pod's token and what it is traded for go only to services of the cloud, or to the ones that the
//     environment names, by https; to the node itself also without.
//   - Answers, files, times and quotations of a cloud's messages are bounded. No redirect is
//     followed.
//   - Errors are [*Error], with what the cloud said and what to do. They hold no token.
//
// Requests take the proxy of the environment and the system's certificates. Requests to the node
// itself, such as those to a metadata server, take no proxy.
//
// There is no SDK of a cloud behind it (ADR 0045). It keeps nothing: who calls often remembers what
// was given. Files call one another downwards: cloud; aws, gcp, azure; call; config.
package cloud

import (
	"net/http"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
)

// Params are the parts of an [Identity].
type Params struct {
	Config Config
	// Caller names the service that has the identity in messages, such as "gitcache" or "the
	// distributor".
	Caller string
	// Prefix begins the service's own settings: the prefix of [Config.Bind].
	Prefix string
	// GoogleRole is the role that the account needs at Google, in messages.
	GoogleRole string
	// Now returns the time. Nil: time.Now.
	Now func() time.Time
}

// Identity is a pod's identity at the clouds. It is immutable: all methods may be called
// concurrently.
type Identity struct {
	params Params
	// outside takes requests to services anywhere, node those to the node itself.
	outside, node http.RoundTripper
}

// New returns the identity that the environment describes. It sends nothing. The error names the
// setting that cannot be used.
func New(p Params) (*Identity, error) {
	p.Config = p.Config.completed()
	if err := p.Config.Check(p.Prefix); err != nil {
		return nil, err
	}
	if p.Now == nil {
		p.Now = time.Now
	}
	return &Identity{params: p, outside: newTransport(http.ProxyFromEnvironment), node: newTransport(nil)}, nil
}

// Token is an access token, and when it ends.
type Token struct {
	Text secret.Text
	Ends time.Time
}

// Call returns a call to another service of a cloud, which takes the way that calls to token services
// take.
func (i *Identity) Call(service, advice string, hidden ...string) Call {
	return Call{Service: service, Caller: i.params.Caller, Advice: advice, Carrier: i.outside, Hidden: hidden}
}

// atNode returns a call to the node itself.
func (i *Identity) atNode(service, advice string, hidden ...string) Call {
	c := i.Call(service, advice, hidden...)
	c.Carrier = i.node
	return c
}
