// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/runtime/instrument"
)

// certificateMaxAge is how long a changed file may go unnoticed.
const certificateMaxAge = 10 * time.Second

// certificates hands out the certificate in two files and follows their changes, so that a renewed
// certificate needs no restart. While the files cannot be read, the last good one stays.
type certificates struct {
	certFile, keyFile string

	mu       sync.Mutex
	current  *tls.Certificate
	modified [2]time.Time
	checked  time.Time
}

func loadCertificates(certFile, keyFile string) (*certificates, error) {
	c := &certificates{certFile: certFile, keyFile: keyFile}
	if err := c.reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// suites are the suites of TLS 1.2 that HTTP/2 allows (RFC 9113, 9.2.2). The suites of TLS 1.3 are
// not a matter of choice.
func suites() []uint16 {
	return []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	}
}

func (c *certificates) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: suites(), GetCertificate: c.get}
}

func (c *certificates) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.checked) >= certificateMaxAge {
		_ = c.reload() // the two files may be half replaced; the last good pair serves until they match again
	}
	return c.current, nil
}

// observe measures how long the certificate is still valid. It also reads changed files while nobody
// connects.
func (c *certificates) observe(meter metric.Meter) error {
	set := instrument.New(meter)
	set.Int64ObservableGauge("leat.serve.certificate.remaining", "s",
		"Time until the certificate of the listener ends; below zero: it has ended.",
		instrument.Value(func() int64 {
			pair, _ := c.get(nil) // it has the last good one in any case
			return int64(time.Until(pair.Leaf.NotAfter).Seconds())
		}))
	return set.Err()
}

func (c *certificates) reload() error {
	c.checked = time.Now()
	modified, err := modificationTimes(c.certFile, c.keyFile)
	if err != nil {
		return err
	}
	if c.current != nil && modified == c.modified {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("load certificate: %w", err)
	}
	c.current, c.modified = &pair, modified
	return nil
}

func modificationTimes(certFile, keyFile string) (times [2]time.Time, err error) {
	for i, path := range []string{certFile, keyFile} {
		info, err := os.Stat(path)
		if err != nil {
			return times, fmt.Errorf("load certificate: %w", err)
		}
		times[i] = info.ModTime()
	}
	return times, nil
}
