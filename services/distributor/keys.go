// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/services/distributor/internal/keys/keyroot"
	"github.com/leatdev/leat/services/distributor/internal/keys/rotation"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// signingOverlap is how long a signing key stays published after its successor began to sign.
// Access tokens live for an hour. An agent that the hub dials learns new keys only while the hub
// reaches it, so this is also how long such an agent may be away.
const signingOverlap = 7 * 24 * time.Hour

// minSigningLead bounds the lead from below: services fetch an unknown key at most every ten
// seconds.
const minSigningLead = 11 * time.Second

// KeyConfig sets how the keys that seal and sign are kept and replaced.
type KeyConfig struct {
	// Sealing are roots of the keys that seal stored secrets, one a line: the first wraps, all unwrap.
	// Empty: a key management service or the service's secrets are the roots.
	Sealing secret.Text
	// Vault is a root that comes before the roots of Sealing. Without a URL it is not used.
	Vault VaultConfig
	// KMS are roots that come before Vault's.
	KMS KMSConfig
	// SigningEvery is how long a key signs access tokens. Negative: until a person rotates it.
	SigningEvery time.Duration
	// SigningLead is how long a signing key is published before it signs.
	SigningLead time.Duration
}

// VaultConfig names a transit key of Vault or OpenBao, and how to sign in there.
type VaultConfig struct {
	URL, TokenFile, Role, AuthMount, CAFile string
	// Former means that the key is only accepted: the other roots wrap.
	Former bool
}

func (c *KeyConfig) bind(s *config.Set) {
	s.Secret(&c.Sealing, "distributor-sealing-keys", "", "roots of the keys that seal secrets in the database, one a line, at least 32 bytes each; the first is used, all are accepted; empty: the service secrets")
	s.String(&c.Vault.URL, "distributor-sealing-vault-url", "", "transit key of Vault or OpenBao that is the root of the keys that seal, such as https://vault:8200/v1/transit/keys/leat; empty: none")
	s.String(&c.Vault.TokenFile, "distributor-sealing-vault-token-file", "", "file with a token for that key, read for each call")
	s.String(&c.Vault.Role, "distributor-sealing-vault-role", "", "role of Vault's Kubernetes auth method to sign in with, instead of a token")
	s.String(&c.Vault.AuthMount, "distributor-sealing-vault-auth-mount", "kubernetes", "path of that auth method")
	s.String(&c.Vault.CAFile, "distributor-sealing-vault-ca-file", "", "certificates to trust for Vault, in PEM")
	s.Bool(&c.Vault.Former, "distributor-sealing-vault-former", false, "only accept what that key has wrapped, and wrap with the other roots: to stop using Vault")
	c.KMS.bind(s)
	s.Duration(&c.SigningEvery, "distributor-signing-key-every", 30*24*time.Hour, "how long a key signs access tokens before the next one does; negative: until \"leat admin rotate signing-key\"")
	s.Duration(&c.SigningLead, "distributor-signing-key-lead", 15*time.Minute, "how long a signing key is published before it signs, so that every service knows it")
}

func (c *KeyConfig) check(service *rpc.ServiceConfig) error {
	var errs []error
	if _, err := c.open(service); err != nil {
		errs = append(errs, err)
	}
	if c.SigningLead != 0 && c.SigningLead < minSigningLead {
		errs = append(errs, fmt.Errorf("--distributor-signing-key-lead: got %v, want at least %v", c.SigningLead, minSigningLead))
	}
	if c.SigningEvery > 0 && c.SigningEvery < 2*c.SigningLead {
		errs = append(errs, fmt.Errorf("--distributor-signing-key-every: got %v, want at least twice --distributor-signing-key-lead, %v",
			c.SigningEvery, c.SigningLead))
	}
	return errors.Join(errs...)
}

// open returns the roots of the keys that seal: keys of clouds, Vault, explicit ones, and the
// service's secrets. The latter stay roots beside others: so a hub changes over to a root of its
// own by setting it. Former roots come last.
func (c *KeyConfig) open(service *rpc.ServiceConfig) (sqlstore.Keys, error) {
	roots, err := keyroot.ParseLocal(c.Sealing)
	if err != nil {
		return sqlstore.Keys{}, fmt.Errorf("--distributor-sealing-keys: %w", err)
	}
	secrets, err := service.Secrets()
	if err != nil {
		return sqlstore.Keys{}, err
	}
	for _, secret := range secrets {
		root, err := keyroot.NewLocal(secret)
		if err != nil {
			return sqlstore.Keys{}, fmt.Errorf("--service-secret: %w", err)
		}
		roots = append(roots, root)
	}
	if c.Vault.URL != "" {
		vault, err := c.Vault.open()
		if err != nil {
			return sqlstore.Keys{}, err
		}
		roots = joined([]keyroot.Root{vault}, roots, c.Vault.Former)
	}
	kms, err := c.KMS.open()
	if err != nil {
		return sqlstore.Keys{}, err
	}
	roots = joined(kms, roots, c.KMS.Former)
	return sqlstore.Keys{Roots: roots, Secrets: secrets}, nil
}

// joined returns roots before others, or after them if they are former ones.
func joined(roots, others []keyroot.Root, former bool) []keyroot.Root {
	if former {
		return slices.Concat(others, roots)
	}
	return slices.Concat(roots, others)
}

// open returns the root.
func (c *VaultConfig) open() (keyroot.Root, error) {
	ca, err := rpc.ReadCA(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("--distributor-sealing-vault-ca-file: %w", err)
	}
	vault, err := keyroot.NewVault(keyroot.VaultParams{URL: c.URL, TokenFile: c.TokenFile, Role: c.Role, AuthMount: c.AuthMount, CAPEM: ca})
	if err != nil {
		return nil, fmt.Errorf("--distributor-sealing-vault-url, -token-file and -role: %w", err)
	}
	return vault, nil
}

// policy returns when signing keys change.
func (c *KeyConfig) policy() rotation.Policy {
	return rotation.Policy{Every: max(c.SigningEvery, 0), Lead: c.SigningLead, Overlap: signingOverlap}
}
