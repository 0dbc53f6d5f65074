// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/fielderr"
)

const (
	minPollInterval = 5 * time.Second
	maxPollInterval = 24 * time.Hour
	maxURLBytes     = 2048
	maxSecretBytes  = 64 << 10
	// A webhook's secret signs what anybody on the way may see, so it must not be guessable from
	// that.
	minWebhookSecret = 16
	maxWebhookSecret = 1024
)

// Validate implements Object.
func (r *Repository) Validate() error {
	if err := r.validate(); err != nil {
		return err
	}
	switch r.Spec.Type {
	case TypeGit, "":
	case TypeHelm, TypeOCI:
		return fielderr.New("spec.type", "%q is not supported yet; only git is", r.Spec.Type)
	default:
		return fielderr.New("spec.type", "%q is not known", r.Spec.Type)
	}
	if p := r.Spec.PollInterval; p != 0 && (p < minPollInterval || p > maxPollInterval) {
		return fielderr.New("spec.poll_interval", "is %s; it must be between %s and %s", p, minPollInterval, maxPollInterval)
	}
	scheme, err := validateURL("spec.url", r.Spec.URL)
	if err != nil {
		return err
	}
	if err := validateCertificates("spec.ca_pem", r.Spec.CAPEM); err != nil {
		return err
	}
	if err := r.Spec.WebhookSecret.validate("spec.webhook_secret"); err != nil {
		return err
	}
	if err := r.Spec.ProxyURL.validate("spec.proxy_url"); err != nil {
		return err
	}
	if err := r.Spec.Verification.validate("spec.verification"); err != nil {
		return err
	}
	return r.Spec.Credential.validate("spec.credential", scheme)
}

func (s *WebhookSecret) validate(field string) error {
	if n := len(s.Reveal()); n != 0 && (n < minWebhookSecret || n > maxWebhookSecret) {
		return fielderr.New(field, "has %d bytes; it must have %d to %d", n, minWebhookSecret, maxWebhookSecret)
	}
	return nil
}

// keepSecrets copies from current the secrets that an update leaves out, or sends back as they were
// shown. It returns an error if Leat would then send the credential to another server, or through
// another proxy, than it was given for. A webhook secret is always kept: Leat compares it with what
// it receives, and never sends it.
func (r *Repository) keepSecrets(current *Repository) error {
	if r.Spec.ProxyURL == current.Spec.ProxyURL.Masked() {
		r.Spec.ProxyURL = current.Spec.ProxyURL
	}
	if r.Spec.WebhookSecret == nil {
		r.Spec.WebhookSecret = current.Spec.WebhookSecret
	}
	if r.Spec.Credential != nil {
		return nil
	}
	if !current.Spec.Credential.Empty() {
		if before, after := serverOf(current.Spec.URL), serverOf(r.Spec.URL); before != after {
			return fielderr.New("spec.credential", "was given for %s and is not sent to %s; give the credential again, or an empty one for none", before, after)
		}
		before, after := serverOf(current.Spec.ProxyURL.Reveal()), serverOf(r.Spec.ProxyURL.Reveal())
		if r.Spec.ProxyURL != "" && before != after {
			return fielderr.New("spec.credential", "was not given for the proxy %s; give the credential again, or an empty one for none", after)
		}
	}
	r.Spec.Credential = current.Spec.Credential
	return nil
}

// serverOf returns the scheme, host and port of a valid URL in one spelling, without user and
// password. It treats user@host:path as an ssh URL.
func serverOf(raw string) string {
	if !strings.Contains(raw, "://") {
		address, _, _ := strings.Cut(raw, ":")
		_, host, _ := strings.Cut(address, "@")
		raw = "ssh://" + host
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "" // Validate rejects it
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "ssh": "22", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// checkMask refuses a password that was masked when it was read, and then sent for another proxy
// than it belongs to.
func (r *Repository) checkMask() error {
	u, err := url.Parse(r.Spec.ProxyURL.Reveal())
	if err != nil {
		return nil //nolint:nilerr // Validate tells
	}
	if password, _ := u.User.Password(); password == maskedPassword {
		return fielderr.New("spec.proxy_url", "holds %q instead of the proxy's password", maskedPassword)
	}
	return nil
}

func (p ProxyURL) validate(field string) error {
	if p == "" {
		return nil
	}
	u, err := url.Parse(string(p))
	switch {
	case len(p) > maxURLBytes:
		return fielderr.New(field, "has %d bytes; at most %d are allowed", len(p), maxURLBytes)
	case err != nil || strings.ContainsFunc(string(p), func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return fielderr.New(field, "is not a URL") // the parser's error may repeat the password
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5" && u.Scheme != "socks5h":
		return fielderr.New(field, "must begin with http://, https://, socks5:// or socks5h://")
	case u.Hostname() == "":
		return fielderr.New(field, "names no host")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return fielderr.New(field, "must not have a path, a query or a fragment")
	}
	return nil
}

// validateURL accepts http(s)://host/path, ssh://[user@]host/path and user@host:path, and returns
// the scheme.
func validateURL(field, raw string) (string, error) {
	switch {
	case raw == "":
		return "", fielderr.New(field, "is required")
	case len(raw) > maxURLBytes:
		return "", fielderr.New(field, "has %d bytes; at most %d are allowed", len(raw), maxURLBytes)
	case strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return "", fielderr.New(field, "holds white space or control characters")
	case !strings.Contains(raw, "://"):
		return "ssh", validateSCP(field, raw)
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The parser's error repeats the URL, which may hold a password.
		return "", fielderr.New(field, "is not a URL")
	}
	return u.Scheme, validateParsed(field, u)
}

func validateParsed(field string, u *url.URL) error {
	switch u.Scheme {
	case "http", "https":
		if u.User != nil {
			return fielderr.New(field, "must not hold credentials; put them into spec.credential")
		}
	case "ssh":
		if _, set := u.User.Password(); set {
			return fielderr.New(field, "must not hold a password; put the key into spec.credential")
		}
	default:
		return fielderr.New(field, "scheme %q is not supported; use https, http or ssh", u.Scheme)
	}
	switch {
	case u.Hostname() == "":
		return fielderr.New(field, "names no host")
	case u.RawQuery != "" || u.Fragment != "":
		return fielderr.New(field, "must not have a query or a fragment")
	}
	return nil
}

// validateSCP checks user@host:path, the form that ssh's scp made common.
func validateSCP(field, raw string) error {
	address, folder, ok := strings.Cut(raw, ":")
	user, host, hasUser := strings.Cut(address, "@")
	if !ok || !hasUser || user == "" || host == "" || folder == "" || strings.HasPrefix(user, "-") || strings.ContainsAny(address, "/") {
		return fielderr.New(field, "must be https://…, http://…, ssh://… or user@host:path")
	}
	return nil
}

func validateCertificates(field, text string) error {
	if text == "" {
		return nil
	}
	rest, found := []byte(text), false
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil || block.Type != "CERTIFICATE" {
			return fielderr.New(field, "holds a block that is no certificate")
		}
		found = true
	}
	if !found || strings.TrimSpace(string(rest)) != "" {
		return fielderr.New(field, "is not PEM")
	}
	return nil
}

func (c *Credential) validate(field, scheme string) error {
	if c.Empty() {
		return nil
	}
	size := len(c.Secret) + len(c.Passphrase) + len(c.KnownHosts) + len(c.Username) + len(c.APIURL) + len(c.ClientCertPEM) + len(c.ClientKeyPEM)
	if size > maxSecretBytes {
		return fielderr.New(field, "has more than %d bytes", maxSecretBytes)
	}
	if err := c.validateClientCertificate(field+".client_certificate", scheme); err != nil {
		return err
	}
	if c.Method == MethodNone {
		return nil
	}
	if (c.Method == MethodSSH) != (scheme == "ssh") {
		return fielderr.New(field+"."+string(c.Method), "does not fit a URL with the scheme %q", scheme)
	}
	if scheme == "http" && !c.AllowPlainHTTP {
		return fielderr.New(field+".allow_plain_http", "must be true to send a credential over plain http")
	}
	return c.validateMethod(field)
}

func (c *Credential) validateMethod(field string) error {
	switch c.Method {
	case MethodBasic:
		return required(field+".basic.password", c.Secret)
	case MethodBearer:
		return required(field+".bearer.token", c.Secret)
	case MethodSSH:
		if err := required(field+".ssh.private_key", c.Secret); err != nil {
			return err
		}
		return required(field+".ssh.known_hosts", c.KnownHosts)
	case MethodGitHubApp:
		return c.validateApp(field + ".github_app")
	case MethodNone:
	}
	return nil
}

func (c *Credential) validateApp(field string) error {
	switch {
	case c.AppID <= 0:
		return fielderr.New(field+".app_id", "is required: the number of the app")
	case c.InstallationID <= 0:
		return fielderr.New(field+".installation_id", "is required: the number of the installation")
	}
	if err := validateRSAKey(field+".private_key", c.Secret); err != nil {
		return err
	}
	if c.APIURL == "" {
		return nil
	}
	if u, err := url.Parse(c.APIURL); err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		(u.Scheme != "https" && (u.Scheme != "http" || !c.AllowPlainHTTP)) {
		return fielderr.New(field+".api_url", "must be an https URL without credentials, query and fragment")
	}
	return nil
}

func validateRSAKey(field, text string) error {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return fielderr.New(field, "is required: an RSA private key in PEM form")
	}
	if _, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return nil
	}
	if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		if _, ok := key.(*rsa.PrivateKey); ok {
			return nil
		}
	}
	return fielderr.New(field, "is not an RSA private key in PEM form")
}

func (c *Credential) validateClientCertificate(field, scheme string) error {
	if c.ClientCertPEM == "" && c.ClientKeyPEM == "" {
		return nil
	}
	if scheme != "https" {
		return fielderr.New(field, "does not fit a URL with the scheme %q", scheme)
	}
	if err := required(field+".certificate_pem", c.ClientCertPEM); err != nil {
		return err
	}
	if err := validateCertificates(field+".certificate_pem", c.ClientCertPEM); err != nil {
		return err
	}
	if _, err := tls.X509KeyPair([]byte(c.ClientCertPEM), []byte(c.ClientKeyPEM)); err != nil {
		return fielderr.New(field+".private_key_pem", "is not the certificate's private key in PEM form")
	}
	return nil
}

func required(field, value string) error {
	if value == "" {
		return fielderr.New(field, "is required")
	}
	return nil
}

func indexed(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }
