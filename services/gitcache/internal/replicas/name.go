// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"fmt"
	"strings"

	"github.com/leatdev/leat/internal/kit/seal"
)

// Names makes and verifies the names of replicas in leases, heartbeats and events. A name is the
// replica's URL with a signature as its fragment. The key of the signature is derived from
// gitcache's secret. Redis holds the names, but is not trusted to decide where calls go.
type Names struct {
	signer *seal.Signer
}

// NewNames returns the Names of the replicas that share the secret, or have one of the accepted ones.
func NewNames(secret []byte, accepted ...[]byte) (*Names, error) {
	signer, err := seal.NewSigner(secret, "gitcache replica", accepted...)
	if err != nil {
		return nil, fmt.Errorf("make names of replicas: %w", err)
	}
	return &Names{signer: signer}, nil
}

// Of returns the name of the replica at a URL.
func (n *Names) Of(url string) string { return url + "#" + n.signer.Sign(url) }

// URL returns the URL of the replica with that name. It returns an error if no replica with the
// secret has signed the name.
func (n *Names) URL(name string) (string, error) {
	url, signature, _ := strings.Cut(name, "#")
	if !n.signer.Verify(signature, url) {
		return "", fmt.Errorf("reach replica: %q is not signed by a replica of this hub", url)
	}
	return url, nil
}
