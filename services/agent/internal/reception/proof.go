// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reception

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/runtime/identity"
)

// remembered is how long the id of a token is kept: the token's lifetime, and more than clocks may
// differ.
const remembered = identity.HubTokenTTL + time.Minute

// proof verifies that a peer is the hub. It is safe for concurrent use.
type proof struct {
	identity Identity

	mu   sync.Mutex
	seen map[string]time.Time // expiry by the token's id
}

var errReplayed = errors.New("token was already used")

// check accepts a token of the hub once. It records only tokens that the hub has signed, so that
// other callers cannot fill the memory.
func (p *proof) check(header http.Header) error {
	token, ok := identity.BearerToken(header)
	if !ok {
		return identity.ErrTokenInvalid
	}
	public, _ := p.identity.Key().Public().(ed25519.PublicKey)
	id, err := identity.VerifyHubToken(token, identity.HubTokenParams{
		Keys: p.identity.HubKeys(), ClusterUID: p.identity.ClusterUID(), AgentKey: public,
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(p.seen, func(_ string, until time.Time) bool { return now.After(until) })
	if _, used := p.seen[id]; used {
		return errReplayed
	}
	p.seen[id] = now.Add(remembered)
	return nil
}

// certificates issues the agent's certificate, again whenever its key is replaced. Peers check only
// the key in it.
type certificates struct {
	identity Identity

	mu   sync.Mutex
	made *tls.Certificate
}

func (c *certificates) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := c.identity.Key()
	if c.made != nil && key.Equal(c.made.PrivateKey) {
		return c.made, nil
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0),
		NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // RFC 5280: does not expire
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	encoded, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	c.made = &tls.Certificate{Certificate: [][]byte{encoded}, PrivateKey: key}
	return c.made, nil
}
