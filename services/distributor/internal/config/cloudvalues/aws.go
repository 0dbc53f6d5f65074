// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cloudvalues

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/runtime/cloud"
	"github.com/leatdev/leat/internal/runtime/cloud/sigv4"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const awsName = "AWS Secrets Manager"

// awsSecret is a name of a secret. An ARN has colons, which references do not have.
var awsSecret = regexp.MustCompile(`^[A-Za-z0-9/_+=.@-]{1,512}$`)

// aws is Secrets Manager
// (https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_GetSecretValue.html).
type aws struct {
	at       catalog.AWSBackend
	url      string
	identity *cloud.Identity
	keys     kept[sigv4.Keys]
}

func newAWS(at catalog.AWSBackend, p Params) *aws {
	to := p.AWSURL
	if to == "" {
		to = cloud.AWSService("secretsmanager", at.Region)
	}
	return &aws{at: at, url: strings.TrimSuffix(to, "/") + "/", identity: p.Identity}
}

func (m *aws) forget() { m.keys.forget() }

func (m *aws) signIn(ctx context.Context) error {
	_, err := m.signedIn(ctx)
	return err
}

func (m *aws) signedIn(ctx context.Context) (sigv4.Keys, error) {
	return m.keys.get(func() (sigv4.Keys, time.Time, error) {
		keys, err := m.identity.AWSKeys(ctx, m.at.Role, m.at.Region)
		return keys, time.Time{}, err
	})
}

func (m *aws) read(ctx context.Context, name string) (found, error) {
	if !awsSecret.MatchString(name) {
		return found{}, noName(awsName)
	}
	keys, err := m.signedIn(ctx)
	if err != nil {
		return found{}, err
	}
	body, err := json.Marshal(map[string]string{"SecretId": name})
	if err != nil {
		return found{}, errors.New("encode request")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(body))
	if err != nil {
		return found{}, errors.New("make request: not a URL")
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("X-Amz-Target", "secretsmanager.GetSecretValue")
	keys.Sign(req, body, m.at.Region, "secretsmanager", time.Now())
	var answer struct {
		Name         string
		VersionID    string `json:"VersionId"`
		SecretString *string
		SecretBinary []byte
	}
	call := m.identity.Call(awsName, "give the hub's role the right secretsmanager:GetSecretValue", keys.Token.Reveal(), keys.Secret.Reveal())
	if err := do(ctx, call, req, &answer); err != nil {
		return found{}, err
	}
	if answer.Name != name {
		return found{}, errors.New("the answer is about another secret")
	}
	if answer.SecretString != nil {
		return found{value: []byte(*answer.SecretString), version: answer.VersionID}, nil
	}
	return found{value: answer.SecretBinary, version: answer.VersionID}, nil
}
