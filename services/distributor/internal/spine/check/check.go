// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package check has the checks of fields that several kinds of objects have. Each returns a *fielderr.Error that names
// the field, or nil. Nothing here reads anything but its arguments.
package check

import (
	"cmp"
	"crypto/x509"
	"net"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/runtime/dialguard"
)

// The bounds, in bytes.
const (
	MaxName        = 63 // of a DNS label, RFC 1123, and of the names of labels
	MaxDescription = 1024
	maxHostBytes   = 253 // of a DNS name
	maxProviderCA  = 64 << 10
)

var (
	dnsDomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	labelName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
)

// Description checks the length of an object's description.
func Description(description string) error {
	if len(description) > MaxDescription {
		return fielderr.New("spec.description", "has %d bytes; at most %d are allowed", len(description), MaxDescription)
	}
	return nil
}

// Labels checks the keys and the values of labels, as Kubernetes does.
func Labels(field string, labels map[string]string) error {
	for key, value := range labels {
		at := field + "[" + key + "]"
		if err := cmp.Or(Qualified(at, key), LabelValue(at, value)); err != nil {
			return err
		}
	}
	return nil
}

// Qualified checks a key of Kubernetes' form [prefix/]name.
func Qualified(field, key string) error {
	prefix, name, qualified := strings.Cut(key, "/")
	if !qualified {
		prefix, name = "", key
	}
	if qualified && (len(prefix) > 253 || !dnsDomain.MatchString(prefix)) {
		return fielderr.New(field, "prefix %q is not a DNS domain", prefix)
	}
	if len(name) > MaxName || !labelName.MatchString(name) {
		return fielderr.New(field, "name %q must be 1 to %d letters, digits, '-', '_' and '.', with a letter or digit at both ends", name, MaxName)
	}
	return nil
}

// LabelValue checks the value of a label, which may be empty.
func LabelValue(field, value string) error {
	if value != "" && (len(value) > MaxName || !labelName.MatchString(value)) {
		return fielderr.New(field, "%q is no label value: at most %d letters, digits, '-', '_' and '.', with a letter or digit at both ends", value, MaxName)
	}
	return nil
}

// Line refuses a text of more than limit bytes, or of more than one line.
func Line(field, text string, limit int) error {
	switch {
	case len(text) > limit:
		return fielderr.New(field, "has %d bytes; at most %d are allowed", len(text), limit)
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fielderr.New(field, "holds a control character")
	}
	return nil
}

// Within refuses a time that is set and not within the bounds.
func Within(field string, d, least, most time.Duration) error {
	if d != 0 && (d < least || d > most) {
		return fielderr.New(field, "is %s; from %s to %s are allowed", d, least, most)
	}
	return nil
}

// CA refuses text that is set and holds no PEM certificate.
func CA(pem string) error {
	switch {
	case pem == "":
		return nil
	case len(pem) > maxProviderCA:
		return fielderr.New("spec.ca_pem", "has %d bytes; at most %d are allowed", len(pem), maxProviderCA)
	case !x509.NewCertPool().AppendCertsFromPEM([]byte(pem)):
		return fielderr.New("spec.ca_pem", "holds no PEM certificate")
	}
	return nil
}

// IsLoopback reports whether a host is a loopback address, or localhost.
func IsLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// IsLocal reports whether a host is an address of the hub's own machine or link, or the name of one that everybody knows.
func IsLocal(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && dialguard.Local(address) || strings.EqualFold(host, "localhost")
}

// Host returns the host of a URL that was checked before, without its port.
func Host(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "" // Validate has refused it
	}
	return u.Hostname()
}

// Endpoint checks an address that is dialled: host:port, or nothing.
func Endpoint(field, endpoint string) error {
	if endpoint == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		return fielderr.New(field, "%q is not host:port", endpoint)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fielderr.New(field, "%q has no port between 1 and 65535", endpoint)
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	if len(host) > maxHostBytes || !dnsDomain.MatchString(strings.ToLower(host)) {
		return fielderr.New(field, "%q is neither an IP address nor a DNS name", host)
	}
	return nil
}

// NamePattern checks a pattern of names, in which * stands for any text.
func NamePattern(field, pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" || len(pattern) > objectname.MaxLabel || strings.ContainsAny(pattern, "/[]?\\") {
		return fielderr.New(field, "%.80q is not a pattern of names: letters, digits, - and *", pattern)
	}
	return nil
}
