// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"slices"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/metrics"
	"github.com/leatdev/leat/services/agent/internal/prometheus"
	"github.com/leatdev/leat/services/agent/internal/uplink"
)

// serviceParams are how the agent reaches services of the cluster. Without a file, roots are whom to
// trust.
func serviceParams(p *parts, roots *x509.CertPool) (uplink.ServiceParams, error) {
	allowed, err := p.cfg.services()
	if err != nil {
		return uplink.ServiceParams{}, err
	}
	if name := p.cfg.ServiceProxyCAFile; name != "" {
		pem, err := os.ReadFile(name)
		if err != nil {
			return uplink.ServiceParams{}, fmt.Errorf("read certificates for services: %w", err)
		}
		if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM(pem) {
			return uplink.ServiceParams{}, fmt.Errorf("parse certificates for services: no certificate in PEM in %s", name)
		}
	}
	return uplink.ServiceParams{
		Allow: allowed, Roots: roots, Dial: p.cfg.ServiceDial, Logger: p.telemetry.Logger(), Meter: p.telemetry.Meter("agent"), StallTimeout: p.cfg.StallTimeout,
	}, nil
}

// newMetrics makes what asks the cluster's Prometheus. The hub's settings name it, and an agent that
// its own configuration locks down asks only services of its own list: what the hub may reach in
// such a cluster is the cluster's to say.
func newMetrics(cfg Config, inventories metrics.Services, services uplink.ServiceParams) *metrics.Source {
	return metrics.New(inventories, prometheus.New(uplink.NewServiceTransport(services), func(name string) (*url.URL, error) {
		service, err := uplink.ParseService(name)
		if err != nil {
			return nil, reason.Errorf(reason.MetricsNotConfigured, "spec.agent.metrics of the cluster: %v", err)
		}
		if cfg.LockDown && !slices.Contains(services.Allow, service) {
			return nil, reason.Errorf(reason.MetricsNotConfigured,
				"the agent is locked down and does not allow service %s; an operator of the cluster can add it to LEAT_AGENT_SERVICE_PROXY_ALLOW", service)
		}
		return service.URL(), nil
	}))
}
