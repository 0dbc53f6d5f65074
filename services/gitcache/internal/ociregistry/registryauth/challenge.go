// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package registryauth

import "strings"

// The schemes of challenges that are answered.
const (
	schemeBasic  = "basic"
	schemeBearer = "bearer"
)

// challenge is the authentication that a registry demands (RFC 9110, section 11.6.1).
type challenge struct{ scheme, realm, service string }

// maxChallenge bounds the header of a challenge.
const maxChallenge = 8 << 10

// parseChallenges returns the challenge to answer: bearer where the registry offers both.
func parseChallenges(headers []string) (challenge, bool) {
	var best challenge
	for _, header := range headers {
		if len(header) > maxChallenge {
			continue
		}
		scheme, rest, _ := strings.Cut(strings.TrimSpace(header), " ")
		switch strings.ToLower(scheme) {
		case schemeBearer:
			parameters := parseParameters(rest)
			return challenge{scheme: schemeBearer, realm: parameters["realm"], service: parameters["service"]}, true
		case schemeBasic:
			best.scheme = schemeBasic
		}
	}
	return best, best.scheme != ""
}

// parseParameters reads key=value pairs, whose values may be quoted. An unreadable part ends it.
func parseParameters(text string) map[string]string {
	found := map[string]string{}
	for {
		key, rest, ok := strings.Cut(strings.TrimLeft(text, " ,\t"), "=")
		if !ok {
			return found
		}
		value := ""
		if quoted, isQuoted := strings.CutPrefix(rest, `"`); isQuoted {
			var b strings.Builder
			i := 0
			for ; i < len(quoted) && quoted[i] != '"'; i++ {
				if quoted[i] == '\\' && i+1 < len(quoted) {
					i++
				}
				b.WriteByte(quoted[i])
			}
			if i == len(quoted) {
				return found
			}
			value, text = b.String(), quoted[i+1:]
		} else {
			value, text, _ = strings.Cut(rest, ",")
		}
		found[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
	}
}
