// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"

	"github.com/leatdev/leat/internal/dialguard"
	"github.com/leatdev/leat/services/gitcache/internal/githubapp"
	"github.com/leatdev/leat/services/gitcache/internal/memory"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// explain is the one place where failures of the network, of protocols and of libraries become
// reasons.
func explain(err error, def mirror.Definition) error {
	if already, ok := errors.AsType[*mirror.UpstreamError](err); ok {
		return already
	}
	e := &mirror.UpstreamError{Cause: err}
	e.Reason, e.Message = classify(err, def)
	if status, ok := errors.AsType[*statusError](err); ok {
		e.Reason, e.Message = classifyStatus(status)
		e.RetryAfter = status.retryAfter
	}
	if refused, ok := errors.AsType[*githubapp.RefusedError](err); ok {
		e.RetryAfter = retryAfter(refused.Header.Get("Retry-After"))
	}
	if e.Reason == mirror.ReasonAuthRejected && def.Credential.Method == mirror.MethodNone {
		e.Message = "The upstream asks for a credential; add one to the repository's spec."
		if def.ParentUID != "" {
			e.Message = "The submodule's host asks for a credential. That of the repository is used in its own folder at its own host; for others an " +
				"operator can add one to gitcache-credentials-file, or name the folder in gitcache-submodule-credentials."
		}
	}
	e.Message += quoted(err, def)
	return e
}

func classifyStatus(s *statusError) (mirror.Reason, string) {
	limited := s.status == http.StatusTooManyRequests ||
		(s.retryAfter > 0 && (s.status == http.StatusServiceUnavailable || s.status == http.StatusForbidden))
	switch {
	case limited:
		return mirror.ReasonRateLimited, fmt.Sprintf("%s asks to slow down; Leat obeys and retries by itself.", s.host)
	case s.status == http.StatusProxyAuthRequired:
		return mirror.ReasonUnreachable, "The proxy asks for a credential; put it into proxy_url."
	case s.status == http.StatusUnauthorized || s.status == http.StatusForbidden:
		return mirror.ReasonAuthRejected,
			fmt.Sprintf("%s refused the credential (HTTP status %d); replace it in the repository's spec.", s.host, s.status)
	case s.status == http.StatusNotFound || s.status == http.StatusGone:
		return mirror.ReasonNotFound,
			fmt.Sprintf("%s holds no such repository, or hides it from this credential; check the URL and the credential's rights.", s.host)
	case s.status >= http.StatusInternalServerError:
		return mirror.ReasonUnreachable, fmt.Sprintf("%s answers with HTTP status %d; Leat retries by itself.", s.host, s.status)
	default:
		return mirror.ReasonProtocol,
			fmt.Sprintf("%s answers with HTTP status %d, which is not the Git protocol; check the URL.", s.host, s.status)
	}
}

const proxyMessage = "The proxy does not lead to the upstream; check proxy_url, its credentials and its rules. Leat retries by itself."

func classify(err error, def mirror.Definition) (mirror.Reason, string) {
	if field, ok := errors.AsType[*mirror.FieldError](err); ok {
		return mirror.ReasonProtocol, "The definition cannot be used: " + field.Error()
	}
	switch {
	case errors.Is(err, dialguard.ErrLocal), errors.Is(err, dialguard.ErrPrivate):
		return mirror.ReasonUnreachable, "A submodule's URL, a redirect or an LFS server leads to an address of the hub's own machine or network, " +
			"which only the URL that an administrator wrote may; correct it, or see gitcache-allow-local-upstreams."
	case errors.Is(err, errSSHAuth):
		return mirror.ReasonAuthRejected, "The upstream accepts none of the SSH keys; replace the key in the repository's spec."
	case errors.Is(err, errProxy):
		return mirror.ReasonUnreachable, proxyMessage
	case errors.Is(err, errUnsupported):
		return mirror.ReasonProtocol, "The repository uses SHA-256 object names. Leat cannot mirror those but with the back end git, and from a server that speaks " +
			"version 2 of the protocol."
	case errors.Is(err, syscall.ENOSPC):
		return mirror.ReasonStorageFull, "The mirror's disk is full; an operator must give it room."
	}
	if large, ok := errors.AsType[*memory.TooLargeError](err); ok {
		return mirror.ReasonInternal, fmt.Sprintf("Indexing what the upstream sent takes about %d MiB of memory, and only %d MiB may be "+
			"used; an operator must raise gitcache-memory.", large.Need>>20, large.Limit>>20)
	}
	if beyond, ok := errors.AsType[*pack.LimitError](err); ok {
		return mirror.ReasonProtocol, fmt.Sprintf("What the upstream sent needs %d %s, and may have %d; have its host pack the repository "+
			"anew, as `git repack -a -d -f --depth=50` does, or take what is so large out of it.", beyond.Need, beyond.What, beyond.Limit)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "proxyconnect" { // net/http's own way through a proxy
		return mirror.ReasonUnreachable, proxyMessage
	}
	if hostKey, ok := errors.AsType[*hostKeyError](err); ok {
		return mirror.ReasonHostKey, hostKey.message()
	}
	if refused, ok := errors.AsType[*githubapp.RefusedError](err); ok {
		return classifyApp(refused)
	}
	if remote, ok := errors.AsType[*net.OpError](err); ok && remote.Op == "remote error" && strings.Contains(remote.Error(), "certificate") {
		return mirror.ReasonAuthRejected,
			"The upstream asks for a client certificate and does not accept ours; check client_certificate in the repository's credential."
	}
	if page, ok := errors.AsType[*contentError](err); ok {
		return mirror.ReasonProtocol, page.message()
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return mirror.ReasonInternal, "The mirror's folder cannot be used; the log of the owning replica says why."
	}
	if said, ok := upstreamSaid(err); ok {
		return classifySaid(said)
	}
	return classifyNetwork(err, def)
}

func classifyApp(e *githubapp.RefusedError) (mirror.Reason, string) {
	if e.Status == http.StatusTooManyRequests {
		return mirror.ReasonRateLimited, e.Host + " asks to slow down; Leat obeys and retries by itself."
	}
	if e.Status >= http.StatusInternalServerError {
		return mirror.ReasonUnreachable,
			fmt.Sprintf("%s gives no installation token at the moment (HTTP status %d); Leat retries by itself.", e.Host, e.Status)
	}
	return mirror.ReasonAuthRejected, fmt.Sprintf("%s gives no installation token (HTTP status %d); check app id, installation id, "+
		"private key and API URL of the GitHub App.", e.Host, e.Status)
}

func (e *contentError) message() string {
	switch {
	case e.dumb:
		return e.host + " serves the repository as plain files (the dumb HTTP protocol), which Leat does not speak; use a URL with smart HTTP or SSH."
	case strings.HasPrefix(e.got, "text/html"):
		return e.host + " answers with a web page, as a login does, instead of the Git protocol; check the URL, and add a credential if it needs one."
	default:
		return fmt.Sprintf("%s answers with the content type %q instead of the Git protocol; check the URL.", e.host, e.got)
	}
}

// classifySaid goes by words: hosts have no codes for this, neither over SSH nor in ERR lines.
func classifySaid(said string) (mirror.Reason, string) {
	lower := strings.ToLower(said)
	for _, words := range []string{
		"not found", "does not exist", "not appear to be a git repository", "no such repository", "no repository",
		"could not be found", "not exported", "not a git repository",
	} {
		if strings.Contains(lower, words) {
			return mirror.ReasonNotFound,
				"The upstream holds no such repository, or hides it from this credential; check the URL and the credential's rights."
		}
	}
	for _, words := range []string{"permission denied", "access denied", "authentication", "unauthorized", "not authorized"} {
		if strings.Contains(lower, words) {
			return mirror.ReasonAuthRejected, "The upstream refused the credential; replace it in the repository's spec."
		}
	}
	return mirror.ReasonProtocol, "The upstream refused to serve the repository."
}

func classifyNetwork(err error, def mirror.Definition) (mirror.Reason, string) {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok || isUnknownAuthority(err) {
		return mirror.ReasonUnreachable,
			"The upstream's certificate is not trusted; put the certificate of its authority into the repository's spec."
	}
	_, unexpected := errors.AsType[*packp.ErrUnexpectedData](err)
	switch {
	case unexpected, errors.Is(err, ErrBroken), errors.Is(err, packp.ErrEmptyInput),
		errors.Is(err, pktline.ErrInvalidPktLen), errors.Is(err, pack.ErrEmpty):
		return mirror.ReasonProtocol, "The upstream does not answer with the Git protocol; check the URL."
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return mirror.ReasonProtocol, "The upstream broke off in the middle of its answer; Leat retries by itself."
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return mirror.ReasonUnreachable, fmt.Sprintf("There is no host %s: DNS does not know it; check the URL, and the hub's DNS. Leat retries by itself.", dns.Name)
		}
		return mirror.ReasonUnreachable, fmt.Sprintf("The hub cannot look up the host %s; check its DNS and its network. Leat retries by itself.", dns.Name)
	}
	if name, ok := errors.AsType[*net.AddrError](err); ok {
		return mirror.ReasonUnreachable, fmt.Sprintf("The host %s has no address; check the URL, and the hub's DNS. Leat retries by itself.", name.Addr)
	}
	failed, isNetwork := errors.AsType[net.Error](err)
	host := hostOf(err, def)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return mirror.ReasonUnreachable, host + " refuses the connection: nothing listens there, or a firewall rejects it; check the URL and its port. " +
			"Leat retries by itself."
	case isNetwork && failed.Timeout():
		return mirror.ReasonUnreachable, host + " does not answer in time; check the URL, the network and its firewalls. Leat retries by itself."
	case isNetwork:
		return mirror.ReasonUnreachable, host + " does not answer; check the URL and the network. Leat retries by itself."
	}
	return mirror.ReasonProtocol, "The upstream's answer cannot be used; the log of the owning replica has details. Leat retries by itself."
}

func isUnknownAuthority(err error) bool {
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, wrongHost := errors.AsType[x509.HostnameError](err)
	return unknown || wrongHost
}
