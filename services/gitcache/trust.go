// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache

import (
	"fmt"
	"os"

	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/rpc"
	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/gitcache/internal/replicas"
)

// trust is how replicas know one another and the hub's other services.
type trust struct {
	config rpc.ServiceConfig
	secret []byte
	key    *identity.ServiceKey
	names  *replicas.Names
	ca     []byte
	tel    *telemetry.Telemetry
	// self is the name under which the others know this replica.
	self string
	// verifier accepts the distributor's calls, and those of other replicas to this one.
	verifier identity.Verifier
}

func openTrust(cfg Config, url string, tel *telemetry.Telemetry) (*trust, error) {
	key, keys, err := cfg.Service.Open(program)
	if err != nil {
		return nil, err
	}
	t := &trust{config: cfg.Service, secret: []byte(cfg.Service.Secret.Reveal()), key: key, tel: tel}
	if t.names, err = replicas.NewNames(t.secret); err != nil {
		return nil, err
	}
	if cfg.PeerCAFile != "" {
		if t.ca, err = os.ReadFile(cfg.PeerCAFile); err != nil {
			return nil, fmt.Errorf("read replicas' CA: %w", err)
		}
	}
	t.self = t.names.Of(url)
	t.verifier = identity.Chain(
		keys.Verifier([]string{identity.ServiceDistributor}, identity.ServiceGitCache),
		keys.Verifier([]string{identity.ServiceGitCache}, identity.ReplicaAudience(identity.ServiceGitCache, url)))
	return t, nil
}

// client makes the client for the replica of a name. Its tokens are good at that replica alone.
func (t *trust) client(name string) (rpc.Client, error) {
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

// dial makes clients for calls that another replica answers.
func (t *trust) dial(name string) (gitcachev1connect.GitCacheServiceClient, error) {
	c, err := t.client(name)
	if err != nil {
		return nil, err
	}
	return gitcachev1connect.NewGitCacheServiceClient(c.HTTP, c.BaseURL, c.Options...), nil
}

// dialReplica makes clients for what replicas say to one another.
func (t *trust) dialReplica(name string) (gitcachev1connect.ReplicaServiceClient, error) {
	c, err := t.client(name)
	if err != nil {
		return nil, err
	}
	return gitcachev1connect.NewReplicaServiceClient(c.HTTP, c.BaseURL, c.Options...), nil
}
