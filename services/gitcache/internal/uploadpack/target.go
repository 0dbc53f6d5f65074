// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack/route"
)

// target is a definition whose URL was found usable.
type target struct {
	def      mirror.Definition
	endpoint *transport.Endpoint
}

// refuse returns the error for a field of a definition. The message must not repeat a secret.
func refuse(field, message string) error {
	return &mirror.FieldError{Field: field, Message: message}
}

// parseTarget reads the URL. The errors are *mirror.FieldError and never hold the URL, which might
// hold a password.
func parseTarget(def mirror.Definition) (target, error) {
	if def.URL == "" || strings.ContainsFunc(def.URL, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return target{}, refuse("url", "It is empty, or holds white space or control characters.")
	}
	if def.Type == upstream.TypeOCI {
		at, err := upstream.ParseRegistry(def.URL)
		if err != nil {
			return target{}, refuse("url", "It is not the URL of an OCI repository, such as oci://registry.example.com/team/web.")
		}
		def.URL = at.Base.String() + "/v2/" + at.Name // as requests have it
	}
	endpoint, err := transport.NewEndpoint(def.URL)
	if err != nil {
		return target{}, refuse("url", "It is not a URL.")
	}
	message := ""
	switch endpoint.Protocol {
	case "http", "https":
		u, err := url.Parse(def.URL)
		switch {
		case err != nil || u.Hostname() == "":
			message = "It is not a URL."
		case u.User != nil:
			message = "It holds credentials; put them into the credential instead."
		case u.RawQuery != "" || u.Fragment != "":
			message = "It has a query or a fragment."
		}
	case "ssh":
		switch {
		case endpoint.Password != "":
			message = "It holds a password; put a key into the credential instead."
		case endpoint.Host == "" || strings.HasPrefix(endpoint.Host, "-") || strings.Trim(endpoint.Path, "/") == "":
			message = "It names no host or no path."
		}
	default:
		message = "Its scheme is not one of http, https and ssh."
	}
	if message != "" {
		return target{}, refuse("url", message)
	}
	return target{def: def, endpoint: endpoint}, nil
}

func (t target) isSSH() bool { return t.endpoint.Protocol == "ssh" }

// port returns the port that the URL names, or "".
func (t target) port() string {
	if t.endpoint.Port <= 0 {
		return ""
	}
	return fmt.Sprint(t.endpoint.Port)
}

// host returns the name of the host for limits.
func (t target) host() string {
	return route.HostName(t.endpoint.Protocol, t.endpoint.Host, t.port())
}

// sshAddress returns the host:port of an SSH server.
func (t target) sshAddress() string {
	port := t.port()
	if port == "" {
		port = "22"
	}
	return net.JoinHostPort(t.endpoint.Host, port)
}

// parseProxy reads the proxy of a definition; nil where it has none. The error is a
// *mirror.FieldError without the URL.
func parseProxy(secret secret.Text) (*url.URL, error) {
	if secret == "" {
		return nil, nil
	}
	u, err := url.Parse(secret.Reveal())
	switch {
	case err != nil || u.Hostname() == "":
		return nil, refuse("proxy_url", "It is not a URL with a host.")
	case !route.IsProxyScheme(u.Scheme):
		return nil, refuse("proxy_url", "Its scheme is not one of http, https, socks5 and socks5h.")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, refuse("proxy_url", "It has a path, a query or a fragment.")
	}
	return u, nil
}

// parseRoots returns the certificates of a PEM text, and nil for the system's where it is empty.
func parseRoots(pem string) (*x509.CertPool, error) {
	if pem == "" {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(pem)) {
		return nil, errors.New("no certificate found in the PEM text")
	}
	return pool, nil
}

// parseKey reads the private key of a credential, which may be encrypted with its passphrase.
func parseKey(c upstream.Credential) (ssh.Signer, error) {
	if c.Passphrase != "" {
		return ssh.ParsePrivateKeyWithPassphrase([]byte(c.PrivateKey.Reveal()), []byte(c.Passphrase.Reveal()))
	}
	return ssh.ParsePrivateKey([]byte(c.PrivateKey.Reveal()))
}

// parseKnownHosts writes the lines to a file in dir, because the library reads nothing else.
func parseKnownHosts(lines, dir string) (*knownhosts.HostKeyDB, error) {
	f, err := os.CreateTemp(dir, "tmp-known-hosts-")
	if err != nil {
		return nil, fmt.Errorf("read known_hosts: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString(lines)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read known_hosts: %w", err)
	}
	db, err := knownhosts.NewDB(f.Name())
	if err != nil {
		// The library names the file, which means nothing to the person whose lines these are.
		return nil, errors.New(strings.ReplaceAll(err.Error(), f.Name(), "known_hosts"))
	}
	return db, nil
}
