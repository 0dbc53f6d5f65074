// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package notifysink sends messages to receivers: to chats and endpoints over HTTP, to forges as
// statuses of commits, and to mail servers.
//
// # Promises
//
// Every attempt ends within [callTimeout] and reads little of what the receiver answers. Addresses of
// the hub's own machine and link are not dialled, nor private networks where the operator refuses
// them; the check is made on the address that a name leads to. Redirects are not followed. No error and
// no answer holds a secret of the notifier.
package notifysink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// callTimeout bounds an attempt, dialTimeout a connection.
	callTimeout = 15 * time.Second
	dialTimeout = 5 * time.Second
	// maxAnswer bounds the size of an answer, maxHeader its headers.
	maxAnswer = 1 << 10
	maxHeader = 64 << 10
)

// Params are the settings of Sinks.
type Params struct {
	// Guard decides which addresses may be dialled.
	Guard dialguard.Guard
	// IsPrivate reports whether a network is one that not everybody reaches. Of a receiver there, people
	// see the status and no body. Nil: dialguard.Private.
	IsPrivate func(address netip.Addr) bool
	// Source is the source in messages, such as the hub's public URL.
	Source string
	// Pages are the pages of the web UI that messages link to.
	Pages Pages
	// Now returns the time; nil: the system's.
	Now func() time.Time
}

// Sinks sends messages. It is safe for concurrent use.
type Sinks struct{ p Params }

var _ notify.Sink = (*Sinks)(nil)

// New returns Sinks.
func New(p Params) *Sinks {
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.IsPrivate == nil {
		p.IsPrivate = dialguard.Private
	}
	return &Sinks{p: p}
}

// Send implements notify.Sink.
func (s *Sinks) Send(ctx context.Context, d notify.Delivery) (answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	switch d.Notifier.Spec.Sink.Type {
	case catalog.SinkSlack:
		answer, err = s.slack(ctx, d)
	case catalog.SinkWebhook:
		answer, err = s.webhook(ctx, d)
	case catalog.SinkCommitStatus:
		answer, err = s.status(ctx, d)
	case catalog.SinkEmail:
		answer, err = s.email(ctx, d)
	default:
		err = &notify.RefusedError{Message: "this version of the hub does not know the sink", Permanent: true}
	}
	return withoutSecrets(d.Secrets, answer), cleaned(d.Secrets, err)
}

// tlsConfig returns how the notifier's sink is verified.
func tlsConfig(n *catalog.Notifier) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if n.Spec.CAPEM != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(n.Spec.CAPEM)) {
			return nil, &notify.RefusedError{Message: "spec.caPem holds no certificate", Permanent: true}
		}
	}
	return config, nil
}

// newClient returns the client for one attempt. It keeps no connection.
func (s *Sinks) newClient(n *catalog.Notifier) (*http.Client, error) {
	config, err := tlsConfig(n)
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: s.dialer().DialContext, TLSClientConfig: config, TLSHandshakeTimeout: dialTimeout,
			MaxResponseHeaderBytes: maxHeader, DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// isOpen reports whether people may see what a receiver at an address answers: everybody could ask it,
// because its network is not private. An address that is not known, such as one behind a proxy, is not.
func (s *Sinks) isOpen(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && !s.p.IsPrivate(tcp.AddrPort().Addr())
}

func (s *Sinks) dialer() *net.Dialer {
	return &net.Dialer{Timeout: dialTimeout, Control: s.p.Guard.Control}
}

// cleaned returns an error without the URL that net/http puts into it, and without secrets.
func cleaned(secrets catalog.NotifierSecrets, err error) error {
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*notify.RefusedError](err); ok {
		return &notify.RefusedError{Message: withoutSecrets(secrets, refused.Message), Permanent: refused.Permanent, RetryAfter: refused.RetryAfter}
	}
	for wrapped := (*url.Error)(nil); errors.As(err, &wrapped); {
		err = wrapped.Err
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the receiver did not answer within %s", callTimeout)
	case errors.Is(err, dialguard.ErrLocal), errors.Is(err, dialguard.ErrPrivate):
		return &notify.RefusedError{Message: "the sink's name leads to " + withoutSecrets(secrets, rootOf(err)) + ", which the hub does not dial", Permanent: true}
	}
	return errors.New(withoutSecrets(secrets, err.Error()))
}

// rootOf returns the text of dialguard's error.
func rootOf(err error) string {
	if errors.Is(err, dialguard.ErrPrivate) {
		return dialguard.ErrPrivate.Error()
	}
	return dialguard.ErrLocal.Error()
}

// withoutSecrets returns a text without the secrets of a notifier, which a receiver may have put into
// its answer.
func withoutSecrets(s catalog.NotifierSecrets, text string) string {
	known := []secret.Text{s.URL, s.HMACKey, s.Token, s.Password}
	if u, err := url.Parse(s.URL.Reveal()); err == nil {
		known = append(known, secret.Text(u.RequestURI()), secret.Text(u.EscapedPath()), secret.Text(u.Path), secret.Text(u.RawQuery))
	}
	for _, one := range known {
		if len(one) > 1 {
			text = strings.ReplaceAll(text, one.Reveal(), "…")
		}
	}
	return text
}
