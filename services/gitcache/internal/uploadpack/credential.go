// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"
	"golang.org/x/crypto/ssh"

	"github.com/leatdev/leat/services/gitcache/internal/githubapp"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Check implements [mirror.Upstream].
func (c *Client) Check(def mirror.Definition) error {
	def, err := c.effective(def)
	if err != nil {
		return err
	}
	return c.check(def)
}

// effective gives a definition without a credential the one that its URL has.
func (c *Client) effective(def mirror.Definition) (mirror.Definition, error) {
	if c.credentials == nil || !def.Credential.IsZero() {
		return def, nil
	}
	shared, ok := c.credentials.For(def.URL)
	if !ok || (shared.CAPEM == "" && exposes(def)) {
		return def, nil
	}
	def.Credential = shared.Credential
	if shared.CAPEM != "" {
		def.CAPEM = shared.CAPEM
	}
	if err := c.check(def); err != nil {
		return def, &mirror.FieldError{
			Field: "url", Message: fmt.Sprintf("With the credential that gitcache's file has for %s it cannot be used: %v", shared.Prefix, err),
		}
	}
	return def, nil
}

// exposes reports whether the definition itself chooses which server to take for the upstream: its
// author could be sent what is shared. SSH is safe, since known_hosts comes with the credential.
func exposes(def mirror.Definition) bool {
	plain := strings.HasPrefix(strings.ToLower(def.URL), "http://")
	return def.CAPEM != "" || (plain && def.ProxyURL != "")
}

func (c *Client) check(def mirror.Definition) error {
	t, err := parseTarget(def)
	if err != nil {
		return err
	}
	if _, err := certPool(def.CAPEM); err != nil {
		return &mirror.FieldError{Field: "ca_pem", Message: "It holds no certificate in PEM form."}
	}
	if _, err := parseProxy(def.ProxyURL); err != nil {
		return err
	}
	if err := checkClientCertificate(t); err != nil {
		return err
	}
	switch def.Credential.Method {
	case mirror.MethodGitHubApp:
		return checkApp(t)
	case mirror.MethodSSH:
		return checkSSH(t, c.dir)
	case mirror.MethodBasic:
		return checkHTTP(t, "credential.basic.password", def.Credential.Password)
	case mirror.MethodBearer:
		return checkHTTP(t, "credential.bearer.token", def.Credential.Token)
	default:
		if t.endpoint.Protocol == "ssh" {
			return &mirror.FieldError{Field: "credential.ssh", Message: "An SSH URL needs a key and known_hosts."}
		}
		return nil
	}
}

func checkClientCertificate(t target) error {
	c := t.def.Credential
	if c.ClientCertPEM == "" && c.ClientKeyPEM == "" {
		return nil
	}
	if t.endpoint.Protocol != "https" {
		return &mirror.FieldError{Field: "credential.client_certificate", Message: "Only an https URL can take it."}
	}
	if _, err := certPool(c.ClientCertPEM); err != nil || c.ClientCertPEM == "" {
		return &mirror.FieldError{Field: "credential.client_certificate.certificate_pem", Message: "It holds no certificate in PEM form."}
	}
	if _, err := tls.X509KeyPair([]byte(c.ClientCertPEM), []byte(c.ClientKeyPEM.Reveal())); err != nil {
		return &mirror.FieldError{
			Field: "credential.client_certificate.private_key_pem", Message: "It is not the certificate's private key in PEM form.",
		}
	}
	return nil
}

func checkApp(t target) error {
	c := t.def.Credential
	if c.AppID <= 0 {
		return &mirror.FieldError{Field: "credential.github_app.app_id", Message: "It must be the app's number."}
	}
	if c.InstallationID <= 0 {
		return &mirror.FieldError{Field: "credential.github_app.installation_id", Message: "It must be the installation's number."}
	}
	if err := checkHTTP(t, "credential.github_app.private_key", c.PrivateKey); err != nil {
		return err
	}
	if _, err := githubapp.ParseKey(c.PrivateKey.Reveal()); err != nil {
		return &mirror.FieldError{Field: "credential.github_app.private_key", Message: "It is not an RSA private key in PEM form."}
	}
	return checkAPIURL(c)
}

func checkAPIURL(c mirror.Credential) error {
	if c.APIURL == "" {
		return nil
	}
	u, err := url.Parse(c.APIURL)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		(u.Scheme != "https" && (u.Scheme != "http" || !c.AllowPlainHTTP)) {
		return &mirror.FieldError{
			Field: "credential.github_app.api_url", Message: "It must be an https URL without credentials, query and fragment.",
		}
	}
	return nil
}

// parseTarget reads the URL. The errors are *mirror.FieldError and never hold the URL, which might
// hold a password.
func parseTarget(def mirror.Definition) (target, error) {
	refuse := func(message string) (target, error) {
		return target{}, &mirror.FieldError{Field: "url", Message: message}
	}
	if def.URL == "" || strings.ContainsFunc(def.URL, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return refuse("It is empty, or holds white space or control characters.")
	}
	endpoint, err := transport.NewEndpoint(def.URL)
	if err != nil {
		return refuse("It is not a URL.")
	}
	switch endpoint.Protocol {
	case "http", "https":
		u, err := url.Parse(def.URL)
		if err != nil || u.Hostname() == "" {
			return refuse("It is not a URL.")
		}
		if u.User != nil {
			return refuse("It holds credentials; put them into the credential instead.")
		}
		if u.RawQuery != "" || u.Fragment != "" {
			return refuse("It has a query or a fragment.")
		}
	case "ssh":
		if endpoint.Password != "" {
			return refuse("It holds a password; put a key into the credential instead.")
		}
		if endpoint.Host == "" || strings.HasPrefix(endpoint.Host, "-") || strings.Trim(endpoint.Path, "/") == "" {
			return refuse("It names no host or no path.")
		}
	default:
		return refuse("Its scheme is not one of http, https and ssh.")
	}
	return target{def: def, endpoint: endpoint}, nil
}

func checkHTTP(t target, field string, secret mirror.Secret) error {
	switch {
	case t.endpoint.Protocol == "ssh":
		return &mirror.FieldError{Field: "credential", Message: "An SSH URL needs an SSH key."}
	case secret == "":
		return &mirror.FieldError{Field: field, Message: "It is empty."}
	case t.def.Credential.Method != mirror.MethodGitHubApp && strings.ContainsAny(secret.Reveal(), "\r\n\x00"):
		return &mirror.FieldError{Field: field, Message: "It holds a line break."}
	case t.endpoint.Protocol == "http" && !t.def.Credential.AllowPlainHTTP:
		return &mirror.FieldError{
			Field:   "credential.allow_plain_http",
			Message: "The URL is plain HTTP, over which everyone on the way could read the credential. Use https, or set this field.",
		}
	}
	return nil
}

func checkSSH(t target, dir string) error {
	if t.endpoint.Protocol != "ssh" {
		return &mirror.FieldError{Field: "credential.ssh", Message: "An SSH key cannot be used with an HTTP URL."}
	}
	if _, err := parseKey(t.def.Credential); err != nil {
		message := "It is not a private key in PEM form."
		if _, missing := errors.AsType[*ssh.PassphraseMissingError](err); missing {
			message = "The key is encrypted, and there is no passphrase."
		}
		return &mirror.FieldError{Field: "credential.ssh.private_key", Message: message}
	}
	if strings.TrimSpace(t.def.Credential.KnownHosts) == "" {
		return &mirror.FieldError{Field: "credential.ssh.known_hosts", Message: "It is empty; unknown hosts are refused."}
	}
	if _, err := parseKnownHosts(t.def.Credential.KnownHosts, dir); err != nil {
		return &mirror.FieldError{Field: "credential.ssh.known_hosts", Message: err.Error()}
	}
	return nil
}
