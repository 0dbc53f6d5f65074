// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/kit/signers"
)

// Bounds of single fields.
const (
	minPollInterval    = 5 * time.Second
	maxPollInterval    = 24 * time.Hour
	maxURLBytes        = 2048
	maxCertificates    = 256 << 10
	maxKeysBytes       = 256 << 10 // of each list of a Verification
	maxCredentialBytes = 64 << 10
	// A webhook's secret signs text that others can see, so it must not be guessable from that.
	minWebhookSecret = 16
	maxWebhookSecret = 1024

	maxCharts     = 1000
	maxChartBytes = 250 // of a chart's name or a pattern, as Helm bounds names
	maxTokenHosts = 16
	maxHostBytes  = 260

	maxChartRepositories = 64

	maxPushBranches = 32
	maxAuthorBytes  = 200 // of a name or an address
)

// Validate checks everything that can be checked without reaching the upstream. The error is a
// *fielderr.Error whose path begins at the definition. A definition stays valid: whether its keys
// have expired is the question of [Verification.ValidateKeys].
func (d Definition) Validate() error {
	if err := validateType("type", d.Type); err != nil {
		return err
	}
	scheme, urlErr := d.validateURL("url")
	return cmp.Or(
		validateInterval("poll_interval", d.PollInterval),
		urlErr,
		d.validateOptions(),
		validateCertificates("ca_pem", d.CAPEM),
		validateWebhookSecret("webhook_secret", d.WebhookSecret),
		validateProxy("proxy_url", d.ProxyURL.Reveal()),
		fielderr.Within("verification", cmp.Or(d.validateVerification(), d.Verification.validate())),
		d.Credential.validate("credential", scheme),
		d.validateMethod("credential"),
		d.validatePush("push"),
	)
}

func validateType(field string, t Type) error {
	switch t {
	case TypeGit, TypeHelm, TypeOCI, "":
		return nil
	}
	return fielderr.New(field, "%q is not known; it must be git, helm or oci", t)
}

// validateURL checks the URL in the form that the type has, and returns the scheme of the
// connection: http, https or ssh.
func (d Definition) validateURL(field string) (string, error) {
	if d.Type != TypeOCI {
		scheme, err := validateURL(field, d.URL)
		if err == nil && d.Type == TypeHelm && scheme == "ssh" {
			err = fielderr.New(field, "must begin with https:// or http://: a Helm repository is an index over HTTP")
		}
		return scheme, err
	}
	if err := validateText(field, d.URL); err != nil {
		return "", err
	}
	at, err := ParseRegistry(d.URL)
	if err != nil {
		return "", fielderr.Within(field, err)
	}
	return at.Base.Scheme, nil
}

// validateOptions checks the options that belong to one type, and refuses options of other types:
// an option that does nothing would look as if it did.
func (d Definition) validateOptions() error {
	kind := d.WithDefaults().Type
	switch {
	case kind.IsArtifacts() && d.PartialClone:
		return fielderr.New("partial_clone", "is for Git repositories; charts and artifacts are always fetched when they are first needed")
	case kind != TypeHelm && d.Charts != "":
		return fielderr.New("charts", "is for Helm repositories")
	case !kind.IsArtifacts() && d.Immutable:
		return fielderr.New("immutable", "is for Helm and OCI repositories")
	case kind != TypeOCI && d.TokenHosts != "":
		return fielderr.New("token_hosts", "is for OCI repositories")
	case kind != TypeGit && d.ChartRepositories != "":
		return fielderr.New("chart_repositories", "is for Git repositories; charts elsewhere bring their dependencies with them")
	}
	return cmp.Or(
		fielderr.Each("charts", "charts", d.Charts.Names(), maxCharts, validateChart),
		fielderr.Each("token_hosts", "hosts", d.TokenHosts.Names(), maxTokenHosts, validateHost),
		fielderr.Each("chart_repositories", "names", d.ChartRepositories.Names(), maxChartRepositories, validateName),
	)
}

// validateName accepts the name of a repository, be it defined or not.
func validateName(field, name string) error {
	return objectname.Validate(field, name)
}

// validateChart accepts a chart's name, or a pattern of [path.Match].
func validateChart(field, pattern string) error {
	switch {
	case pattern == "" || len(pattern) > maxChartBytes:
		return fielderr.New(field, "must have 1 to %d bytes", maxChartBytes)
	case strings.ContainsFunc(pattern, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '/' }):
		return fielderr.New(field, "must not hold white space, control characters or slashes")
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return fielderr.New(field, "is not a pattern: a bracket is not closed, or a backslash ends it")
	}
	return nil
}

// validateHost accepts host or host:port.
func validateHost(field, host string) error {
	u, err := url.Parse("https://" + host)
	if err != nil || len(host) > maxHostBytes || u.Host != host || u.Hostname() == "" {
		return fielderr.New(field, "must be a host, or host:port")
	}
	return nil
}

// validateMethod checks that the credential's method is one that the type can use.
func (d Definition) validateMethod(field string) error {
	kind, method := d.WithDefaults().Type, d.Credential.Method
	switch method {
	case MethodSSH, MethodGitHubApp:
		if kind.IsArtifacts() {
			return fielderr.New(field+"."+string(method), "is for Git repositories")
		}
	case MethodDockerConfig:
		if kind != TypeOCI {
			return fielderr.New(field+".docker_config", "is for OCI repositories; use basic")
		}
		at, err := ParseRegistry(d.URL)
		if err == nil {
			_, err = ParseDockerConfig(d.Credential.DockerConfig, at.Base.Host)
		}
		return fielderr.Within(field+".docker_config.config_json", err)
	case MethodWorkloadIdentity:
		return d.validateWorkloadIdentity(field + ".workload_identity")
	case MethodNone, MethodBasic, MethodBearer:
	}
	return nil
}

// validateInterval keeps one repository from using up its host's patience, and a slip of a unit
// from hiding pushes for days. Zero is the default.
func validateInterval(field string, p time.Duration) error {
	if p != 0 && (p < minPollInterval || p > maxPollInterval) {
		return fielderr.New(field, "is %s; it must be between %s and %s", p, minPollInterval, maxPollInterval)
	}
	return nil
}

// validateWebhookSecret accepts an empty secret: then the hub's counts.
func validateWebhookSecret(field string, s secret.Text) error {
	if n := len(s); n != 0 && (n < minWebhookSecret || n > maxWebhookSecret) {
		return fielderr.New(field, "has %d bytes; it must have %d to %d", n, minWebhookSecret, maxWebhookSecret)
	}
	return nil
}

// ValidateKeys checks that each list of keys has a key that can still sign at the given time: that
// all have expired would otherwise be noticed at the next push.
func (v Verification) ValidateKeys(now time.Time) error {
	set, err := v.signers()
	if err != nil || v.Mode == ModeNone || v.Mode == ModeArtifact && v.ProvenanceKeys == "" {
		return err // keys of cosign have no end
	}
	return keyError(set.Usable(now))
}

// validateVerification refuses keys and modes that are not for repositories of the type: a key that
// is never checked would look as if it counted.
func (d Definition) validateVerification() error {
	v, kind := d.Verification, d.WithDefaults().Type
	switch {
	case v == Verification{}:
		return nil
	case !kind.IsArtifacts() && v.Mode == ModeArtifact:
		return fielderr.New("mode", "must be commit, tag or tag_and_commit: artifact is for Helm and OCI repositories")
	case !kind.IsArtifacts() && v.CosignKeys != "":
		return fielderr.New(string(signers.ListCosign), "is for OCI repositories; use pgp_keys or ssh_allowed_signers")
	case !kind.IsArtifacts() && v.ProvenanceKeys != "":
		return fielderr.New(string(signers.ListProvenance), "is for Helm and OCI repositories; use pgp_keys")
	case !kind.IsArtifacts():
		return nil
	case v.Mode != ModeArtifact:
		return fielderr.New("mode", "must be artifact, or left out, for Helm and OCI repositories")
	case v.PGPKeys != "":
		return fielderr.New(string(signers.ListPGP), "is for Git repositories; the keys of provenance files are provenance_keys")
	case v.SSHAllowedSigners != "":
		return fielderr.New(string(signers.ListSSH), "is for Git repositories")
	case kind == TypeHelm && v.CosignKeys != "":
		return fielderr.New(string(signers.ListCosign), "is for OCI repositories; Helm repositories have provenance files, see provenance_keys")
	case kind == TypeHelm && v.ProvenanceKeys == "":
		return fielderr.New(string(signers.ListProvenance), "is required")
	case v.CosignKeys == "" && v.ProvenanceKeys == "":
		return fielderr.New(string(signers.ListCosign), "or provenance_keys is required")
	}
	return nil
}

// validate leaves out whether keys have expired. gitcache validates definitions again when it has
// lost them, and must not reject one then that the catalog accepted years ago.
func (v Verification) validate() error {
	_, err := v.signers()
	return err
}

// signers returns the keys whose signatures count: an empty set if none is required. Keys of cosign
// are checked, and not part of the set.
func (v Verification) signers() (*signers.Set, error) {
	if n := max(len(v.PGPKeys), len(v.SSHAllowedSigners), len(v.CosignKeys), len(v.ProvenanceKeys)); n > maxKeysBytes {
		return nil, fielderr.New("", "has a list of %d bytes; at most %d are allowed", n, maxKeysBytes)
	}
	switch v.Mode {
	case ModeCommit, ModeTag, ModeTagAndCommit:
		set, err := signers.Parse(v.PGPKeys, v.SSHAllowedSigners)
		return set, keyError(err)
	case ModeArtifact:
		return v.artifactSigners()
	case ModeNone:
		return new(signers.Set), nil
	default:
		return nil, fielderr.New("mode", "must be commit, tag or tag_and_commit, or artifact for Helm and OCI repositories")
	}
}

func (v Verification) artifactSigners() (*signers.Set, error) {
	if v.CosignKeys != "" {
		if _, err := signers.ParsePublicKeys(v.CosignKeys); err != nil {
			return nil, keyError(err)
		}
	}
	if v.ProvenanceKeys == "" {
		return new(signers.Set), nil
	}
	set, err := signers.ParseProvenance(v.ProvenanceKeys)
	return set, keyError(err)
}

// keyError names the list that an error of package signers is about.
func keyError(err error) error {
	if key, ok := errors.AsType[*signers.KeyError](err); ok {
		return fielderr.New(string(key.List), "%s", key.Message)
	}
	if err != nil {
		return fielderr.New(string(signers.ListPGP), "or ssh_allowed_signers is required")
	}
	return nil
}

// validateProxy checks the URL of a proxy. Its user and password may be anything, so no message
// repeats the URL.
func validateProxy(field, p string) error {
	if p == "" {
		return nil
	}
	u, err := url.Parse(p)
	switch {
	case len(p) > maxURLBytes:
		return fielderr.New(field, "has %d bytes; at most %d are allowed", len(p), maxURLBytes)
	case err != nil || strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r == 0x7f }):
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
	if err := validateText(field, raw); err != nil {
		return "", err
	}
	if !strings.Contains(raw, "://") {
		return "ssh", validateSCP(field, raw)
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The parser's error repeats the URL, which may hold a password.
		return "", fielderr.New(field, "is not a URL")
	}
	return u.Scheme, validateParsed(field, u)
}

// validateText checks what every URL has in common.
func validateText(field, raw string) error {
	switch {
	case raw == "":
		return fielderr.New(field, "is required")
	case len(raw) > maxURLBytes:
		return fielderr.New(field, "has %d bytes; at most %d are allowed", len(raw), maxURLBytes)
	case strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return fielderr.New(field, "holds white space or control characters")
	}
	return nil
}

// validateParsed rejects credentials in a URL, because a URL is shown to everybody who may read the
// repository. The user of an SSH URL is not a secret.
func validateParsed(field string, u *url.URL) error {
	switch u.Scheme {
	case "http", "https":
		if u.User != nil {
			return fielderr.New(field, "must not hold credentials; put them into the credential")
		}
	case "ssh":
		if _, set := u.User.Password(); set {
			return fielderr.New(field, "must not hold a password; put the key into the credential")
		}
	default:
		return fielderr.New(field, "scheme %q is not supported; use https, http or ssh, or oci with the type oci", u.Scheme)
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

// validateCertificates accepts nothing but PEM certificates, one after the other. A private key
// among them was put into the wrong field, which is not sealed.
func validateCertificates(field, text string) error {
	switch {
	case text == "":
		return nil
	case len(text) > maxCertificates:
		return fielderr.New(field, "has %d bytes; at most %d are allowed", len(text), maxCertificates)
	}
	rest, found := []byte(text), false
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil || block.Type != "CERTIFICATE" {
			return fielderr.New(field, "holds a block that is not a certificate")
		}
		found = true
	}
	if !found || strings.TrimSpace(string(rest)) != "" {
		return fielderr.New(field, "is not PEM")
	}
	return nil
}

// validate checks that the credential is complete for its method and fits the scheme of the URL. A
// credential never travels over plain HTTP unless its author allows that.
func (c Credential) validate(field, scheme string) error {
	if c.IsZero() {
		return nil
	}
	size := len(c.Username) + len(c.Password) + len(c.Token) + len(c.PrivateKey) + len(c.Passphrase) + len(c.KnownHosts) +
		len(c.APIURL) + len(c.DockerConfig) + len(c.Principal) + len(c.Scope) + len(c.ClientCertPEM) + len(c.ClientKeyPEM)
	if size > maxCredentialBytes {
		return fielderr.New(field, "has more than %d bytes", maxCredentialBytes)
	}
	if err := c.validateClientCertificate(field+".client_certificate", scheme); err != nil {
		return err
	}
	if c.Method == MethodNone {
		return nil
	}
	if c.Method == MethodWorkloadIdentity {
		if scheme != "https" {
			return fielderr.New(field+".workload_identity", "is sent over https alone; it does not fit a URL with the scheme %q", scheme)
		}
		return fielderr.Within(field+".workload_identity", c.CheckWorkloadIdentity())
	}
	if (c.Method == MethodSSH) != (scheme == "ssh") {
		return fielderr.New(field+"."+string(c.Method), "does not fit a URL with the scheme %q", scheme)
	}
	if scheme == "http" && !c.AllowPlainHTTP {
		return fielderr.New(field+".allow_plain_http", "must be true to send a credential over plain http")
	}
	return c.validateMethod(field)
}

// validateMethod checks the fields of the credential's method. A key for SSH without known hosts is
// rejected, because Leat does not trust a host on first use.
func (c Credential) validateMethod(field string) error {
	switch c.Method {
	case MethodBasic:
		return required(field+".basic.password", c.Password.Reveal())
	case MethodBearer:
		return required(field+".bearer.token", c.Token.Reveal())
	case MethodSSH:
		return cmp.Or(required(field+".ssh.private_key", c.PrivateKey.Reveal()), required(field+".ssh.known_hosts", c.KnownHosts))
	case MethodGitHubApp:
		return c.validateApp(field + ".github_app")
	case MethodDockerConfig:
		return required(field+".docker_config.config_json", c.DockerConfig.Reveal())
	case MethodNone, MethodWorkloadIdentity:
	}
	return nil
}

// validateApp checks a GitHub App. Its API receives a token that the app's key signs, so it has to
// be https like the upstream, with the same exception.
func (c Credential) validateApp(field string) error {
	switch {
	case c.AppID <= 0:
		return fielderr.New(field+".app_id", "is required: the number of the app")
	case c.InstallationID <= 0:
		return fielderr.New(field+".installation_id", "is required: the number of the installation")
	}
	if err := validateRSAKey(field+".private_key", c.PrivateKey.Reveal()); err != nil {
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

// validateRSAKey accepts the two forms in which GitHub and openssl write RSA keys: PKCS #1 and
// PKCS #8.
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

// validateClientCertificate checks that the key belongs to the certificate: a TLS handshake would
// report that as a failure of the upstream.
func (c Credential) validateClientCertificate(field, scheme string) error {
	if c.ClientCertPEM == "" && c.ClientKeyPEM == "" {
		return nil
	}
	if scheme != "https" {
		return fielderr.New(field, "does not fit a URL with the scheme %q", scheme)
	}
	chain := field + ".certificate_pem"
	if err := cmp.Or(required(chain, c.ClientCertPEM), validateCertificates(chain, c.ClientCertPEM)); err != nil {
		return err
	}
	if _, err := tls.X509KeyPair([]byte(c.ClientCertPEM), []byte(c.ClientKeyPEM.Reveal())); err != nil {
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

// validatePush checks what a definition lets the hub push.
func (d Definition) validatePush(field string) error {
	p := d.Push
	switch {
	case p == Push{}:
		return nil
	case d.WithDefaults().Type != TypeGit:
		return fielderr.New(field, "is for Git repositories")
	case p.Branches == "":
		return fielderr.New(field+".branches", "is required: the branches that the hub may push to, such as leat/*")
	}
	return cmp.Or(
		fielderr.Each(field+".branches", "branches", p.Branches.Names(), maxPushBranches, validatePushBranch),
		validateAuthor(field+".author_name", p.AuthorName, ""),
		validateAuthor(field+".author_email", p.AuthorEmail, " "),
		validateForge(field+".forge", p.Forge),
		validateAPI(field+".api_url", p.APIURL, d.Credential.AllowPlainHTTP),
	)
}

// validatePushBranch accepts the name of a branch, or a pattern that some name matches.
func validatePushBranch(field, pattern string) error {
	if strings.HasPrefix(pattern, "refs/") {
		return fielderr.New(field, "is the name of a branch, without refs/heads/")
	}
	if !ValidBranch(strings.ReplaceAll(pattern, "*", "x")) {
		return fielderr.New(field, "is not the name of a branch, nor a pattern such as leat/*")
	}
	return nil
}

// validateAuthor accepts what a commit's header can hold.
func validateAuthor(field, text, refused string) error {
	switch {
	case text == "":
		return nil
	case len(text) > maxAuthorBytes:
		return fielderr.New(field, "has %d bytes; at most %d are allowed", len(text), maxAuthorBytes)
	case strings.TrimSpace(text) != text || strings.ContainsAny(text, "<>"+refused) || strings.ContainsFunc(text, unicode.IsControl):
		return fielderr.New(field, "must not hold <, >, control characters or white space at its ends, and an address no white space")
	}
	return nil
}

func validateForge(field string, f Forge) error {
	switch f {
	case ForgeGitHub, ForgeGitLab, ForgeGitea, "":
		return nil
	}
	return fielderr.New(field, "%q is not known; it must be github, gitlab or gitea", f)
}

// validateAPI accepts the base URL of an API that the credential is sent to.
func validateAPI(field, raw string, allowsPlain bool) error {
	if raw == "" {
		return nil
	}
	u, err := url.Parse(raw)
	if err != nil || len(raw) > maxURLBytes || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		(u.Scheme != "https" && (u.Scheme != "http" || !allowsPlain)) {
		return fielderr.New(field, "must be an https URL without credentials, query and fragment")
	}
	return nil
}
