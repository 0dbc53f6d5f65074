// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// quoted returns the sentence of a message that repeats what the upstream sent, or "". People find
// a cause by these words more often than by ours: a quota that is used up, a repository that moved.
func quoted(err error, def mirror.Definition) string {
	sent, ok := errors.AsType[interface {
		error
		words() string
	}](err)
	if !ok {
		return ""
	}
	said := masked(sent.words(), def)
	if said == "" {
		return ""
	}
	return fmt.Sprintf(" It sent: %q.", said)
}

var (
	userInfo = regexp.MustCompile(`://[^/@\s"']*@`)
	// headerWords and assignedWords match credentials by their names. A colon without quotes is a
	// person's, as in "password: ask ada".
	headerWords   = regexp.MustCompile(`(?i)\b(authorization["']?\s*[:=]\s*["']?)(?:(?:basic|bearer|token)\s+)?[^\s"',;]+`)
	assignedWords = regexp.MustCompile(`(?i)\b((?:token|password|secret)(?:\s*=\s*["']?|["']\s*:\s*["']))[^\s"',;&]+`)
	// tokenWords match what looks like a token. Ids of objects do not: they are hexadecimal.
	tokenWords = regexp.MustCompile(`[A-Za-z0-9+_-]{20,}`)
	objectID   = regexp.MustCompile(`^[0-9a-f]+$`)
)

// masked returns the beginning of foreign words, on one line, without credentials: the
// definition's, and whatever looks like one, for the upstream may repeat a credential that the
// definition does not hold.
func masked(said string, def mirror.Definition) string {
	const enough, mask = 200, "***"
	said = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(said, ""), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	for _, secret := range []secret.Text{def.Credential.Password, def.Credential.Token, def.Credential.Passphrase, def.ProxyURL} {
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
