// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache

import (
	"fmt"

	"github.com/leatdev/leat/internal/kit/seal"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/gitcache/internal/replicas"
)

// trust holds the keys by which replicas and the hub's other services authenticate one another.
type trust struct {
	config rpc.ServiceConfig
	// secrets are gitcache's own: the first is used, the others are accepted.
	secrets [][]byte
	key     *identity.ServiceKey
	names   *replicas.Names
	ca      []byte
	tel     *telemetry.Telemetry
	// self is the signed name of this replica, by which other replicas call it.
	self string
	// verifier accepts the distributor's calls, and calls of other replicas to this one.
	verifier identity.Verifier
}

func openTrust(cfg Config, url string, tel *telemetry.Telemetry) (*trust, error) {
	key, keys, err := cfg.Service.Open(program)
	if err != nil {
		return nil, err
	}
	t := &trust{config: cfg.Service, key: key, tel: tel}
	if t.secrets, err = cfg.Service.Secrets(); err != nil {
		return nil, err
	}
	if t.names, err = replicas.NewNames(t.secrets[0], t.secrets[1:]...); err != nil {
		return nil, err
	}
	if t.ca, err = rpc.ReadCA(cfg.PeerCAFile); err != nil {
		return nil, err
	}
	t.self = t.names.Of(url)
	t.verifier = identity.Chain(
		keys.Verifier([]string{identity.ServiceDistributor}, identity.ServiceGitCache),
		keys.Verifier([]string{identity.ServiceGitCache}, identity.ReplicaAudience(identity.ServiceGitCache, url)))
	return t, nil
}

// sealer returns the sealer of definitions: it seals with the first secret, and opens with all.
func (t *trust) sealer() (*seal.Sealer, error) {
	keys := make([]seal.Key, len(t.secrets))
	for i, secret := range t.secrets {
		key, err := seal.NewKey(secret)
		if err != nil {
			return nil, fmt.Errorf("make sealer: %w", err)
		}
		keys[i] = key
	}
	return seal.NewKeyring(keys[0], keys[1:]...).Sealer("repository definition")
}

// dial returns a client for the replica with that name. Only that replica accepts the client's
// tokens.
func (t *trust) dial(name string) (rpc.Client, error) {
	url, err := t.names.URL(name)
	if err != nil {
		return rpc.Client{}, err
	}
	c, err := t.config.Dial(t.key, identity.ReplicaAudience(identity.ServiceGitCache, url), rpc.ClientParams{
		BaseURL: url, Telemetry: t.tel, CAPEM: t.ca,
	})
	if err != nil {
		return rpc.Client{}, fmt.Errorf("reach replica: %w", err)
	}
	return c, nil
}
