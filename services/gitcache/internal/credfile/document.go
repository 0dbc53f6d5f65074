// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package credfile

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
)

// document is one entry as it is written, with the names that Repository documents have.
type document struct {
	URLPrefix  string     `json:"urlPrefix"`
	Credential credential `json:"credential"`
	CAPEM      string     `json:"caPem"`
	Mirrors    []string   `json:"mirrors"`
}

// maxMirrors bounds the mirrors of one prefix: all of them may be asked before the registry itself.
const maxMirrors = 8

// mirrorsOf returns the places of the mirrors of a registry.
func (d document) mirrorsOf(prefix location) ([]location, error) {
	if len(d.Mirrors) > maxMirrors {
		return nil, fmt.Errorf("mirrors: more than %d", maxMirrors)
	}
	mirrors := make([]location, 0, len(d.Mirrors))
	for i, text := range d.Mirrors {
		at, err := parseLocation(text)
		switch {
		case err != nil:
			return nil, fmt.Errorf("mirrors[%d]: %w", i, err)
		case prefix.kind() != upstream.TypeOCI || at.kind() != upstream.TypeOCI:
			return nil, errors.New("mirrors: they are for registries: begin the prefix and the mirrors with oci:// or oci+http://")
		case prefix.holds(at):
			return nil, fmt.Errorf("mirrors[%d]: it is below the prefix itself", i)
		}
		mirrors = append(mirrors, at)
	}
	return mirrors, nil
}

type credential struct {
	Basic             *basic       `json:"basic"`
	Bearer            *bearer      `json:"bearer"`
	SSH               *ssh         `json:"ssh"`
	GitHubApp         *gitHubApp   `json:"githubApp"`
	WorkloadIdentity  *identity    `json:"workloadIdentity"`
	ClientCertificate *certificate `json:"clientCertificate"`
	AllowPlainHTTP    bool         `json:"allowPlainHttp"`
}

type basic struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

type bearer struct {
	Token string `json:"token"`
}

type ssh struct {
	PrivateKey string `json:"privateKey"`
	Passphrase string `json:"passphrase"`
	KnownHosts string `json:"knownHosts"`
}

type gitHubApp struct {
	AppID          int64  `json:"appId"`
	InstallationID int64  `json:"installationId"`
	PrivateKey     string `json:"privateKey"`
	APIURL         string `json:"apiUrl"`
}

type identity struct {
	Provider  string `json:"provider"`
	Principal string `json:"principal"`
	Scope     string `json:"scope"`
}

type certificate struct {
	CertificatePEM string `json:"certificatePem"`
	PrivateKeyPEM  string `json:"privateKeyPem"`
}

// providerPrefix begins the names of clouds where documents spell them as the protocol does.
const providerPrefix = "cloud_provider_"

// parse makes a credential of the one method that is set.
func (c credential) parse() (upstream.Credential, error) {
	parsed, methods := upstream.Credential{AllowPlainHTTP: c.AllowPlainHTTP}, 0
	if c.Basic != nil {
		methods++
		parsed.Method, parsed.Username, parsed.Password = upstream.MethodBasic, c.Basic.Username, secret.Text(c.Basic.Password)
	}
	if c.Bearer != nil {
		methods++
		parsed.Method, parsed.Token = upstream.MethodBearer, secret.Text(c.Bearer.Token)
	}
	if c.SSH != nil {
		methods++
		parsed.Method, parsed.KnownHosts = upstream.MethodSSH, c.SSH.KnownHosts
		parsed.PrivateKey, parsed.Passphrase = secret.Text(c.SSH.PrivateKey), secret.Text(c.SSH.Passphrase)
	}
	if app := c.GitHubApp; app != nil {
		methods++
		parsed.Method, parsed.PrivateKey = upstream.MethodGitHubApp, secret.Text(app.PrivateKey)
		parsed.AppID, parsed.InstallationID, parsed.APIURL = app.AppID, app.InstallationID, app.APIURL
	}
	if id := c.WorkloadIdentity; id != nil {
		methods++
		parsed.Method, parsed.Cloud = upstream.MethodWorkloadIdentity, upstream.Cloud(strings.TrimPrefix(strings.ToLower(id.Provider), providerPrefix))
		parsed.Principal, parsed.Scope = id.Principal, id.Scope
	}
	if c.ClientCertificate != nil {
		parsed.ClientCertPEM = c.ClientCertificate.CertificatePEM
		parsed.ClientKeyPEM = secret.Text(c.ClientCertificate.PrivateKeyPEM)
	}
	switch {
	case methods > 1:
		return parsed, errors.New("credential: more than one of basic, bearer, ssh, githubApp and workloadIdentity")
	case methods == 0 && c.ClientCertificate == nil:
		return parsed, errors.New("credential: none of basic, bearer, ssh, githubApp, workloadIdentity and clientCertificate")
	}
	return parsed, nil
}

// harmless are the words of parsers that cannot repeat a value of the file: places, names of
// fields, and types.
var harmless = regexp.MustCompile(`line \d+|unknown field "[A-Za-z]{1,40}"|struct field [A-Za-z.]+ of type [a-z0-9]+`)

// syntax keeps of a parser's error only what cannot hold a secret.
func syntax(err error) error {
	if found := harmless.FindString(err.Error()); found != "" {
		return errors.New(found)
	}
	return errors.New("malformed")
}
