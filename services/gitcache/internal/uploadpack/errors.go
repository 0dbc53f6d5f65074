// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/leatdev/leat/internal/contract/reason"
)

// The errors of this package. The ones that know the remedy are a [problemError], which explain
// asks. For all others, such as errors of the network, of libraries and of the disk, explain finds
// the words itself. An error that repeats words of the upstream has a method words, whose text is
// masked before a person sees it.

// ErrBroken marks an answer that is not, or not completely, what the Git protocol prescribes.
var ErrBroken = errors.New("broken git protocol")

// problemError is an error that comes with its reason and with a message for people.
type problemError interface {
	error
	problem() (reason.Reason, string)
}

var (
	_ problemError = (*contentError)(nil)
	_ problemError = (*hostKeyError)(nil)
)

// fixedError is a problemError that always has the same words.
type fixedError struct {
	text    string
	reason  reason.Reason
	message string
}

var (
	// errUnsupported is a repository of a kind that this back end cannot mirror.
	errUnsupported = &fixedError{
		"unsupported kind of repository", reason.UpstreamProtocol, "The repository uses SHA-256 object names. Leat cannot mirror those except with " +
			"the back end git, and from a server that speaks version 2 of the protocol.",
	}
	// errSSHAuth is a server that accepts none of our keys.
	errSSHAuth = &fixedError{
		"ssh key not accepted", reason.UpstreamAuthRejected, "The upstream accepts none of the SSH keys; replace the key in the repository's spec.",
	}
)

func (e *fixedError) Error() string                    { return e.text }
func (e *fixedError) problem() (reason.Reason, string) { return e.reason, e.message }

// strayError is an answer of the upstream in the place of what the protocol prescribes.
type strayError struct{ got, want string }

func (e *strayError) Error() string {
	return fmt.Sprintf("%v: %q instead of %s", ErrBroken, printable(e.got), e.want)
}

func (e *strayError) Unwrap() error { return ErrBroken }

func (e *strayError) words() string { return e.got }

// remoteError is the upstream's text for people before it gave up: in an error packet, or on the
// error stream over SSH.
type remoteError struct {
	said  string
	cause error
}

func (e *remoteError) Error() string { return fmt.Sprintf("upstream said %q: %v", e.said, e.cause) }
func (e *remoteError) Unwrap() error { return e.cause }
func (e *remoteError) words() string { return e.said }

// problem goes by words: hosts have no codes for this, neither over SSH nor in error packets.
func (e *remoteError) problem() (reason.Reason, string) {
	lower := strings.ToLower(e.said)
	for _, words := range []string{
		"not found", "does not exist", "not appear to be a git repository", "no such repository", "no repository",
		"could not be found", "not exported", "not a git repository",
	} {
		if strings.Contains(lower, words) {
			return reason.RepositoryNotFound,
				"The upstream holds no such repository, or hides it from this credential; check the URL and the credential's rights."
		}
	}
	for _, words := range []string{"permission denied", "access denied", "authentication", "unauthorized", "not authorized"} {
		if strings.Contains(lower, words) {
			return reason.UpstreamAuthRejected, "The upstream refused the credential; replace it in the repository's spec."
		}
	}
	return reason.UpstreamProtocol, "The upstream refused to serve the repository."
}

// statusError is an HTTP status that is not success.
type statusError struct {
	status     int
	host       string
	retryAfter time.Duration
	said       string // the server's own words for people; empty: it has none
}

// newStatusError does not read the body, whose words only a Git server writes for people.
func newStatusError(resp *http.Response) *statusError {
	return &statusError{status: resp.StatusCode, host: resp.Request.URL.Host, retryAfter: retryAfter(resp.Header)}
}

func (e *statusError) Error() string { return fmt.Sprintf("HTTP status %d from %s", e.status, e.host) }
func (e *statusError) words() string { return e.said }

// problem counts a refusal with a time to come back as a limit, because hosts disagree on the
// status for it. A status of a proxy is not the upstream's.
func (e *statusError) problem() (reason.Reason, string) {
	limited := e.status == http.StatusTooManyRequests ||
		(e.retryAfter > 0 && (e.status == http.StatusServiceUnavailable || e.status == http.StatusForbidden))
	switch {
	case limited:
		return reason.UpstreamRateLimited, e.host + " asks to slow down; Leat obeys and retries automatically."
	case e.status == http.StatusProxyAuthRequired:
		return reason.UpstreamUnreachable, "The proxy asks for a credential; put it into proxy_url."
	case e.status == http.StatusUnauthorized || e.status == http.StatusForbidden:
		return reason.UpstreamAuthRejected,
			fmt.Sprintf("%s refused the credential (HTTP status %d); replace it in the repository's spec.", e.host, e.status)
	case e.status == http.StatusNotFound || e.status == http.StatusGone:
		return reason.RepositoryNotFound,
			fmt.Sprintf("%s holds no such repository, or hides it from this credential; check the URL and the credential's rights.", e.host)
	case e.status >= http.StatusInternalServerError:
		return reason.UpstreamUnreachable, fmt.Sprintf("%s answers with HTTP status %d; Leat retries automatically.", e.host, e.status)
	default:
		return reason.UpstreamProtocol,
			fmt.Sprintf("%s answers with HTTP status %d, which is not the Git protocol; check the URL.", e.host, e.status)
	}
}

// retryAfter reads both forms of the header: seconds and a date.
func retryAfter(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(max(seconds, 0)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// contentError is an answer that is not of the Git protocol.
type contentError struct {
	host string
	got  string // its content type
	dumb bool   // a list of refs, from a server of plain files
}

func (e *contentError) Error() string {
	return fmt.Sprintf("content type %q from %s is not the Git protocol's", e.got, e.host)
}

func (e *contentError) problem() (reason.Reason, string) {
	switch {
	case e.dumb:
		return reason.UpstreamProtocol,
			e.host + " serves the repository as plain files (the dumb HTTP protocol), which Leat does not speak; use a URL with smart HTTP or SSH."
	case strings.HasPrefix(e.got, "text/html"):
		return reason.UpstreamProtocol,
			e.host + " answers with a web page, as a login does, instead of the Git protocol; check the URL, and add a credential if it needs one."
	default:
		return reason.UpstreamProtocol,
			fmt.Sprintf("%s answers with the content type %q instead of the Git protocol; check the URL.", e.host, e.got)
	}
}

// hostKeyError reports that a server's key is not the one in known_hosts.
type hostKeyError struct {
	host    string
	key     ssh.PublicKey // nil: the connection failed before the server showed one
	changed bool          // known_hosts has another key for the host; false: it has none
	cause   error
}

func (e *hostKeyError) Error() string {
	return fmt.Sprintf("host key of %s not accepted: %v", e.host, e.cause)
}
func (e *hostKeyError) Unwrap() error { return e.cause }

// problem never advises to accept a new key without asking: the one that the server shows may be an
// attacker's.
func (e *hostKeyError) problem() (reason.Reason, string) {
	switch {
	case !e.changed:
		return reason.UpstreamHostKeyRejected,
			"The credential's known_hosts has no line for " + e.host + "; ask its operator for the host key and add the line."
	case e.key == nil:
		return reason.UpstreamHostKeyRejected, e.host + " has no host key of a type that known_hosts holds for it: it was replaced, or somebody stands in " +
			"between. Ask its operator for the key before you change known_hosts."
	default:
		return reason.UpstreamHostKeyRejected, fmt.Sprintf("%s shows another host key than the one in known_hosts: %s %s. It was replaced, or somebody stands "+
			"in between. Ask its operator for the key before you change known_hosts.", e.host, e.key.Type(), ssh.FingerprintSHA256(e.key))
	}
}

// printable returns the beginning of foreign words as valid text.
func printable(said string) string {
	const enough = 200
	return strings.ToValidUTF8(said[:min(len(said), enough)], "")
}
