// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/services/gitcache/internal/githubapp"
	"github.com/leatdev/leat/services/gitcache/internal/memory"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack/route"
)

// Fetch runs one fetch, and turns its failure into what [mirror.Upstream] promises.
func Fetch(ctx context.Context, p mirror.FetchParams, fetch func(context.Context, mirror.FetchParams) (mirror.Content, error)) (mirror.Content, error) {
	c, err := fetch(ctx, p)
	if err == nil {
		return c, nil
	}
	if gone := p.Guard(); gone != nil {
		return mirror.Content{}, gone
	}
	if ctx.Err() != nil {
		return mirror.Content{}, fmt.Errorf("fetch: %w", context.Cause(ctx))
	}
	return mirror.Content{}, explain(err, p.Definition)
}

// Explain returns a failure under a [Client.Carrier] or of [Client.LFS] as an
// *mirror.UpstreamError. A *mirror.QuietError, which means that nothing was sent, stays as it is.
func (c *Client) Explain(err error, def mirror.Definition) error { return explain(err, def) }

// explain is the one place where failures of the network, of protocols and of libraries become
// reasons.
func explain(err error, def mirror.Definition) error {
	if quiet, ok := errors.AsType[*mirror.QuietError](err); ok {
		return quiet
	}
	if already, ok := errors.AsType[*mirror.UpstreamError](err); ok {
		return already
	}
	e := &mirror.UpstreamError{Cause: err}
	if own, ok := errors.AsType[problemError](err); ok {
		e.Reason, e.Message = own.problem()
	} else {
		e.Reason, e.Message = classify(err, def)
	}
	if status, ok := errors.AsType[*statusError](err); ok {
		e.RetryAfter = status.retryAfter
	}
	if refused, ok := errors.AsType[*githubapp.RefusedError](err); ok {
		e.RetryAfter = retryAfter(refused.Header)
	}
	// Without a credential there is none to replace.
	if e.Reason == reason.UpstreamAuthRejected && def.Credential.Method == upstream.MethodNone {
		e.Message = "The upstream asks for a credential; add one to the repository's spec."
		if def.ParentUID != "" {
			e.Message = "The submodule's host asks for a credential. That of the repository is used in its own folder at its own host; for others an " +
				"operator can add one to gitcache-credentials-file, or name the folder in gitcache-submodule-credentials."
		}
	}
	e.Message += quoted(err, def)
	return e
}

const proxyMessage = "The proxy does not lead to the upstream; check proxy_url, its credentials and its rules. Leat retries automatically."

// classify finds the reason of an error that is not a [problemError]. Errors are wrapped in one
// another, so the more telling ones come first.
func classify(err error, def mirror.Definition) (reason.Reason, string) {
	if field, ok := errors.AsType[*mirror.FieldError](err); ok {
		return reason.UpstreamProtocol, "The definition cannot be used: " + field.Error()
	}
	isGuarded := errors.Is(err, dialguard.ErrLocal) || errors.Is(err, dialguard.ErrPrivate)
	switch {
	case isGuarded && def.PublicOnly:
		return reason.UpstreamUnreachable, "The repository leads to an address of the hub's own machine or network, and was written by somebody who may not " +
			"create repositories of the hub. Ask somebody who may to apply it, or ask an operator to list the network in gitcache-allow-networks."
	case isGuarded:
		return reason.UpstreamUnreachable, "A submodule's URL, a redirect, an LFS server or a chart's archive leads to an address of the hub's own " +
			"machine or network, which only the URL that an administrator wrote may; correct it, or see gitcache-allow-local-upstreams."
	case errors.Is(err, route.ErrProxy):
		return reason.UpstreamUnreachable, proxyMessage
	case errors.Is(err, syscall.ENOSPC):
		return reason.StorageFull, "The mirror's disk is full; an operator must give it room."
	}
	if large, ok := errors.AsType[*memory.TooLargeError](err); ok {
		return reason.Internal, fmt.Sprintf("Indexing the pack that the upstream sent takes about %d MiB of memory, and only %d MiB may be "+
			"used; an operator must raise gitcache-memory.", large.Need>>20, large.Limit>>20)
	}
	if beyond, ok := errors.AsType[*pack.LimitError](err); ok {
		return reason.UpstreamProtocol, fmt.Sprintf("The pack that the upstream sent needs %d %s, and may have %d; have its host pack the repository "+
			"again, as `git repack -a -d -f --depth=50` does, or remove the large content from it.", beyond.Need, beyond.What, beyond.Limit)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "proxyconnect" { // net/http's own way through a proxy
		return reason.UpstreamUnreachable, proxyMessage
	}
	if refused, ok := errors.AsType[*githubapp.RefusedError](err); ok {
		return classifyApp(refused)
	}
	if remote, ok := errors.AsType[*net.OpError](err); ok && remote.Op == "remote error" && strings.Contains(remote.Error(), "certificate") {
		return reason.UpstreamAuthRejected,
			"The upstream asks for a client certificate and does not accept ours; check client_certificate in the repository's credential."
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return reason.Internal, "The mirror's folder cannot be used; the log of the owning replica says why."
	}
	switch {
	case errors.Is(err, ErrBroken), errors.Is(err, pack.ErrEmpty):
		return reason.UpstreamProtocol, "The upstream does not answer with the Git protocol; check the URL."
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return reason.UpstreamProtocol, "The upstream broke off in the middle of its answer; Leat retries automatically."
	}
	return classifyNetwork(err, def)
}

// classifyApp finds the reason of an answer of GitHub's API, which gives no token.
func classifyApp(e *githubapp.RefusedError) (reason.Reason, string) {
	if e.Status == http.StatusTooManyRequests {
		return reason.UpstreamRateLimited, e.Host + " asks to slow down; Leat obeys and retries automatically."
	}
	if e.Status >= http.StatusInternalServerError {
		return reason.UpstreamUnreachable,
			fmt.Sprintf("%s gives no installation token at the moment (HTTP status %d); Leat retries automatically.", e.Host, e.Status)
	}
	return reason.UpstreamAuthRejected, fmt.Sprintf("%s gives no installation token (HTTP status %d); check app id, installation id, "+
		"private key and API URL of the GitHub App.", e.Host, e.Status)
}

// classifyNetwork finds the reason of an error of TLS, DNS or a connection.
func classifyNetwork(err error, def mirror.Definition) (reason.Reason, string) {
	if isUntrusted(err) {
		return reason.UpstreamUnreachable,
			"The upstream's certificate is not trusted; put the certificate of its authority into the repository's spec."
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return reason.UpstreamUnreachable,
				fmt.Sprintf("DNS does not know the host %s; check the URL, and the hub's DNS. Leat retries automatically.", dns.Name)
		}
		return reason.UpstreamUnreachable,
			fmt.Sprintf("The hub cannot look up the host %s; check its DNS and its network. Leat retries automatically.", dns.Name)
	}
	if name, ok := errors.AsType[*net.AddrError](err); ok {
		return reason.UpstreamUnreachable,
			fmt.Sprintf("The host %s has no address; check the URL, and the hub's DNS. Leat retries automatically.", name.Addr)
	}
	failed, isNetwork := errors.AsType[net.Error](err)
	host := hostOf(err, def)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return reason.UpstreamUnreachable, host + " refuses the connection: nothing listens there, or a firewall rejects it; check the URL and its port. " +
			"Leat retries automatically."
	case isNetwork && failed.Timeout():
		return reason.UpstreamUnreachable, host + " does not answer in time; check the URL, the network and its firewalls. Leat retries automatically."
	case isNetwork:
		return reason.UpstreamUnreachable, host + " does not answer; check the URL and the network. Leat retries automatically."
	}
	return reason.UpstreamProtocol, "The upstream's answer cannot be used; the log of the owning replica has details. Leat retries automatically."
}

// isUntrusted reports whether an error means that a certificate was not accepted.
func isUntrusted(err error) bool {
	_, failed := errors.AsType[*tls.CertificateVerificationError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, wrongHost := errors.AsType[x509.HostnameError](err)
	return failed || unknown || wrongHost
}

// hostOf returns the host that a failed conversation was with: the host of the request, which may
// have been redirected or go to an LFS server, or else of the definition.
func hostOf(err error, def mirror.Definition) string {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		if address, err := url.Parse(failed.URL); err == nil && address.Host != "" {
			return address.Host
		}
	}
	if t, err := parseTarget(def); err == nil && t.endpoint.Host != "" {
		return t.endpoint.Host
	}
	return "the upstream"
}
