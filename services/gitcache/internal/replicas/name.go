// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"fmt"
	"strings"

	"github.com/leatdev/leat/internal/seal"
)

// Names are how replicas are called wherever others read of them: in leases, heartbeats and events. A name is the replica's URL with its
// signature as fragment, by a key that is derived from gitcache's secret. Redis holds names, and is not trusted with where calls go.
type Names struct {
	signer *seal.Signer
}

// NewNames returns the names of the replicas that have the secret.
func NewNames(secret []byte) (*Names, error) {
	signer, err := seal.NewSigner(secret, "gitcache replica")
	if err != nil {
		return nil, fmt.Errorf("make names of replicas: %w", err)
	}
	return &Names{signer: signer}, nil
}

// Of returns the name of the replica at a URL.
func (n *Names) Of(url string) string { return url + "#" + n.signer.Sign(url) }

// URL returns where the replica of a name is. It is an error where no replica with the secret has made the name.
func (n *Names) URL(name string) (string, error) {
	url, signature, _ := strings.Cut(name, "#")
	if !n.signer.Verify(signature, url) {
		return "", fmt.Errorf("reach replica: %q is not signed by a replica of this hub", url)
	}
	return url, nil
}
