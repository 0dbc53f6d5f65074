// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/leatdev/leat/internal/runtime/config"
)

const (
	// probeTimeout leaves a service time for its own checks, which end after checkTimeout.
	probeTimeout = 2 * checkTimeout
	// maxProbeAnswer bounds how much of the service's answer an error repeats, in bytes.
	maxProbeAnswer = 1 << 10
)

// Probe is the command "health" of a service's program. It asks the service that runs in the same
// container whether it is ready, so that an image without a shell can have a health check. It reads
// the settings of the service, and therefore finds it at whatever address it was given.
type Probe struct {
	// Only is the service's one listener, for a service that serves health there, with the default
	// of its address. Nil: the service has an internal listener.
	Only *Config

	internalAddr string
}

// Bind binds the settings of the listener that serves health.
func (p *Probe) Bind(s *config.Set) {
	if p.Only != nil {
		p.Only.BindListener(s)
		return
	}
	bindInternalAddr(s, &p.internalAddr)
}

// Run returns nil if the service is ready, otherwise an error with the service's reasons.
func (p *Probe) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	transport, target, err := p.target()
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return fmt.Errorf("ask the service: %w", err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("the service does not answer: %w", err)
	}
	reasons, err := io.ReadAll(io.LimitReader(response.Body, maxProbeAnswer))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return fmt.Errorf("read the service's answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the service is not ready: %s", strings.ReplaceAll(strings.TrimSpace(string(reasons)), "\n", ", "))
	}
	return nil
}

// target returns how to reach the service's listener, and the URL to ask. The transport has no
// proxy: the service is on this machine.
func (p *Probe) target() (*http.Transport, string, error) {
	transport, scheme, addr := &http.Transport{}, "http", p.internalAddr
	if p.Only != nil {
		addr = p.Only.ListenAddr
		if p.Only.TLSCertFile != "" {
			trust, err := trustOwn(p.Only.TLSCertFile, p.Only.TLSKeyFile)
			if err != nil {
				return nil, "", err
			}
			transport.TLSClientConfig, scheme = trust, "https"
		}
	}
	if addr == "" {
		return nil, "", errors.New("--internal-listen-addr: got none, want the address at which the service serves health")
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, "", fmt.Errorf("find the service: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	return transport, scheme + "://" + net.JoinHostPort(host, port) + "/readyz", nil
}

// trustOwn returns a configuration that accepts the service's own certificate and no other. The
// certificate names hosts at which others reach the service, so the probe expects its first name.
func trustOwn(certFile, keyFile string) (*tls.Config, error) {
	own, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("read the service's certificate: %w", err)
	}
	trust := &tls.Config{RootCAs: x509.NewCertPool()}
	trust.RootCAs.AddCert(own.Leaf)
	switch {
	case len(own.Leaf.DNSNames) > 0:
		trust.ServerName = own.Leaf.DNSNames[0]
	case len(own.Leaf.IPAddresses) > 0:
		trust.ServerName = own.Leaf.IPAddresses[0].String()
	}
	return trust, nil
}
