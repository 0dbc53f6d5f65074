// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/accessrule"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/check"
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

	minHookSecret, maxHookSecret = 16, 1024
)

// ConfigBackend is a place where values of configurations are kept.
type ConfigBackend struct {
	Metadata
	Spec ConfigBackendSpec
}

// ConfigBackendSpec sets where values are read, how often, and who may refer to them. Its JSON is
// its stored form. Only the adapter that reads the back end is given the credential.
//
// An update that leaves the credential out keeps the stored one.
type ConfigBackendSpec struct {
	Description string `json:"description,omitempty"`
	// The kinds. Exactly one is set.
	Vault       *VaultBackend       `json:"vault,omitempty"`
	Files       *FilesBackend       `json:"files,omitempty"`
	Environment *EnvironmentBackend `json:"environment,omitempty"`
	Kubernetes  *KubernetesBackend  `json:"kubernetes,omitempty"`
	HTTP        *HTTPBackend        `json:"http,omitempty"`
	AWS         *AWSBackend         `json:"aws,omitempty"`
	GCP         *GCPBackend         `json:"gcp,omitempty"`
	Azure       *AzureBackend       `json:"azure,omitempty"`
	// Credential is the one secret that the kind needs; empty for kinds without.
	Credential secret.Text `json:"-"`
	// WebhookSecret proves webhooks that have the back end read; empty: it takes none. An update that
	// leaves it out keeps the stored one, unless RemoveWebhookSecret is set, which is not stored.
	WebhookSecret       secret.Text `json:"-"`
	RemoveWebhookSecret bool        `json:"-"`
	// Refresh is how long an answer without a lifetime holds; zero: DefaultConfigRefresh.
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

// Key implements Object.
func (b *ConfigBackend) Key() Key { return Key{KindConfigBackend, b.Name} }

func (b *ConfigBackend) sameSpec(other Object) bool {
	o, ok := other.(*ConfigBackend)
	return ok && reflect.DeepEqual(b.Spec, o.Spec)
}

func (b *ConfigBackend) clone() Object { return new(*b) }

func (b *ConfigBackend) normalize() { b.Spec.normalize() }

func (b *ConfigBackend) settle(stored Object) error {
	have, _ := stored.(*ConfigBackend)
	return b.settleSecrets(have)
}

func (b *ConfigBackend) reachable() error {
	if b.Spec.kind() == nil {
		return nil
	}
	field, text := b.Spec.kind().dials()
	if host := check.Host(text); check.IsLocal(host) {
		return fielderr.New(field, "%q is an address of the hub's own machine or its link, which it does not dial", host)
	}
	return nil
}

func (b *ConfigBackend) checkReferences(context.Context, Reader) error { return nil }
func (b *ConfigBackend) checkSettled(context.Context, Reader) error    { return nil }
func (b *ConfigBackend) room(ProjectQuotas) Room                       { return Room{} }

func (b *ConfigBackend) secrets() map[string]any {
	secrets := map[string]any{}
	if b.Spec.Credential != "" {
		secrets[camelCase(b.Spec.kind().credentialField())] = b.Spec.Credential
	}
	if b.Spec.WebhookSecret != "" {
		secrets["spec.webhookSecret"] = b.Spec.WebhookSecret
	}
	return secrets
}

func (b *ConfigBackend) changesRelease(Object) bool { return false }

// Place implements Object: it is the hub's.
func (b *ConfigBackend) Place() Place { return Place{} }

// Public returns the back end without its credential.
func (b *ConfigBackend) Public() *ConfigBackend {
	shown := *b
	shown.Spec.Credential, shown.Spec.WebhookSecret = "", ""
	return &shown
}

// RefreshEvery returns how long an answer without a lifetime holds.
func (s ConfigBackendSpec) RefreshEvery() time.Duration {
	return cmp.Or(s.Refresh, DefaultConfigRefresh)
}

// OpenTo reports whether services of a project may refer to the back end.
func (s ConfigBackendSpec) OpenTo(project string) bool {
	return slices.Contains(s.Projects, project) || slices.Contains(s.Projects, accessrule.All)
}

// Allows reports whether services may refer to a path.
func (s ConfigBackendSpec) Allows(place string) bool {
	return slices.ContainsFunc(s.AllowedPaths, func(glob string) bool { return matchesPath(glob, place) })
}

// normalize gives a spec its one stored form. It works on a clone.
func (s *ConfigBackendSpec) normalize() {
	s.AllowedPaths, s.Projects = asSet(s.AllowedPaths), asSet(s.Projects)
	s.Refresh, s.MaxStale = s.Refresh.Truncate(time.Second), s.MaxStale.Truncate(time.Second)
	if k := s.kind(); k != nil {
		k.normalize(s)
	}
}

// settleSecrets completes the secrets from the stored back end, which is nil for a new one. It
// returns an error if the credential would then be sent to another server, or in another way, than
// it was given for.
func (b *ConfigBackend) settleSecrets(stored *ConfigBackend) error {
	if stored != nil && stored.Spec.KindName() != b.Spec.KindName() {
		return fielderr.New("spec", "is fixed to the kind %s; create another back end of the kind %s", stored.Spec.KindName(), b.Spec.KindName())
	}
	if stored != nil && b.Spec.WebhookSecret == "" && !b.Spec.RemoveWebhookSecret {
		b.Spec.WebhookSecret = stored.Spec.WebhookSecret
	}
	b.Spec.RemoveWebhookSecret = false
	kind := b.Spec.kind()
	if kind == nil || kind.credentialField() == "" {
		if b.Spec.Credential != "" {
			return fielderr.New("spec", "has a credential that its kind does not need")
		}
		return nil
	}
	if b.Spec.Credential != "" {
		return nil
	}
	if stored == nil || stored.Spec.Credential == "" || stored.Spec.kind().credentialField() != kind.credentialField() {
		return fielderr.New(kind.credentialField(), "is required")
	}
	if had := stored.Spec.kind().target(); had != kind.target() {
		return fielderr.New(kind.credentialField(), "is required where something else is signed in to: the stored one belongs to %q", had)
	}
	b.Spec.Credential = stored.Spec.Credential
	return nil
}

// Validate implements Object.
func (b *ConfigBackend) Validate() error {
	s := b.Spec
	return cmp.Or(
		b.validate(KindConfigBackend),
		b.validateBackendName(),
		check.Description(s.Description),
		s.validateKind(),
		validateHookSecret(s.WebhookSecret),
		check.Within("spec.refresh", s.Refresh, minConfigRefresh, maxConfigRefresh),
		check.Within("spec.max_stale", s.MaxStale, s.RefreshEvery(), maxConfigStale),
		fielderr.Each("spec.allowed_paths", "items", s.AllowedPaths, maxAllowedPaths, validateGlob),
		fielderr.Each("spec.projects", "items", s.Projects, maxBackendProjects, func(field, name string) error {
			if name == accessrule.All {
				return nil
			}
			return objectname.ValidateLabel(field, name)
		}),
	)
}

func (b *ConfigBackend) validateBackendName() error {
	if isReservedBackend(b.Name) {
		return fielderr.New("metadata.name", "%q is reserved; choose another name", b.Name)
	}
	return nil
}

// validateHookSecret accepts an empty secret: then there are no webhooks.
func validateHookSecret(text secret.Text) error {
	if n := len(text); n != 0 && (n < minHookSecret || n > maxHookSecret) {
		return fielderr.New("spec.webhook_secret", "has %d bytes; it must have %d to %d", n, minHookSecret, maxHookSecret)
	}
	return nil
}

// checkBackendReference refuses a reference to a back end that does not exist or is closed to the
// project, in the same words, and to a path that the back end does not allow.
func checkBackendReference(ctx context.Context, tx Reader, field, text, project string) error {
	reference, err := ParseReference(text)
	if err != nil {
		return fielderr.Within(field, err)
	}
	if reference.IsInCluster() {
		return nil // the agent acts with the rights of the service's account
	}
	backend, err := openBackend(ctx, tx, field, reference.Backend, project)
	if err != nil {
		return err
	}
	if !backend.Spec.Allows(reference.Path) {
		return fielderr.New(field, "names the path %q, which the back end %s does not allow; have its allowed_paths changed", reference.Path, backend.Name)
	}
	return nil
}

// openBackend returns a back end that is open to the project.
func openBackend(ctx context.Context, tx Reader, field, name, project string) (*ConfigBackend, error) {
	at := Key{KindConfigBackend, name}
	object, err := tx.Get(ctx, at)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	backend, ok := object.(*ConfigBackend)
	if err != nil || !ok || !backend.Spec.OpenTo(project) {
		return nil, &ReferenceError{Key: at, Path: field, Closed: true}
	}
	return backend, nil
}

// camelCase returns a path of a field as documents write it.
func camelCase(path string) string {
	parts := strings.Split(path, "_")
	for i, part := range parts[1:] {
		if part != "" {
			parts[i+1] = strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return strings.Join(parts, "")
}
