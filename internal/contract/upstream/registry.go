// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"strings"

	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/kit/secret"
)

// The schemes of OCI repositories. SchemeOCI is reached by https.
const (
	SchemeOCI      = "oci"
	SchemeOCIPlain = "oci+http"
)

// maxRegistryName is the bound that registries commonly put on host and name together.
const maxRegistryName = 255

// registryName is the form of <name> in the OCI distribution specification 1.1.
var registryName = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)

// Registry is where an OCI repository is.
type Registry struct {
	// Base is the registry's root: scheme http or https, and a host, without a path.
	Base *url.URL
	// Name is the repository's name within the registry, such as "team/charts/web".
	Name string
}

// ParseRegistry reads the URL of an OCI repository: oci://host[:port]/name, or with oci+http:// for
// a registry that is reached over plain HTTP. The error is a *fielderr.Error without a path, and
// does not repeat the URL.
func ParseRegistry(raw string) (Registry, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return Registry{}, fielderr.New("", "is not a URL")
	}
	r := Registry{Base: &url.URL{Scheme: "https", Host: u.Host}, Name: strings.TrimSuffix(strings.TrimPrefix(u.Path, "/"), "/")}
	switch {
	case u.Scheme == SchemeOCIPlain:
		r.Base.Scheme = "http"
	case u.Scheme != SchemeOCI:
		return Registry{}, fielderr.New("", "must be oci://host/name, or oci+http://host/name for a registry without TLS")
	}
	if IsDockerHub(strings.ToLower(u.Host)) {
		r.Base.Host = dockerHub
	}
	switch {
	case u.User != nil:
		return Registry{}, fielderr.New("", "must not hold credentials; put them into the credential")
	case u.Hostname() == "":
		return Registry{}, fielderr.New("", "names no host")
	case u.RawQuery != "" || u.Fragment != "":
		return Registry{}, fielderr.New("", "must not have a query or a fragment")
	case len(u.Host)+len(r.Name) > maxRegistryName || !registryName.MatchString(r.Name):
		return Registry{}, fielderr.New("", "must name a repository of the registry: lower-case letters, digits and single separators "+
			"between them, without a tag or a digest")
	}
	return r, nil
}

// DockerLogin is the entry of a .dockerconfigjson for one registry. Either Token or Refresh is set,
// or Password is.
type DockerLogin struct {
	Username string
	Password secret.Text
	Refresh  secret.Text // an identity token, which is traded for access tokens
	Token    secret.Text // an access token
}

// dockerHubKey is the key under which docker login keeps the credential for Docker Hub.
const dockerHubKey = "https://index.docker.io/v1/"

// dockerHub is the host that serves Docker Hub.
const dockerHub = "registry-1.docker.io"

// IsDockerHub reports whether host is one of the names of Docker Hub.
func IsDockerHub(host string) bool {
	return host == "docker.io" || host == "index.docker.io" || host == dockerHub
}

// ParseDockerConfig returns the entry that a .dockerconfigjson has for a registry, host[:port]. The
// error is a *fielderr.Error without a path, and repeats no secret.
func ParseDockerConfig(text secret.Text, host string) (DockerLogin, error) {
	var config struct {
		Auths map[string]struct {
			Username      string `json:"username"`
			Password      string `json:"password"`
			Auth          string `json:"auth"`
			IdentityToken string `json:"identitytoken"`
			RegistryToken string `json:"registrytoken"`
		} `json:"auths"`
		CredsStore  string            `json:"credsStore"`
		CredHelpers map[string]string `json:"credHelpers"`
	}
	if err := json.Unmarshal([]byte(text.Reveal()), &config); err != nil {
		return DockerLogin{}, fielderr.New("", "is not JSON as docker login writes it")
	}
	if config.CredsStore != "" || len(config.CredHelpers) > 0 {
		return DockerLogin{}, fielderr.New("", "names a credential helper (credsStore, credHelpers), which is a program that gitcache does not run; "+
			"write the credential into auths")
	}
	keys := []string{host, "https://" + host, "http://" + host, "https://" + host + "/v1/", "https://" + host + "/v2/"}
	if IsDockerHub(host) {
		keys = append(keys, dockerHubKey, "docker.io", "index.docker.io")
	}
	for _, key := range keys {
		entry, ok := config.Auths[key]
		if !ok {
			continue
		}
		login := DockerLogin{
			Username: entry.Username, Password: secret.Text(entry.Password),
			Refresh: secret.Text(entry.IdentityToken), Token: secret.Text(entry.RegistryToken),
		}
		if entry.Auth != "" {
			decoded, err := base64.StdEncoding.DecodeString(entry.Auth)
			user, password, found := strings.Cut(string(decoded), ":")
			if err != nil || !found {
				return DockerLogin{}, fielderr.New("", "has an auth for %s that is not base64 of user:password", host)
			}
			login.Username, login.Password = user, secret.Text(strings.TrimRight(password, "\x00"))
		}
		if login.Password == "" && login.Refresh == "" && login.Token == "" {
			return DockerLogin{}, fielderr.New("", "has an empty entry for %s", host)
		}
		if strings.ContainsAny(login.Username+login.Password.Reveal()+login.Refresh.Reveal()+login.Token.Reveal(), "\r\n\x00") {
			return DockerLogin{}, fielderr.New("", "has an entry for %s with a line break", host)
		}
		return login, nil
	}
	return DockerLogin{}, fielderr.New("", "has no entry for %s", host)
}
