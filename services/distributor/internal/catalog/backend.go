// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/accessrule"
	"github.com/leatdev/leat/internal/dialguard"
	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/internal/secret"
)

// Defaults and bounds of a back end.
const (
	// DefaultConfigRefresh is how long an answer holds where nothing is said.
	DefaultConfigRefresh = 5 * time.Minute

	minConfigRefresh   = 30 * time.Second
	maxConfigRefresh   = 24 * time.Hour
	maxConfigStale     = 365 * 24 * time.Hour
	maxAllowedPaths    = 64
	maxBackendProjects = 256
	maxBackendURL      = 1024
	maxBackendWord     = 256
	maxBackendSecret   = 16 << 10
)

// ConfigBackend is a place where values of configurations are kept.
type ConfigBackend struct {
	Metadata
	Spec ConfigBackendSpec
}

// ConfigBackendSpec says where values are read, how often, and who may refer to them. Its JSON is
// its stored form. Only the adapter that reads the back end is given the credential.
//
// An update that leaves the credential out keeps the stored one.
type ConfigBackendSpec struct {
	Description string `json:"description,omitempty"`
	// Vault, Files and Environment are the kinds. Exactly one is set.
	Vault       *VaultBackend       `json:"vault,omitempty"`
	Files       *FilesBackend       `json:"files,omitempty"`
	Environment *EnvironmentBackend `json:"environment,omitempty"`
	// Credential is the one secret that the kind needs; empty for kinds without.
	Credential secret.Text `json:"-"`
	// Refresh is how long an answer holds that does not say so itself; zero: DefaultConfigRefresh.
	Refresh time.Duration `json:"refresh,omitempty"`
	// MaxStale is the age past which an answer is given to no service that does not have it; zero:
	// any.
	MaxStale time.Duration `json:"maxStale,omitempty"`
	// AllowedPaths are globs of what services may refer to.
	AllowedPaths []string `json:"allowedPaths,omitempty"`
	// Projects are those whose services may refer to the back end; "*": all.
	Projects []string `json:"projects,omitempty"`
	// Public means that values are no secrets.
	Public bool `json:"public,omitempty"`
}

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
	// Auth says what Role and AuthMount mean, and whether there is a credential.
	Auth VaultAuth `json:"auth"`
	// Role is the role, or the id of one; empty with a token.
	Role string `json:"role,omitempty"`
	// AuthMount is the path of the method; empty: its usual one.
	AuthMount string `json:"authMount,omitempty"`
}

// NeedsCredential reports whether the hub signs in by a secret that the document holds.
func (b VaultBackend) NeedsCredential() bool {
	return b.Auth == VaultByToken || b.Auth == VaultByAppRole
}

// FilesBackend reads files below a folder of the hub's operator.
type FilesBackend struct {
	Root string `json:"root"`
}

// EnvironmentBackend reads environment variables of the hub.
type EnvironmentBackend struct{}

// Key implements Object.
func (b *ConfigBackend) Key() Key { return Key{KindConfigBackend, b.Name} }

func (b *ConfigBackend) sameSpec(other Object) bool {
	o, ok := other.(*ConfigBackend)
	return ok && reflect.DeepEqual(b.Spec, o.Spec)
}

func (b *ConfigBackend) clone() Object { return new(*b) }

// Public returns the back end without its credential.
func (b *ConfigBackend) Public() *ConfigBackend {
	shown := *b
	shown.Spec.Credential = ""
	return &shown
}

// RefreshEvery returns how long an answer holds that does not say so itself.
func (s ConfigBackendSpec) RefreshEvery() time.Duration {
	return cmp.Or(s.Refresh, DefaultConfigRefresh)
}

// KindName returns the word for the kind of the back end.
func (s ConfigBackendSpec) KindName() string {
	switch {
	case s.Vault != nil:
		return "vault"
	case s.Files != nil:
		return "files"
	case s.Environment != nil:
		return "environment"
	}
	return ""
}

// OpenTo reports whether services of a project may refer to the back end.
func (s ConfigBackendSpec) OpenTo(project string) bool {
	return slices.Contains(s.Projects, project) || slices.Contains(s.Projects, accessrule.All)
}

// Allows reports whether services may refer to a path.
func (s ConfigBackendSpec) Allows(place string) bool {
	return slices.ContainsFunc(s.AllowedPaths, func(glob string) bool { return matchesPath(glob, place) })
}

// settle gives a spec its one stored form. It works on a clone.
func (s *ConfigBackendSpec) settle() {
	s.AllowedPaths, s.Projects = asSet(s.AllowedPaths), asSet(s.Projects)
	s.Refresh, s.MaxStale = s.Refresh.Truncate(time.Second), s.MaxStale.Truncate(time.Second)
	if s.Vault != nil {
		v := *s.Vault
		v.URL = strings.TrimRight(v.URL, "/")
		s.Vault = &v
	}
}

// settleCredential completes the credential from the stored back end, which is nil for a new one.
// It returns an error if the credential would then be sent to another server, or in another way,
// than it was given for.
func (b *ConfigBackend) settleCredential(stored *ConfigBackend) error {
	if stored != nil && stored.Spec.KindName() != b.Spec.KindName() {
		return fielderr.New("spec", "is fixed to the kind %s; create another back end of the kind %s", stored.Spec.KindName(), b.Spec.KindName())
	}
	v := b.Spec.Vault
	if v == nil || !v.NeedsCredential() {
		if b.Spec.Credential != "" {
			return fielderr.New("spec", "has a credential that its kind does not need")
		}
		return nil
	}
	if b.Spec.Credential != "" {
		return nil
	}
	if stored == nil || stored.Spec.Credential == "" || stored.Spec.Vault == nil || stored.Spec.Vault.Auth != v.Auth {
		return fielderr.New(credentialPath(v), "is required")
	}
	if stored.Spec.Vault.URL != v.URL || stored.Spec.Vault.Namespace != v.Namespace {
		return fielderr.New(credentialPath(v), "is required with another url or namespace: the stored one belongs to %q", stored.Spec.Vault.URL)
	}
	b.Spec.Credential = stored.Spec.Credential
	return nil
}

func credentialPath(v *VaultBackend) string {
	if v.Auth == VaultByAppRole {
		return "spec.vault.app_role.secret_id"
	}
	return "spec.vault.token.token"
}

// Validate implements Object.
func (b *ConfigBackend) Validate() error {
	s := b.Spec
	return cmp.Or(
		b.validate(KindConfigBackend),
		b.validateBackendName(),
		validateDescription(s.Description),
		s.validateKind(),
		validateWithin("spec.refresh", s.Refresh, minConfigRefresh, maxConfigRefresh),
		validateWithin("spec.max_stale", s.MaxStale, s.RefreshEvery(), maxConfigStale),
		fielderr.Each("spec.allowed_paths", "items", s.AllowedPaths, maxAllowedPaths, validateGlob),
		fielderr.Each("spec.projects", "items", s.Projects, maxBackendProjects, func(field, name string) error {
			if name == accessrule.All {
				return nil
			}
			return ValidateName(field, name)
		}),
	)
}

func (b *ConfigBackend) validateBackendName() error {
	if isReservedBackend(b.Name) {
		return fielderr.New("metadata.name", "%q is reserved; choose another name", b.Name)
	}
	return nil
}

func (s ConfigBackendSpec) validateKind() error {
	kinds := 0
	for _, isSet := range []bool{s.Vault != nil, s.Files != nil, s.Environment != nil} {
		if isSet {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return fielderr.New("spec", "has no kind; write one of vault, files and environment")
	case s.Vault != nil:
		return s.Vault.validate(s.Credential)
	case s.Files != nil:
		return ValidateName("spec.files.root", s.Files.Root)
	}
	return nil
}

// mountPath is the path of an engine or a method of a Vault, or a namespace.
var mountPath = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*/?$`)

func (b VaultBackend) validate(credential secret.Text) error {
	for _, place := range []struct{ field, text string }{
		{"spec.vault.mount", b.Mount}, {"spec.vault.namespace", b.Namespace}, {"spec.vault." + b.authField() + ".mount", b.AuthMount},
	} {
		if place.text != "" && (len(place.text) > maxBackendWord || !mountPath.MatchString(place.text)) {
			return fielderr.New(place.field, "%.80q is not a path: letters, digits and ._- between slashes are allowed", place.text)
		}
	}
	if err := b.validateURL(); err != nil {
		return err
	}
	switch {
	case b.Version < 0 || b.Version > 2:
		return fielderr.New("spec.vault.version", "is %d; 1 and 2 are known", b.Version)
	case b.Auth == "":
		return fielderr.New("spec.vault", "says not how to sign in; write one of token, app_role, kubernetes and jwt")
	case b.Auth != VaultByToken && b.Role == "":
		return fielderr.New("spec.vault."+b.authField(), "names no role")
	case len(credential) > maxBackendSecret || strings.ContainsAny(credential.Reveal(), "\r\n"):
		return fielderr.New(credentialPath(&b), "is not one line of at most %d bytes", maxBackendSecret)
	}
	if err := validateLine("spec.vault."+b.authField(), b.Role, maxBackendWord); err != nil {
		return err
	}
	return fielderr.Within("spec.vault", inVault(validateCA(b.CAPEM)))
}

// inVault moves an error about spec.ca_pem to the field of a Vault.
func inVault(err error) error {
	if err == nil {
		return nil
	}
	return fielderr.New("ca_pem", "holds no PEM certificate, or is too long")
}

func (b VaultBackend) authField() string {
	if b.Auth == VaultByAppRole {
		return "app_role"
	}
	return string(b.Auth)
}

func (b VaultBackend) validateURL() error {
	u, err := url.Parse(b.URL)
	switch {
	case b.URL == "":
		return fielderr.New("spec.vault.url", "is required, such as https://vault.example:8200")
	case len(b.URL) > maxBackendURL:
		return fielderr.New("spec.vault.url", "has %d bytes; at most %d are allowed", len(b.URL), maxBackendURL)
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" || strings.Contains(u.Path, ".."):
		return fielderr.New("spec.vault.url", "%.80q is not a base URL: scheme, host and path", b.URL)
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return fielderr.New("spec.vault.url", "%.80q does not begin with https://, which is required where secrets are read", b.URL)
	}
	return nil
}

// publicBackend refuses a back end at the hub's own machine or link.
func publicBackend(object Object) error {
	b, ok := object.(*ConfigBackend)
	if !ok || b.Spec.Vault == nil {
		return nil
	}
	u, err := url.Parse(b.Spec.Vault.URL)
	if err != nil {
		return nil //nolint:nilerr // Validate has refused it
	}
	host := u.Hostname()
	if address, err := netip.ParseAddr(host); err == nil && dialguard.Local(address) || strings.EqualFold(host, "localhost") {
		return fielderr.New("spec.vault.url", "%q is an address of the hub's own machine or its link, which it does not dial", host)
	}
	return nil
}

// checkConfigReferences refuses references to back ends that do not exist or are closed to the
// project, in the same words, and references to paths that the back end does not allow.
func checkConfigReferences(ctx context.Context, tx Tx, service *Service) error {
	if service.Spec.Config == nil {
		return nil
	}
	project := objectname.Project(service.Name)
	known := map[string]*ConfigBackend{}
	for _, key := range service.Spec.Config.referenceKeys() {
		field := referencePath(key)
		reference, err := ParseReference(service.Spec.Config.References[key])
		if err != nil {
			return fielderr.Within(field, err)
		}
		if reference.IsInCluster() {
			continue // the agent acts with the rights of the service's account
		}
		backend, ok := known[reference.Backend]
		if !ok {
			at := Key{KindConfigBackend, reference.Backend}
			object, err := tx.Get(ctx, at)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
			if backend, ok = object.(*ConfigBackend); err != nil || !ok || !backend.Spec.OpenTo(project) {
				return &ReferenceError{Key: at, Path: field, Closed: true}
			}
			known[reference.Backend] = backend
		}
		if !backend.Spec.Allows(reference.Path) {
			return fielderr.New(field, "names the path %q, which the back end %s does not allow; have its allowed_paths changed", reference.Path, backend.Name)
		}
	}
	return nil
}
