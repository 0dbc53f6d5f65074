// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"cmp"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// repositoryRow is a stored repository.
//
// Spec is the public form of its definition as JSON, and holds every option that has no column. The
// options that have one are read from there: replicas of earlier versions write these columns and
// leave Spec as it is, also while they and this version work on one database.
type repositoryRow struct {
	bun.BaseModel `bun:"table:repositories,alias:r"`
	ownedColumns
	Spec         column[upstream.Definition] `bun:"spec"`
	Type         string                      `bun:"type"`
	URL          string                      `bun:"url"`
	PollInterval int64                       `bun:"poll_interval"`
	CAPEM        string                      `bun:"ca_pem"`
	ProxyURL     string                      `bun:"proxy_url"` // its password masked
	Suspended    bool                        `bun:"suspended"`
	Verification column[verificationColumn]  `bun:"verification"`
	PartialClone bool                        `bun:"partial_clone"`
	// The secrets are sealed and bound to the repository's uid, so that they cannot be moved to one
	// with another URL. An absent secret is nil.
	Credential    []byte `bun:"credential"`
	ProxySealed   []byte `bun:"proxy_sealed"` // the whole URL, where it has a password
	WebhookSecret []byte `bun:"webhook_secret"`
}

// credentialColumn is the sealed form of a credential. Secret is the password, the token, the
// private key or the docker configuration, as the method has it.
type credentialColumn struct {
	Method         upstream.Method `json:"method"`
	Username       string          `json:"username,omitempty"`
	Secret         string          `json:"secret"`
	Passphrase     string          `json:"passphrase,omitempty"`
	KnownHosts     string          `json:"knownHosts,omitempty"`
	AppID          int64           `json:"appID,omitempty"`
	InstallationID int64           `json:"installationID,omitempty"`
	APIURL         string          `json:"apiURL,omitempty"`
	AllowPlainHTTP bool            `json:"allowPlainHTTP,omitempty"`
	ClientCertPEM  string          `json:"clientCertPEM,omitempty"`
	ClientKeyPEM   string          `json:"clientKeyPEM,omitempty"`
	Cloud          upstream.Cloud  `json:"cloud,omitempty"`
	Principal      string          `json:"principal,omitempty"`
	Scope          string          `json:"scope,omitempty"`
}

// verificationColumn is the stored form of a verification.
type verificationColumn struct {
	Mode              upstream.Mode `json:"mode"`
	PGPKeys           string        `json:"pgp_keys,omitempty"`
	SSHAllowedSigners string        `json:"ssh_allowed_signers,omitempty"`
	CosignKeys        string        `json:"cosign_keys,omitempty"`
	ProvenanceKeys    string        `json:"provenance_keys,omitempty"`
}

var storedRepositories = storage[*catalog.Repository, *repositoryRow]{
	kind: catalog.KindRepository,
	columns: []string{
		"spec", "type", "url", "poll_interval", "ca_pem", "proxy_url", "suspended", "verification", "partial_clone",
	},
	row: func(r *catalog.Repository) *repositoryRow {
		shown := r.Spec.Public()
		return &repositoryRow{
			Spec: columnOf(shown), Type: string(shown.Type), URL: shown.URL, PollInterval: shown.PollInterval.Microseconds(), CAPEM: shown.CAPEM,
			ProxyURL: shown.ProxyURL.Reveal(), Suspended: shown.Suspended, PartialClone: shown.PartialClone,
			Verification: columnOf(verificationColumn(shown.Verification)),
		}
	},
	object: (*repositoryRow).repository,
	secrets: []sealedPart[*catalog.Repository, *repositoryRow]{
		sealedJSON(sealedColumn{"repositories", "uid", "credential", purposeCredential, placeOfKey},
			func(r *repositoryRow) *[]byte { return &r.Credential },
			func(r *catalog.Repository) bool { return !r.Spec.Credential.IsZero() },
			func(r *catalog.Repository) credentialColumn { return credentialColumnOf(r.Spec.Credential) },
			func(r *catalog.Repository, c credentialColumn) { r.Spec.Credential = c.credential() }),
		sealedText(sealedColumn{"repositories", "uid", "webhook_secret", purposeWebhook, placeOfKey},
			func(r *repositoryRow) *[]byte { return &r.WebhookSecret },
			func(r *catalog.Repository) *secret.Text { return &r.Spec.WebhookSecret }),
		sealedTextIf(sealedColumn{"repositories", "uid", "proxy_sealed", purposeCredential, "*/proxy_url"},
			func(r *repositoryRow) *[]byte { return &r.ProxySealed },
			func(r *catalog.Repository) *secret.Text { return &r.Spec.ProxyURL },
			func(r *catalog.Repository, row *repositoryRow) bool { return r.Spec.ProxyURL.Reveal() != row.ProxyURL }),
	},
	changed: func(c *catalog.Changes) *[]*catalog.Repository { return &c.Repositories },
}

func credentialColumnOf(c upstream.Credential) credentialColumn {
	return credentialColumn{
		Method: c.Method, Username: c.Username, Secret: cmp.Or(c.Password, c.Token, c.PrivateKey, c.DockerConfig).Reveal(),
		Passphrase: c.Passphrase.Reveal(), KnownHosts: c.KnownHosts, AppID: c.AppID, InstallationID: c.InstallationID, APIURL: c.APIURL,
		AllowPlainHTTP: c.AllowPlainHTTP, ClientCertPEM: c.ClientCertPEM, ClientKeyPEM: c.ClientKeyPEM.Reveal(),
		Cloud: c.Cloud, Principal: c.Principal, Scope: c.Scope,
	}
}

func (c credentialColumn) credential() upstream.Credential {
	next := upstream.Credential{
		Method: c.Method, Username: c.Username, Passphrase: secret.Text(c.Passphrase), KnownHosts: c.KnownHosts,
		AppID: c.AppID, InstallationID: c.InstallationID, APIURL: c.APIURL, AllowPlainHTTP: c.AllowPlainHTTP,
		ClientCertPEM: c.ClientCertPEM, ClientKeyPEM: secret.Text(c.ClientKeyPEM),
		Cloud: c.Cloud, Principal: c.Principal, Scope: c.Scope,
	}
	switch next.Method {
	case upstream.MethodBasic:
		next.Password = secret.Text(c.Secret)
	case upstream.MethodBearer:
		next.Token = secret.Text(c.Secret)
	case upstream.MethodSSH, upstream.MethodGitHubApp:
		next.PrivateKey = secret.Text(c.Secret)
	case upstream.MethodDockerConfig:
		next.DockerConfig = secret.Text(c.Secret)
	case upstream.MethodNone, upstream.MethodWorkloadIdentity: // a client certificate alone, or no secret at all
	}
	return next
}

// repository returns the row without its secrets: the proxy's password is masked.
func (r *repositoryRow) repository() *catalog.Repository {
	d := r.Spec.v
	d.Type, d.URL, d.PollInterval = upstream.Type(r.Type), r.URL, time.Duration(r.PollInterval)*time.Microsecond
	d.CAPEM, d.ProxyURL, d.Suspended, d.PartialClone = r.CAPEM, secret.Text(r.ProxyURL), r.Suspended, r.PartialClone
	d.Verification = upstream.Verification(r.Verification.v)
	return &catalog.Repository{Metadata: r.metadata(), Spec: catalog.RepositorySpec{Definition: d}}
}
