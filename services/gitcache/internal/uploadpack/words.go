// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// strayError is an answer of the upstream in the place of what the protocol prescribes.
type strayError struct{ got, want string }

func (e *strayError) Error() string {
	return fmt.Sprintf("%v: %q instead of %s", ErrBroken, printable(e.got), e.want)
}

func (e *strayError) Unwrap() error { return ErrBroken }

// upstreamSaid returns the words of the upstream's own error message, if the protocol carried one.
func upstreamSaid(err error) (string, bool) {
	if remote, ok := errors.AsType[*remoteError](err); ok {
		return remote.said, true
	}
	if line, ok := errors.AsType[*pktline.ErrorLine](err); ok {
		return line.Text, true
	}
	return "", false
}

// quoted returns the sentence of a message that repeats what the upstream sent, or "".
func quoted(err error, def mirror.Definition) string {
	said, _ := upstreamSaid(err)
	if status, ok := errors.AsType[*statusError](err); ok {
		said = status.said
	}
	if stray, ok := errors.AsType[*strayError](err); ok {
		said = stray.got
	}
	if said = masked(said, def); said == "" {
		return ""
	}
	return fmt.Sprintf(" It sent: %q.", said)
}

var (
	userInfo = regexp.MustCompile(`://[^/@\s"']*@`)
	// headerWords and assignedWords match credentials by their names. A colon without quotes is a
	// person's.
	headerWords   = regexp.MustCompile(`(?i)\b(authorization["']?\s*[:=]\s*["']?)(?:(?:basic|bearer|token)\s+)?[^\s"',;]+`)
	assignedWords = regexp.MustCompile(`(?i)\b((?:token|password|secret)(?:\s*=\s*["']?|["']\s*:\s*["']))[^\s"',;&]+`)
	// tokenWords match what looks like a token. Ids of objects do not: they are hexadecimal.
	tokenWords = regexp.MustCompile(`[A-Za-z0-9+_-]{20,}`)
	objectID   = regexp.MustCompile(`^[0-9a-f]+$`)
)

// masked returns the beginning of foreign words, on one line, without credentials: those of the
// definition, and whatever looks like one, for the upstream may repeat a credential that the
// definition does not hold.
func masked(said string, def mirror.Definition) string {
	const enough, mask = 200, "***"
	said = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(said, ""), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	for _, secret := range []mirror.Secret{def.Credential.Password, def.Credential.Token, def.Credential.Passphrase, def.ProxyURL} {
		if secret != "" {
			said = strings.ReplaceAll(said, secret.Reveal(), mask)
		}
	}
	said = userInfo.ReplaceAllString(said, "://"+mask+"@")
	said = headerWords.ReplaceAllString(said, "${1}"+mask)
	said = assignedWords.ReplaceAllString(said, "${1}"+mask)
	said = tokenWords.ReplaceAllStringFunc(said, func(word string) string {
		if objectID.MatchString(word) || !strings.ContainsAny(word, "0123456789") {
			return word
		}
		return mask
	})
	return printable(said[:min(len(said), enough)])
}

func printable(said string) string {
	const enough = 200
	return strings.ToValidUTF8(said[:min(len(said), enough)], "")
}

// hostOf returns the host that a failed conversation was with: that of the request, which may have
// been redirected or go to an LFS server, or else that of the definition.
func hostOf(err error, def mirror.Definition) string {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		if address, err := url.Parse(failed.URL); err == nil && address.Host != "" {
			return address.Host
		}
	}
	if endpoint, err := transport.NewEndpoint(def.URL); err == nil && endpoint.Host != "" {
		return endpoint.Host
	}
	return "the upstream"
}
