// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"errors"
	"fmt"
	"strings"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/identity"
)

// ServiceConfig holds the settings that a service of the hub needs to call the other services and
// to accept their calls.
type ServiceConfig struct {
	// Secret is the service's own secret, at least 32 bytes. The service's key is derived from it,
	// and its stored data is sealed with it. All replicas of the service share it, and no other
	// service has it. Required.
	Secret secret.Text
	// OtherSecrets are further secrets of this service, separated by commas: the next one, or the
	// previous one, while the secret is replaced. The service accepts data that was sealed or signed
	// with them.
	OtherSecrets secret.Text
	// Keys are the public keys of all services of the hub, each NAME=KEY. Required.
	Keys []string
	// Plaintext allows service tokens over http:// beyond this machine.
	Plaintext Plaintext
}

// Bind binds the fields.
func (c *ServiceConfig) Bind(s *config.Set) {
	s.Secret(&c.Secret, "service-secret", "", "secret of this service alone, at least 32 bytes; \"leat keys\" makes one for each (required)")
	s.Secrets(&c.OtherSecrets, "service-other-secrets",
		"secrets of this service beside it that are accepted while it is replaced, separated by commas: the next or the previous one")
	s.Strings(&c.Keys, "service-keys", nil,
		"public keys of the hub's services, separated by commas, the same for all, as \"leat keys\" prints them (required)")
	s.File("service-keys")
	c.Plaintext.Bind(s)
}

// Check returns an error that names a missing setting.
func (c *ServiceConfig) Check() error {
	var errs []error
	if c.Secret == "" {
		errs = append(errs, config.Missing("service-secret"))
	}
	if len(c.Keys) == 0 {
		errs = append(errs, config.Missing("service-keys"))
	}
	if _, err := c.Secrets(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Secrets returns the service's secrets: the one that it uses first, then the ones that it also
// accepts.
func (c *ServiceConfig) Secrets() ([][]byte, error) {
	secrets := [][]byte{[]byte(c.Secret.Reveal())}
	for text := range strings.SplitSeq(c.OtherSecrets.Reveal(), ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		if len(text) < identity.MinServiceSecret {
			return nil, fmt.Errorf("--service-other-secrets: got one of %d bytes, want at least %d", len(text), identity.MinServiceSecret)
		}
		if secrets = append(secrets, []byte(text)); len(secrets) > maxSecrets {
			return nil, fmt.Errorf("--service-other-secrets: got more than %d, want the next and the previous one", maxSecrets-1)
		}
	}
	return secrets, nil
}

// maxSecrets bounds the secrets of a service: each is tried for every signature that does not fit.
const maxSecrets = 4

// Open returns the key of the named service and the public keys of all services.
func (c *ServiceConfig) Open(service string) (*identity.ServiceKey, *identity.ServiceKeys, error) {
	if err := c.Check(); err != nil {
		return nil, nil, err
	}
	key, err := identity.NewServiceKey([]byte(c.Secret.Reveal()), service)
	if err != nil {
		return nil, nil, fmt.Errorf("--service-secret: %w", err)
	}
	keys, err := identity.ParseServiceKeys(c.Keys)
	if err != nil {
		return nil, nil, fmt.Errorf("--service-keys: %w", err)
	}
	return key, keys, keys.Check(key)
}

// Dial returns the client with which a service calls an audience: another service, or one replica.
// It refuses a base URL to which service tokens must not be sent, unless params has a Transport.
func (c *ServiceConfig) Dial(key *identity.ServiceKey, audience string, params ClientParams) (Client, error) {
	base, err := parseBaseURL(params.BaseURL)
	if err != nil {
		return Client{}, err
	}
	if params.Transport == nil {
		if err := c.Plaintext.Check(base); err != nil {
			return Client{}, err
		}
	}
	params.Tokens = key.For(audience)
	return NewClient(params)
}
