// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// Repository is an upstream.
type Repository struct {
	Metadata
	Spec RepositorySpec
}

// RepositorySpec is the desired state of a repository. Only callers that push definitions read it
// back with its credential and its secrets; all others read its public form.
//
// An update that leaves the credential or the webhook's secret out keeps the stored one. So does an
// update with a proxy's URL as it was shown, with its password masked.
type RepositorySpec struct {
	upstream.Definition
	// RemoveCredential and RemoveWebhookSecret remove the stored ones in an update. They are not
	// stored.
	RemoveCredential, RemoveWebhookSecret bool
}

// Key implements Object.
func (r *Repository) Key() Key { return Key{KindRepository, r.Name} }

func (r *Repository) sameSpec(other Object) bool {
	o, ok := other.(*Repository)
	return ok && r.Spec == o.Spec
}

func (r *Repository) clone() Object { return new(*r) }

func (r *Repository) normalize() { r.Spec.Definition = r.Spec.WithDefaults() }

func (r *Repository) settle(stored Object) (err error) {
	have, _ := stored.(*Repository)
	if have != nil {
		if is, want := have.Spec.WithDefaults().Type, r.Spec.WithDefaults().Type; is != want {
			return fielderr.New("spec.type", "is fixed to %q, because sources depend on it; create another repository of type %q", is, want)
		}
	}
	r.Spec, err = r.Spec.settle(have)
	return err
}

func (r *Repository) reachable() error { return nil }

// checkReferences implements Object: the limits of the project, and that the repository may use the
// repositories of other projects that its charts take dependencies from. Repositories of its own
// project need not exist yet.
func (r *Repository) checkReferences(ctx context.Context, tx Reader) error {
	own, err := ownProject(ctx, tx, r.Name)
	if err != nil {
		return err
	}
	if err := own.Spec.Limits.admitURL("spec.url", own.Name, r); err != nil {
		return err
	}
	for i, path := range r.Spec.ChartRepositories.Names() {
		if objectname.Project(path) == own.Name {
			continue
		}
		if _, err := own.referred(ctx, tx, Key{KindRepository, path}, fielderr.Indexed("spec.chart_repositories", i)); err != nil {
			return err
		}
	}
	return nil
}

func (r *Repository) checkSettled(context.Context, Reader) error { return nil }

func (r *Repository) room(quotas ProjectQuotas) Room { return Room{Quota: quotas.Repositories} }

func (r *Repository) secrets() map[string]any {
	secrets := map[string]any{}
	if !r.Spec.Credential.IsZero() {
		secrets["spec.credential"] = r.Spec.Credential
	}
	if r.Spec.WebhookSecret != "" {
		secrets["spec.webhookSecret"] = r.Spec.WebhookSecret
	}
	if shown := r.Spec.Public().ProxyURL; shown != r.Spec.ProxyURL {
		secrets["spec.proxyUrl"] = r.Spec.ProxyURL
	}
	return secrets
}

func (r *Repository) changesRelease(Object) bool { return false }

// Place implements Object.
func (r *Repository) Place() Place {
	return Place{Project: objectname.Project(r.Name), Repository: r.Name}
}

// Validate implements Object. It also rejects keys of which none can sign any more.
func (r *Repository) Validate() error {
	return cmp.Or(
		r.validate(KindRepository),
		fielderr.Within("spec", r.Spec.Validate()),
		fielderr.Within("spec.verification", r.Spec.Verification.ValidateKeys(time.Now())),
	)
}

// settle gives a spec its stored form: it copies from the stored repository, which is nil for a new
// one, the secrets that an update leaves out, or sends back as they were shown. It returns an error
// if Leat would then send the credential to another server, or through another proxy, than it was
// given for. A webhook's secret is always kept: Leat compares it with what it receives, and never
// sends it.
func (s RepositorySpec) settle(stored *Repository) (RepositorySpec, error) {
	if s.Credential.IsZero() {
		s.Credential = upstream.Credential{}
	}
	if stored != nil {
		kept := stored.Spec
		if s.ProxyURL == kept.Public().ProxyURL {
			s.ProxyURL = kept.ProxyURL
		}
		if s.WebhookSecret == "" && !s.RemoveWebhookSecret {
			s.WebhookSecret = kept.WebhookSecret
		}
		if s.Credential.IsZero() && !s.RemoveCredential {
			if err := s.checkServer(kept); err != nil {
				return s, err
			}
			s.Credential = kept.Credential
		}
	}
	s.RemoveCredential, s.RemoveWebhookSecret = false, false
	if s.HasMaskedProxy() {
		return s, fielderr.New("spec.proxy_url", "holds a masked password instead of the proxy's password")
	}
	return s, nil
}

// checkServer checks that the credential of a stored spec is sent only where it was given for.
func (s RepositorySpec) checkServer(stored RepositorySpec) error {
	if stored.Credential.IsZero() {
		return nil
	}
	return cmp.Or(s.newServer(stored), s.newPush(stored))
}

// newPush returns nil if the spec has the hub push to no repository and branch, and call no API, that
// the stored one does not. The error is why the stored credential is not used for that: it may have
// been given for reading.
func (s RepositorySpec) newPush(stored RepositorySpec) error {
	if s.Push.Branches != "" && s.URL != stored.URL {
		return fielderr.New("spec.credential", "was not given to push to %s; give the credential again, or an empty one for none", s.URL)
	}
	for _, branch := range s.Push.Branches.Names() {
		if !slices.Contains(stored.Push.Branches.Names(), branch) {
			return fielderr.New("spec.credential", "was not given to push to %s; give the credential again, or an empty one for none", branch)
		}
	}
	if api := s.Push.APIURL; api != "" && api != stored.Push.APIURL {
		return fielderr.New("spec.credential", "was not given for the API at %s; give the credential again, or an empty one for none", serverOf(api))
	}
	return nil
}

// newServer returns nil if the spec leads to no server, through no proxy and to no token host that
// the stored one does not lead to. The error is why a credential is not sent there.
func (s RepositorySpec) newServer(stored RepositorySpec) error {
	if before, after := serverOf(stored.URL), serverOf(s.URL); before != after {
		return fielderr.New("spec.credential", "was given for %s and is not sent to %s; give the credential again, or an empty one for none", before, after)
	}
	before, after := serverOf(stored.ProxyURL.Reveal()), serverOf(s.ProxyURL.Reveal())
	if s.ProxyURL != "" && before != after {
		return fielderr.New("spec.credential", "was not given for the proxy %s; give the credential again, or an empty one for none", after)
	}
	for _, host := range s.TokenHosts.Names() {
		if !slices.Contains(stored.TokenHosts.Names(), host) {
			return fielderr.New("spec.credential", "was not given for the token host %s; give the credential again, or an empty one for none", host)
		}
	}
	return nil
}

// leadsElsewhere reports whether the spec has the hub call a server that the stored one does not.
func (s RepositorySpec) leadsElsewhere(stored RepositorySpec) bool {
	api, pushAPI := s.Credential.APIURL, s.Push.APIURL
	return s.newServer(stored) != nil || api != "" && api != stored.Credential.APIURL || pushAPI != "" && pushAPI != stored.Push.APIURL
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
		port = map[string]string{"http": "80", "https": "443", "ssh": "22", "oci": "443", "oci+http": "80", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// admitURL checks the URL of a repository that an object of the project names in field.
func (l ProjectLimits) admitURL(field, project string, r *Repository) error {
	if l.Repositories == nil || l.Repositories.Allows(oneSpelling(r.Spec.URL)) {
		return nil
	}
	return fielderr.New(field, "%s is not among the repositories that project %s allows: %s", r.Spec.URL, project, l.Repositories)
}

// oneSpelling returns the one spelling of a URL that patterns are compared with. A URL that could mean
// another one to its server, because of dots or escapes in its path, has none: it is "".
func oneSpelling(raw string) string {
	scheme, rest, isURL := strings.Cut(raw, "://")
	if strings.ContainsAny(raw, `%\?#`) {
		return ""
	}
	for segment := range strings.SplitSeq(strings.ReplaceAll(raw, ":", "/"), "/") {
		if segment == "." || segment == ".." {
			return ""
		}
	}
	if !isURL {
		host, path, _ := strings.Cut(raw, ":")
		return strings.ToLower(host) + ":" + path
	}
	if _, err := url.Parse(raw); err != nil {
		return ""
	}
	host, path, hasPath := strings.Cut(rest, "/")
	if hasPath {
		path = "/" + path
	}
	return strings.ToLower(scheme) + "://" + strings.ToLower(host) + path
}
