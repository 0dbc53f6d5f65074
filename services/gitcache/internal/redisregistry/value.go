// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redisregistry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/durable"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/provenance"
)

// copyOnDisk is the hash as it was last read; values are kept sealed.
type copyOnDisk struct {
	Generation string            `json:"generation"`
	Values     map[string]string `json:"values"`
}

// record is a definition as it is sealed.
type record struct {
	UID          string        `json:"uid"`
	Version      int64         `json:"version"`
	URL          string        `json:"url"`
	PollInterval time.Duration `json:"poll_interval,omitempty"`
	CAPEM        string        `json:"ca_pem,omitempty"`
	Suspended    bool          `json:"suspended,omitempty"`
	Method       mirror.Method `json:"method,omitempty"`
	Username     string        `json:"username,omitempty"`
	Password     string        `json:"password,omitempty"`
	Token        string        `json:"token,omitempty"`
	PrivateKey   string        `json:"private_key,omitempty"`
	Passphrase   string        `json:"passphrase,omitempty"`
	KnownHosts   string        `json:"known_hosts,omitempty"`
	PlainHTTP    bool          `json:"allow_plain_http,omitempty"`

	WebhookSecret string `json:"webhook_secret,omitempty"`
	AppID         int64  `json:"app_id,omitempty"`
	Installation  int64  `json:"installation_id,omitempty"`
	APIURL        string `json:"api_url,omitempty"`
	ClientCert    string `json:"client_certificate,omitempty"`
	ClientKey     string `json:"client_key,omitempty"`
	ProxyURL      string `json:"proxy_url,omitempty"`
	Parent        string `json:"parent,omitempty"`
	ParentUID     string `json:"parent_uid,omitempty"`
	PartialClone  bool   `json:"partial_clone,omitempty"`

	VerificationMode  provenance.Mode `json:"verification_mode,omitempty"`
	PGPKeys           string          `json:"pgp_keys,omitempty"`
	SSHAllowedSigners string          `json:"ssh_allowed_signers,omitempty"`
}

// encode makes the hash's value: "version uid base64(sealed record)". Version and UID are outside
// for the scripts; they are inside too, and only those count.
func (r *Registry) encode(def mirror.Definition) (string, error) {
	c := def.Credential
	plain, err := json.Marshal(record{
		UID: def.UID, Version: def.Version, URL: def.URL, PollInterval: def.PollInterval, CAPEM: def.CAPEM,
		Suspended: def.Suspended, Method: c.Method, Username: c.Username, Password: c.Password.Reveal(),
		Token: c.Token.Reveal(), PrivateKey: c.PrivateKey.Reveal(), Passphrase: c.Passphrase.Reveal(),
		KnownHosts: c.KnownHosts, PlainHTTP: c.AllowPlainHTTP, AppID: c.AppID, Installation: c.InstallationID,
		APIURL: c.APIURL, ClientCert: c.ClientCertPEM, ClientKey: c.ClientKeyPEM.Reveal(), ProxyURL: def.ProxyURL.Reveal(),
		WebhookSecret: def.WebhookSecret.Reveal(), Parent: def.Parent, ParentUID: def.ParentUID, PartialClone: def.PartialClone,
		VerificationMode: def.Verification.Mode,
		PGPKeys:          def.Verification.PGPKeys, SSHAllowedSigners: def.Verification.SSHAllowedSigners,
	})
	if err != nil {
		return "", fmt.Errorf("encode definition: %w", err)
	}
	sealed, err := r.params.Sealer.Seal(plain, []byte(def.Name))
	if err != nil {
		return "", fmt.Errorf("seal definition: %w", err)
	}
	return fmt.Sprintf("%d %s %s", def.Version, def.UID, base64.StdEncoding.EncodeToString(sealed)), nil
}

func (r *Registry) decode(name, value string) (mirror.Definition, error) {
	parts := strings.SplitN(value, " ", 3)
	sealed, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil {
		return mirror.Definition{}, fmt.Errorf("decode definition: %w", err)
	}
	plain, err := r.params.Sealer.Open(sealed, []byte(name))
	if err != nil {
		return mirror.Definition{}, fmt.Errorf("open definition: %w", err)
	}
	var d record
	if err := json.Unmarshal(plain, &d); err != nil {
		return mirror.Definition{}, fmt.Errorf("decode definition: %w", err)
	}
	return mirror.Definition{
		Name: name, UID: d.UID, Version: d.Version, URL: d.URL, PollInterval: d.PollInterval, CAPEM: d.CAPEM,
		Suspended: d.Suspended, ProxyURL: mirror.Secret(d.ProxyURL), WebhookSecret: mirror.Secret(d.WebhookSecret),
		Parent: d.Parent, ParentUID: d.ParentUID, PartialClone: d.PartialClone,
		Verification: mirror.Verification{Mode: d.VerificationMode, PGPKeys: d.PGPKeys, SSHAllowedSigners: d.SSHAllowedSigners},
		Credential: mirror.Credential{
			Method: d.Method, Username: d.Username, Password: mirror.Secret(d.Password), Token: mirror.Secret(d.Token),
			PrivateKey: mirror.Secret(d.PrivateKey), Passphrase: mirror.Secret(d.Passphrase), KnownHosts: d.KnownHosts,
			AllowPlainHTTP: d.PlainHTTP, AppID: d.AppID, InstallationID: d.Installation, APIURL: d.APIURL,
			ClientCertPEM: d.ClientCert, ClientKeyPEM: mirror.Secret(d.ClientKey),
		},
	}, nil
}

func header(value string) (version int64, uid string, err error) {
	parts := strings.SplitN(value, " ", 3)
	if len(parts) != 3 {
		return 0, "", errors.New("definition without a header")
	}
	version, err = strconv.ParseInt(parts[0], 10, 64)
	return version, parts[1], err
}

// adopt makes a reading the replica's own, on disk first. The caller holds the lock.
func (r *Registry) adopt(ctx context.Context, fetched copyOnDisk) error {
	changed := !r.loaded || fetched.Generation != r.known.Generation || !maps.Equal(fetched.Values, r.known.Values)
	if !changed {
		return nil
	}
	if err := r.saveDisk(fetched); err != nil {
		// Serving goes on from memory; only a restart without Redis would miss the change.
		r.params.Logger.WarnContext(ctx, "copy of definitions not written", slog.Any("error", err))
	}
	r.replaceLocked(ctx, fetched)
	return nil
}

// replaceLocked takes over other definitions. Their URLs are known before apply is called: whatever
// it begins may ask.
func (r *Registry) replaceLocked(ctx context.Context, next copyOnDisk) {
	r.known, r.loaded = next, true
	defs, urls := r.decodeAll(ctx, next.Values), map[string]string{}
	for _, def := range defs {
		urls[def.UID] = def.URL
	}
	r.urls.Store(&urls)
	r.apply(defs)
}

// decodeAll leaves out what does not open: somebody uses another secret, and the log says so.
func (r *Registry) decodeAll(ctx context.Context, values map[string]string) []mirror.Definition {
	defs := make([]mirror.Definition, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		def, err := r.decode(name, values[name])
		if err != nil {
			r.params.Logger.ErrorContext(ctx, "definition not readable",
				slog.String("leat.repository", name), slog.Any("error", err))
			continue
		}
		defs = append(defs, def)
	}
	return defs
}

func (r *Registry) loadDisk(ctx context.Context, apply func([]mirror.Definition)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.apply = apply
	data, err := os.ReadFile(r.params.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read copy of definitions: %w", err)
	}
	var onDisk copyOnDisk
	if err := json.Unmarshal(data, &onDisk); err != nil {
		r.params.Logger.WarnContext(ctx, "copy of definitions not readable", slog.Any("error", err))
		return nil
	}
	r.replaceLocked(ctx, onDisk)
	return nil
}

// saveDisk replaces the file atomically.
func (r *Registry) saveDisk(c copyOnDisk) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return durable.WriteFile(r.params.Path, ".definitions-", data)
}
