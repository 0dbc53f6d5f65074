// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"net/url"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/check"
)

// backendKind is the common interface of the kinds of back ends.
type backendKind interface {
	// name returns the word for the kind, which is its field of the document.
	name() string
	// credentialField returns the path of the one secret in the document; empty: the kind, or its way
	// to sign in, has none.
	credentialField() string
	// target returns where the credential is sent. A stored credential still counts for the same
	// target.
	target() string
	// dials returns the URL that the hub dials because the document names it, and its field. Empty:
	// none.
	dials() (field, url string)
	// settle gives the kind its one stored form. It does not change the receiver.
	normalize(s *ConfigBackendSpec)
	// validate returns an error that names the field.
	validate(credential secret.Text) error
}

// KindNames are the words for all kinds of back ends.
func KindNames() []string {
	return []string{"vault", "files", "environment", "kubernetes", "http", "aws", "gcp", "azure"}
}

// kinds returns the kinds that are set.
func (s ConfigBackendSpec) kinds() (set []backendKind) {
	// A nil pointer in an interface is not nil.
	add := func(isSet bool, kind backendKind) {
		if isSet {
			set = append(set, kind)
		}
	}
	add(s.Vault != nil, s.Vault)
	add(s.Files != nil, s.Files)
	add(s.Environment != nil, s.Environment)
	add(s.Kubernetes != nil, s.Kubernetes)
	add(s.HTTP != nil, s.HTTP)
	add(s.AWS != nil, s.AWS)
	add(s.GCP != nil, s.GCP)
	add(s.Azure != nil, s.Azure)
	return set
}

// kind returns the first kind that is set, or nil.
func (s ConfigBackendSpec) kind() backendKind {
	if set := s.kinds(); len(set) > 0 {
		return set[0]
	}
	return nil
}

// KindName returns the word for the kind of the back end.
func (s ConfigBackendSpec) KindName() string {
	if kind := s.kind(); kind != nil {
		return kind.name()
	}
	return ""
}

func (s ConfigBackendSpec) validateKind() error {
	set := s.kinds()
	if len(set) != 1 {
		names := KindNames()
		slices.Sort(names)
		return fielderr.New("spec", "has no kind, or several; write one of %s", strings.Join(names, ", "))
	}
	return set[0].validate(s.Credential)
}

// validateCredential checks a secret that travels in a header.
func validateCredential(kind backendKind, credential secret.Text) error {
	if len(credential) > maxBackendSecret || strings.ContainsAny(credential.Reveal(), "\r\n") {
		return fielderr.New(kind.credentialField(), "is not one line of at most %d bytes", maxBackendSecret)
	}
	return nil
}

func validateBackendCA(field, pem string) error {
	if check.CA(pem) != nil {
		return fielderr.New(field+".ca_pem", "holds no PEM certificate, or is too long")
	}
	return nil
}

func validateBackendURL(field, text string) error {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return fielderr.New(field, "is required, such as https://vault.example:8200")
	case len(text) > maxBackendURL:
		return fielderr.New(field, "has %d bytes; at most %d are allowed", len(text), maxBackendURL)
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" || strings.Contains(u.Path, ".."):
		return fielderr.New(field, "%.80q is not a base URL: scheme, host and path", text)
	case u.Scheme != "https" && (u.Scheme != "http" || !check.IsLoopback(u.Hostname())):
		return fielderr.New(field, "%.80q does not begin with https://, which is required where secrets are read", text)
	}
	return nil
}

// withoutCredential is a part of kinds whose documents hold no secret.
type withoutCredential struct{}

func (withoutCredential) credentialField() string { return "" }
func (withoutCredential) target() string          { return "" }

// withoutURL is a part of kinds whose documents name no URL.
type withoutURL struct{}

func (withoutURL) dials() (field, url string) { return "", "" }

// FilesBackend reads files below a folder of the hub's operator.
type FilesBackend struct {
	withoutCredential
	withoutURL

	Root string `json:"root"`
}

// EnvironmentBackend reads environment variables of the hub.
type EnvironmentBackend struct {
	withoutCredential
	withoutURL
}

func (b *FilesBackend) name() string                 { return "files" }
func (b *FilesBackend) normalize(*ConfigBackendSpec) {}
func (b *FilesBackend) validate(secret.Text) error {
	return objectname.ValidateLabel("spec.files.root", b.Root)
}

func (b *EnvironmentBackend) name() string                 { return "environment" }
func (b *EnvironmentBackend) normalize(*ConfigBackendSpec) {}
func (b *EnvironmentBackend) validate(secret.Text) error   { return nil }
