// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/internal/seal"
	"github.com/leatdev/leat/internal/secret"
	"github.com/leatdev/leat/internal/upstream"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// repositoryRow is a stored repository.
//
// Spec is the public form of its definition as JSON, and holds every option that has no column. The
// options that have one are read from there: replicas of earlier versions write these columns and
// leave Spec as it is, also while they and this version work on one database.
type repositoryRow struct {
	bun.BaseModel `bun:"table:repositories,alias:r"`
	metaColumns
	Project      string                      `bun:"project"`
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

func (t *tx) putRepository(ctx context.Context, meta metaColumns, r *catalog.Repository) error {
	shown := r.Spec.Public()
	row := &repositoryRow{
		metaColumns: meta, Project: objectname.Project(r.Name), Spec: columnOf(shown), Type: string(shown.Type), URL: shown.URL, PollInterval: shown.PollInterval.Microseconds(),
		CAPEM: shown.CAPEM, ProxyURL: shown.ProxyURL.Reveal(), Suspended: shown.Suspended, PartialClone: shown.PartialClone,
		Verification: columnOf(verificationColumn(shown.Verification)),
	}
	if err := t.store.sealInto(row, r.Spec.Definition); err != nil {
		return err
	}
	return t.upsert(ctx, row, "spec", "type", "url", "poll_interval", "ca_pem", "proxy_url", "suspended", "verification",
		"partial_clone", "credential", "proxy_sealed", "webhook_secret")
}

// sealInto puts the secrets of a definition into its row.
func (s *Store) sealInto(row *repositoryRow, d upstream.Definition) (err error) {
	if c := d.Credential; !c.IsZero() {
		plain, err := json.Marshal(credentialColumn{
			Method: c.Method, Username: c.Username, Secret: cmp.Or(c.Password, c.Token, c.PrivateKey, c.DockerConfig).Reveal(),
			Passphrase: c.Passphrase.Reveal(), KnownHosts: c.KnownHosts, AppID: c.AppID, InstallationID: c.InstallationID, APIURL: c.APIURL,
			AllowPlainHTTP: c.AllowPlainHTTP, ClientCertPEM: c.ClientCertPEM, ClientKeyPEM: c.ClientKeyPEM.Reveal(),
			Cloud: c.Cloud, Principal: c.Principal, Scope: c.Scope,
		})
		if err != nil {
			return errors.New("encode credential")
		}
		if row.Credential, err = s.credentials.Seal(plain, []byte(row.UID)); err != nil {
			return err
		}
	}
	if d.WebhookSecret != "" {
		if row.WebhookSecret, err = s.webhooks.Seal([]byte(d.WebhookSecret.Reveal()), []byte(row.UID)); err != nil {
			return err
		}
	}
	if d.ProxyURL.Reveal() != row.ProxyURL {
		row.ProxySealed, err = s.credentials.Seal([]byte(d.ProxyURL.Reveal()), proxyPlace(row.UID))
	}
	return err
}

// proxyPlace binds a sealed URL of a proxy to its column, so that neither it nor a credential can
// stand in for the other.
func proxyPlace(uid string) []byte { return []byte(uid + "/proxy_url") }

// repository returns the row without its secrets: the proxy's password is masked.
func (r *repositoryRow) repository() *catalog.Repository {
	d := r.Spec.v
	d.Type, d.URL, d.PollInterval = upstream.Type(r.Type), r.URL, time.Duration(r.PollInterval)*time.Microsecond
	d.CAPEM, d.ProxyURL, d.Suspended, d.PartialClone = r.CAPEM, secret.Text(r.ProxyURL), r.Suspended, r.PartialClone
	d.Verification = upstream.Verification(r.Verification.v)
	return &catalog.Repository{Metadata: r.metadata(), Spec: catalog.RepositorySpec{Definition: d}}
}

// opened returns the row with its secrets.
func (s *Store) opened(row *repositoryRow) (r *catalog.Repository, err error) {
	r = row.repository()
	if r.Spec.Credential, err = openCredential(s.credentials, row); err != nil {
		return nil, err
	}
	if r.Spec.WebhookSecret, err = openText(row, "webhook secret", s.webhooks, row.WebhookSecret, []byte(row.UID)); err != nil {
		return nil, err
	}
	if len(row.ProxySealed) > 0 {
		r.Spec.ProxyURL, err = openText(row, "proxy", s.credentials, row.ProxySealed, proxyPlace(row.UID))
	}
	return r, err
}

// openText opens a sealed column. An empty one holds no text.
func openText(row *repositoryRow, what string, sealer *seal.Sealer, sealed, place []byte) (secret.Text, error) {
	if len(sealed) == 0 {
		return "", nil
	}
	plain, err := sealer.Open(sealed, place)
	if err != nil {
		return "", fmt.Errorf("open %s of repository %s: %w", what, row.Name, err)
	}
	return secret.Text(plain), nil
}

func openCredential(sealer *seal.Sealer, row *repositoryRow) (upstream.Credential, error) {
	plain, err := openText(row, "credential", sealer, row.Credential, []byte(row.UID))
	if err != nil || plain == "" {
		return upstream.Credential{}, err
	}
	var column credentialColumn
	if err := json.Unmarshal([]byte(plain.Reveal()), &column); err != nil {
		return upstream.Credential{}, fmt.Errorf("decode credential of repository %s", row.Name)
	}
	c := upstream.Credential{
		Method: column.Method, Username: column.Username, Passphrase: secret.Text(column.Passphrase), KnownHosts: column.KnownHosts,
		AppID: column.AppID, InstallationID: column.InstallationID, APIURL: column.APIURL, AllowPlainHTTP: column.AllowPlainHTTP,
		ClientCertPEM: column.ClientCertPEM, ClientKeyPEM: secret.Text(column.ClientKeyPEM),
		Cloud: column.Cloud, Principal: column.Principal, Scope: column.Scope,
	}
	switch c.Method {
	case upstream.MethodBasic:
		c.Password = secret.Text(column.Secret)
	case upstream.MethodBearer:
		c.Token = secret.Text(column.Secret)
	case upstream.MethodSSH, upstream.MethodGitHubApp:
		c.PrivateKey = secret.Text(column.Secret)
	case upstream.MethodDockerConfig:
		c.DockerConfig = secret.Text(column.Secret)
	case upstream.MethodNone, upstream.MethodWorkloadIdentity: // a client certificate alone, or no secret at all
	}
	return c, nil
}
