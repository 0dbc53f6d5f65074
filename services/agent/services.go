// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"os"

	"github.com/leatdev/leat/services/agent/internal/uplink"
)

// newServices makes what answers for services of the cluster. Without a file, roots are whom to
// trust.
func newServices(p *parts, roots *x509.CertPool) (http.Handler, error) {
	allowed, err := p.cfg.services()
	if err != nil {
		return nil, err
	}
	if name := p.cfg.ServiceProxyCAFile; name != "" {
		pem, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read certificates for services: %w", err)
		}
		if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("parse certificates for services: no certificate in PEM in %s", name)
		}
	}
	services, err := uplink.NewServices(uplink.ServiceParams{
		Allow: allowed, Roots: roots, Dial: p.cfg.ServiceDial, Logger: p.telemetry.Logger(), Meter: p.telemetry.Meter("agent"), StallTimeout: p.cfg.StallTimeout,
	})
	if err != nil {
		return nil, err
	}
	return services, nil
}
