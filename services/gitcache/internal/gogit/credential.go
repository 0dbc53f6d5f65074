// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit

import (
	"errors"
	"net/url"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"
	"golang.org/x/crypto/ssh"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Check implements [mirror.Upstream].
func (g *Git) Check(def mirror.Definition) error {
	t, err := parseTarget(def)
	if err != nil {
		return err
	}
	if _, err := certPool(def.CAPEM); err != nil {
		return &mirror.FieldError{Field: "ca_pem", Message: "It holds no certificate in PEM form."}
	}
	switch def.Credential.Method {
	case mirror.MethodSSH:
		return checkSSH(t, g.dir)
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

// parseTarget reads the URL. The errors are *mirror.FieldError and never hold the URL, which might hold a password.
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
		if err != nil || u.Host == "" {
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
	case strings.ContainsAny(secret.Reveal(), "\r\n\x00"):
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
