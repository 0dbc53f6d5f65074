// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"net/http"
	"time"
)

// provider is how one Git host sends webhooks.
type provider struct {
	// claim reads what proves the delivery; false: there is nothing of the sort, or it is stale.
	claim func(r *http.Request, now time.Time) (claim, bool)
	// read reads a proven delivery.
	read func(header http.Header, body []byte) (notice, error)
	// unprovenPing reports whether a delivery without a proof is a test that the provider never
	// signs. May be nil.
	unprovenPing func(http.Header) bool
}

// providerNamed returns the provider of a name in the URL.
func providerNamed(name string) (provider, bool) {
	switch name {
	case "github":
		return provider{claim: signature("X-Hub-Signature-256", "sha256="), read: readGitHub}, true
	case "gitlab":
		return provider{claim: gitlabToken, read: readGitLab}, true
	case "bitbucket":
		return provider{claim: signature("X-Hub-Signature", "sha256="), read: readBitbucket}, true
	case "bitbucket-server":
		return provider{
			claim: signature("X-Hub-Signature", "sha256="), read: readBitbucketServer, unprovenPing: isBitbucketPing,
		}, true
	case "gitea":
		return provider{claim: giteaSignature, read: readGitea}, true
	case "azure-devops":
		return provider{claim: basicPassword, read: readAzure}, true
	case "generic":
		return provider{claim: timedSignature, read: readGeneric}, true
	}
	return provider{}, false
}
