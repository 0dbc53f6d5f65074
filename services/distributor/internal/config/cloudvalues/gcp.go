// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cloudvalues

import (
	"context"
	"encoding/json"
	"errors"
	"hash/crc32"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/cloud"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	googleName = "Google Cloud's Secret Manager"
	googleURL  = "https://secretmanager.googleapis.com"
)

var (
	googleSecret  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,255}$`)
	googleVersion = regexp.MustCompile(`^projects/[^/]+/secrets/([A-Za-z0-9_-]{1,255})/versions/([0-9]{1,18})$`)
	// castagnoli is the polynomial of CRC32C.
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// google is Secret Manager
// (https://cloud.google.com/secret-manager/docs/reference/rest/v1/projects.secrets.versions/access).
type google struct {
	project, url      string
	provider, account string
	identity          *cloud.Identity
	token             kept[secret.Text]
}

func newGoogle(at catalog.GCPBackend, p Params) *google {
	to := p.GoogleURL
	if to == "" {
		to = googleURL
	}
	return &google{
		project: at.Project, url: strings.TrimSuffix(to, "/"), provider: p.GoogleProvider, account: p.GoogleAccount, identity: p.Identity,
	}
}

func (m *google) forget() { m.token.forget() }

func (m *google) signIn(ctx context.Context) error {
	_, err := m.signedIn(ctx)
	return err
}

func (m *google) signedIn(ctx context.Context) (secret.Text, error) {
	return m.token.get(func() (secret.Text, time.Time, error) {
		token, err := m.identity.GoogleToken(ctx, m.provider, m.account)
		return token.Text, token.Ends, err
	})
}

func (m *google) read(ctx context.Context, name string) (found, error) {
	if !googleSecret.MatchString(name) {
		return found{}, noName(googleName)
	}
	token, err := m.signedIn(ctx)
	if err != nil {
		return found{}, err
	}
	to := m.url + "/v1/projects/" + m.project + "/secrets/" + name + "/versions/latest:access"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to, http.NoBody)
	if err != nil {
		return found{}, errors.New("make request: not a URL")
	}
	req.Header.Set("Authorization", "Bearer "+token.Reveal())
	var answer struct {
		Name    string `json:"name"`
		Payload struct {
			Data   []byte      `json:"data"`
			CRC32C json.Number `json:"dataCrc32c"`
		} `json:"payload"`
	}
	call := m.identity.Call(googleName, "give the hub's identity the role roles/secretmanager.secretAccessor", token.Reveal())
	if err := do(ctx, call, req, &answer); err != nil {
		return found{}, err
	}
	version := googleVersion.FindStringSubmatch(answer.Name)
	if version == nil || version[1] != name {
		return found{}, errors.New("the answer is about another secret")
	}
	sum := strconv.FormatUint(uint64(crc32.Checksum(answer.Payload.Data, castagnoli)), 10)
	if answer.Payload.CRC32C.String() != sum {
		return found{}, errors.New("the answer has another checksum")
	}
	return found{value: answer.Payload.Data, version: version[2]}, nil
}
