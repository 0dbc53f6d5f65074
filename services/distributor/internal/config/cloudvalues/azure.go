// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cloudvalues

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/cloud"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	azureName    = "Azure Key Vault"
	azureVersion = "7.4"
)

var (
	azureSecret = regexp.MustCompile(`^[A-Za-z0-9-]{1,127}$`)
	azureID     = regexp.MustCompile(`^https?://[^/]+/secrets/([A-Za-z0-9-]{1,127})/([0-9a-f]{32})$`)
	azureHost   = regexp.MustCompile(`^[a-z0-9-]+\.(vault\.(?:azure\.net|azure\.cn|usgovcloudapi\.net))$`)
)

// azure is Key Vault (https://learn.microsoft.com/rest/api/keyvault/secrets/get-secret/get-secret).
type azure struct {
	url, scope string
	identity   *cloud.Identity
	token      kept[secret.Text]
}

func newAzure(at catalog.AzureBackend, p Params) (*azure, error) {
	u, err := url.Parse(at.URL)
	if err != nil {
		return nil, errors.New("spec.azure.url is not a URL")
	}
	m := &azure{url: at.URL, identity: p.Identity}
	address, addressErr := netip.ParseAddr(u.Hostname())
	switch domain := azureHost.FindStringSubmatch(u.Host); {
	case domain != nil && u.Scheme == "https":
		m.scope = "https://" + domain[1] + "/.default"
	case addressErr == nil && address.IsLoopback() && p.AllowLocal:
		m.scope = "https://vault.azure.net/.default"
	default:
		return nil, fmt.Errorf("spec.azure.url: %w, or not the URL of a vault", dialguard.ErrLocal)
	}
	return m, nil
}

func (m *azure) forget() { m.token.forget() }

func (m *azure) signIn(ctx context.Context) error {
	_, err := m.signedIn(ctx)
	return err
}

func (m *azure) signedIn(ctx context.Context) (secret.Text, error) {
	return m.token.get(func() (secret.Text, time.Time, error) {
		token, err := m.identity.EntraToken(ctx, "", "", m.scope)
		return token.Text, token.Ends, err
	})
}

func (m *azure) read(ctx context.Context, name string) (found, error) {
	if !azureSecret.MatchString(name) {
		return found{}, noName(azureName)
	}
	token, err := m.signedIn(ctx)
	if err != nil {
		return found{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url+"/secrets/"+name+"?api-version="+azureVersion, http.NoBody)
	if err != nil {
		return found{}, errors.New("make request: not a URL")
	}
	req.Header.Set("Authorization", "Bearer "+token.Reveal())
	var answer struct {
		ID    string  `json:"id"`
		Value *string `json:"value"`
	}
	call := m.identity.Call(azureName, "give the hub's identity the role Key Vault Secrets User", token.Reveal())
	if err := do(ctx, call, req, &answer); err != nil {
		return found{}, err
	}
	id := azureID.FindStringSubmatch(answer.ID)
	if id == nil || !strings.EqualFold(id[1], name) || answer.Value == nil {
		return found{}, errors.New("the answer is about another secret, or contains none")
	}
	return found{value: []byte(*answer.Value), version: id[2]}, nil
}
