// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package hubkeys provides tests with the secrets and keys of a hub whose services accept each
// other's tokens.
package hubkeys

import (
	"strings"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
)

// Secret returns the secret of a service.
func Secret(service string) string { return "the secret of " + service + ", long enough for a test" }

// Key returns the key that a service derives from its secret.
func Key(service string) *identity.ServiceKey {
	key, err := identity.NewServiceKey([]byte(Secret(service)), service)
	if err != nil {
		panic(err) // the secret is a constant
	}
	return key
}

// List returns the public keys of all services, in the form of LEAT_SERVICE_KEYS.
func List() []string {
	return []string{Key(identity.ServiceDistributor).Public(), Key(identity.ServiceGitCache).Public(), Key(identity.ServiceTunnel).Public()}
}

// Config returns the configuration of a service's keys.
func Config(service string) rpc.ServiceConfig {
	return rpc.ServiceConfig{Secret: secret.Text(Secret(service)), Keys: List()}
}

// Env adds the settings of a service's keys to environment, and returns it.
func Env(service string, environment map[string]string) map[string]string {
	environment["LEAT_SERVICE_SECRET"], environment["LEAT_SERVICE_KEYS"] = Secret(service), strings.Join(List(), ",")
	return environment
}

// Tokens returns the tokens with which a service calls an audience.
func Tokens(service, audience string) identity.TokenSource { return Key(service).For(audience) }

// Verifier returns a verifier that accepts the tokens of the named services for one audience.
func Verifier(audience string, services ...string) identity.Verifier {
	keys, err := identity.ParseServiceKeys(List())
	if err != nil {
		panic(err) // the keys are constants
	}
	return keys.Verifier(services, audience)
}
