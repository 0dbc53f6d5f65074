// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package backendcall

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/kit/secret"
)

// maxToken bounds the file of a token.
const maxToken = 16 << 10

// HubToken is a token of the hub's pod that its operator lends to back ends. People who write
// documents of back ends choose where the hub calls, so the operator names the hosts that may be
// sent the token. The zero value is never lent.
type HubToken struct {
	// File holds the token. It is read for each use, because the cluster replaces it.
	File string
	// Hosts are the hosts that may be sent it, each as HOST or HOST:PORT; without a port it is the
	// port of https.
	Hosts []string
}

// For returns the token if the host of a base URL may be sent it.
func (t HubToken) For(base string) (secret.Text, error) {
	if t.File == "" {
		return "", errors.New("the operator of the hub has named no token for this way to sign in: --distributor-config-token-file")
	}
	u, err := url.Parse(base)
	if err != nil {
		return "", errors.New("the URL is not one")
	}
	to := hostPort(u.Host, u.Scheme)
	if !slices.ContainsFunc(t.Hosts, func(host string) bool { return hostPort(host, "https") == to }) {
		return "", fmt.Errorf("the operator of the hub does not let its token be sent to %s: --distributor-config-token-hosts", to)
	}
	return ReadToken(t.File)
}

// hostPort returns the one spelling of a host with its port.
func hostPort(host, scheme string) string {
	port := "443"
	if scheme == "http" {
		port = "80"
	}
	u := url.URL{Host: host}
	if u.Port() != "" {
		port = u.Port()
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// CheckHost reports whether a text can be one of the Hosts.
func CheckHost(text string) bool {
	u, err := url.Parse("https://" + text)
	return err == nil && u.Host == text && u.Hostname() != "" && !strings.Contains(text, "*")
}

// ReadToken reads the one token that a file of the hub's operator holds.
func ReadToken(path string) (secret.Text, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", errors.New("the token file that the operator of the hub names cannot be opened")
	}
	defer func() { _ = file.Close() }() // it was only read
	content, err := io.ReadAll(io.LimitReader(file, maxToken+1))
	token := strings.TrimSpace(string(content))
	if err != nil || token == "" || len(content) > maxToken || strings.ContainsAny(token, "\r\n") {
		return "", errors.New("the token file that the operator of the hub names does not hold one token")
	}
	return secret.Text(token), nil
}
