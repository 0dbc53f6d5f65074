// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"regexp"
	"strings"

	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/check"
)

// VaultAuth is how the hub signs in at a Vault.
type VaultAuth string

// The ways to sign in.
const (
	VaultByToken      VaultAuth = "token"
	VaultByAppRole    VaultAuth = "approle"
	VaultByKubernetes VaultAuth = "kubernetes"
	VaultByJWT        VaultAuth = "jwt"
)

// VaultBackend is a key-value engine of a Vault or an OpenBao.
type VaultBackend struct {
	URL       string `json:"url"`
	Mount     string `json:"mount,omitempty"`
	Version   int    `json:"version,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	CAPEM     string `json:"caPem,omitempty"`
	// Auth decides about the meaning of Role and AuthMount, and whether there is a credential.
	Auth VaultAuth `json:"auth"`
	// Role is the role, or the id of one; empty with a token.
	Role string `json:"role,omitempty"`
	// AuthMount is the path of the method; empty: its usual one.
	AuthMount string `json:"authMount,omitempty"`
}

// NeedsCredential reports whether the hub signs in by a secret that the document holds.
func (b *VaultBackend) NeedsCredential() bool {
	return b.Auth == VaultByToken || b.Auth == VaultByAppRole
}

func (b *VaultBackend) name() string { return "vault" }

func (b *VaultBackend) credentialField() string {
	switch b.Auth {
	case VaultByAppRole:
		return "spec.vault.app_role.secret_id"
	case VaultByToken:
		return "spec.vault.token.token"
	case VaultByKubernetes, VaultByJWT:
	}
	return ""
}

func (b *VaultBackend) target() string { return strings.TrimSpace(b.URL + " " + b.Namespace) }

func (b *VaultBackend) dials() (field, url string) { return "spec.vault.url", b.URL }

func (b *VaultBackend) normalize(s *ConfigBackendSpec) {
	settled := *b
	settled.URL = strings.TrimRight(b.URL, "/")
	s.Vault = &settled
}

// mountPath is the path of an engine or a method of a Vault, or a namespace.
var mountPath = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*/?$`)

func (b *VaultBackend) validate(credential secret.Text) error {
	for _, place := range []struct{ field, text string }{
		{"spec.vault.mount", b.Mount}, {"spec.vault.namespace", b.Namespace}, {"spec.vault." + b.authField() + ".mount", b.AuthMount},
	} {
		if place.text != "" && (len(place.text) > maxBackendWord || !mountPath.MatchString(place.text)) {
			return fielderr.New(place.field, "%.80q is not a path: letters, digits and ._- between slashes are allowed", place.text)
		}
	}
	if err := validateBackendURL("spec.vault.url", b.URL); err != nil {
		return err
	}
	switch {
	case b.Version < 0 || b.Version > 2:
		return fielderr.New("spec.vault.version", "is %d; 1 and 2 are known", b.Version)
	case b.Auth == "":
		return fielderr.New("spec.vault", "has no authentication method; set one of token, app_role, kubernetes and jwt")
	case b.Auth != VaultByToken && b.Role == "":
		return fielderr.New("spec.vault."+b.authField(), "names no role")
	}
	if err := validateCredential(b, credential); err != nil {
		return err
	}
	if err := check.Line("spec.vault."+b.authField(), b.Role, maxBackendWord); err != nil {
		return err
	}
	return validateBackendCA("spec.vault", b.CAPEM)
}

func (b *VaultBackend) authField() string {
	if b.Auth == VaultByAppRole {
		return "app_role"
	}
	return string(b.Auth)
}
