// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"time"
)

// MaxGenerated bounds the bytes that random functions return in one service, with the names of their
// places. The agent keeps them for many services in one Secret, which may have 1 MiB.
const MaxGenerated = 64 << 10

// Generated holds what random functions returned, as JSON, by the place of their call. It holds
// secrets.
type Generated map[string]string

// Covers reports whether g has every value of other, at its place.
func (g Generated) Covers(other Generated) bool {
	for place, value := range other {
		if known, ok := g[place]; !ok || known != value {
			return false
		}
	}
	return true
}

// Size returns the bytes of all values and places.
func (g Generated) Size() (total int) {
	for place, value := range g {
		total += len(place) + len(value)
	}
	return total
}

// HasCertificate reports whether one of the values is a certificate, which has to be generated again
// some day.
func (g Generated) HasCertificate() bool {
	for _, value := range g {
		if certificate(value) != nil {
			return true
		}
	}
	return false
}

// Current returns g without the certificates that are in the last third of their life, or past it:
// the next render generates those again, and so clients have the other two thirds to learn of it.
// Certificates that an authority has signed are renewed with it, because the authority is an
// argument of its call.
func (g Generated) Current(now time.Time) Generated {
	current := g
	for place, value := range g {
		c := certificate(value)
		if c == nil || now.Before(c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore)/3)) {
			continue
		}
		if len(current) == len(g) {
			current = maps.Clone(g)
		}
		delete(current, place)
	}
	return current
}

// certificate returns the certificate that a function for certificates returned, and nil for other
// values.
func certificate(value string) *x509.Certificate {
	var pair struct{ Cert string }
	if json.Unmarshal([]byte(value), &pair) != nil {
		return nil
	}
	block, _ := pem.Decode([]byte(pair.Cert))
	if block == nil {
		return nil
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	return c
}
