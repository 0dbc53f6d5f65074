// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"crypto/tls"
	"errors"
	"net/url"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/gitcache/internal/githubapp"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// checkDefinition returns nil if a definition, with the credential that it has, can be used. It
// sends nothing. dir is for files that live as long as the call. The error is a *mirror.FieldError.
func checkDefinition(def mirror.Definition, dir string) error {
	t, err := parseTarget(def)
	if err != nil {
		return err
	}
	if _, err := parseRoots(def.CAPEM); err != nil {
		return refuse("ca_pem", "It holds no certificate in PEM form.")
	}
	if _, err := parseProxy(def.ProxyURL); err != nil {
		return err
	}
	if err := checkClientCertificate(t); err != nil {
		return err
	}
	switch c := def.Credential; c.Method {
	case upstream.MethodGitHubApp:
		return checkApp(t)
	case upstream.MethodSSH:
		return checkSSH(t, dir)
	case upstream.MethodBasic:
		return checkHTTP(t, "credential.basic.password", c.Password)
	case upstream.MethodBearer:
		return checkHTTP(t, "credential.bearer.token", c.Token)
	case upstream.MethodWorkloadIdentity:
		if def.Type != upstream.TypeOCI {
			return refuse("credential.workload_identity", "It is for OCI repositories; Git and Helm repositories take another credential.")
		}
		return nil // package ociregistry checks the rest
	default:
		if t.isSSH() {
			return refuse("credential.ssh", "An SSH URL needs a key and known_hosts.")
		}
		return nil
	}
}

// checkClientCertificate checks a certificate that is shown beside any credential.
func checkClientCertificate(t target) error {
	c := t.def.Credential
	if c.ClientCertPEM == "" && c.ClientKeyPEM == "" {
		return nil
	}
	if t.endpoint.Protocol != "https" {
		return refuse("credential.client_certificate", "Only an https URL can take it.")
	}
	if _, err := parseRoots(c.ClientCertPEM); err != nil || c.ClientCertPEM == "" {
		return refuse("credential.client_certificate.certificate_pem", "It holds no certificate in PEM form.")
	}
	if _, err := tls.X509KeyPair([]byte(c.ClientCertPEM), []byte(c.ClientKeyPEM.Reveal())); err != nil {
		return refuse("credential.client_certificate.private_key_pem", "It is not the certificate's private key in PEM form.")
	}
	return nil
}

// checkApp checks a GitHub App. Its key is not sent: it signs the requests for tokens.
func checkApp(t target) error {
	c := t.def.Credential
	if c.AppID <= 0 {
		return refuse("credential.github_app.app_id", "It must be the app's number.")
	}
	if c.InstallationID <= 0 {
		return refuse("credential.github_app.installation_id", "It must be the installation's number.")
	}
	if err := checkHTTP(t, "credential.github_app.private_key", c.PrivateKey); err != nil {
		return err
	}
	if _, err := githubapp.ParseKey(c.PrivateKey.Reveal()); err != nil {
		return refuse("credential.github_app.private_key", "It is not an RSA private key in PEM form.")
	}
	if c.APIURL == "" {
		return nil
	}
	u, err := url.Parse(c.APIURL)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		(u.Scheme != "https" && (u.Scheme != "http" || !c.AllowPlainHTTP)) {
		return refuse("credential.github_app.api_url", "It must be an https URL without credentials, query and fragment.")
	}
	return nil
}

// checkHTTP checks a credential that is sent over HTTP, and its secret, which is in that field. A
// line break would end the header that carries the secret. The key of a GitHub App is not sent, and
// has some.
func checkHTTP(t target, field string, secret secret.Text) error {
	switch c := t.def.Credential; {
	case t.isSSH():
		return refuse("credential", "An SSH URL needs an SSH key.")
	case secret == "":
		return refuse(field, "It is empty.")
	case c.Method != upstream.MethodGitHubApp && strings.ContainsAny(secret.Reveal(), "\r\n\x00"):
		return refuse(field, "It holds a line break.")
	case t.endpoint.Protocol == "http" && !c.AllowPlainHTTP:
		return refuse("credential.allow_plain_http",
			"The URL is plain HTTP, over which everyone on the way could read the credential. Use https, or set this field.")
	}
	return nil
}

// checkSSH demands known_hosts, because nothing else tells the server from an impostor.
func checkSSH(t target, dir string) error {
	if !t.isSSH() {
		return refuse("credential.ssh", "An SSH key cannot be used with an HTTP URL.")
	}
	c := t.def.Credential
	if _, err := parseKey(c); err != nil {
		if _, missing := errors.AsType[*ssh.PassphraseMissingError](err); missing {
			return refuse("credential.ssh.private_key", "The key is encrypted, and there is no passphrase.")
		}
		return refuse("credential.ssh.private_key", "It is not a private key in PEM form.")
	}
	if strings.TrimSpace(c.KnownHosts) == "" {
		return refuse("credential.ssh.known_hosts", "It is empty; unknown hosts are refused.")
	}
	if _, err := parseKnownHosts(c.KnownHosts, dir); err != nil {
		return refuse("credential.ssh.known_hosts", err.Error())
	}
	return nil
}
