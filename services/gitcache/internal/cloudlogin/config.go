// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cloudlogin

import (
	"errors"
	"fmt"

	"github.com/leatdev/leat/internal/runtime/cloud"
	"github.com/leatdev/leat/internal/runtime/config"
)

// prefix begins the flags of the identity.
const prefix = "gitcache"

// Config is the pod's identity from the environment, and who may have its logins.
type Config struct {
	cloud.Config
	// Registries may have the login of any cloud besides the clouds' own: host, or host:port.
	Registries []string
	AWSRegion  string // of a registry whose host does not name one
	ECRURL     string // empty: the endpoint of the registry's region
}

// Bind binds the fields to flags and environment variables.
func (c *Config) Bind(s *config.Set) {
	s.Strings(&c.Registries, "gitcache-identity-registries", nil,
		"registries, host or host:port, that may have the login of a workload identity besides the cloud's own")
	s.Env(&c.AWSRegion, "AWS_REGION", "region of a registry whose host does not name one")
	s.Env(&c.ECRURL, "AWS_ENDPOINT_URL_ECR", "API of Amazon ECR; empty: that of the registry's region")
	c.Config.Bind(s, prefix, "gitcache")
}

// Check returns an error that names each setting that cannot be used.
func (c Config) Check() error {
	errs := []error{c.Config.Check(prefix), cloud.CheckService("AWS_ENDPOINT_URL_ECR", c.ECRURL)}
	for _, host := range c.Registries {
		if !cloud.IsHost(host) {
			errs = append(errs, fmt.Errorf("--gitcache-identity-registries: got %q, want host or host:port", host))
		}
	}
	return errors.Join(errs...)
}
