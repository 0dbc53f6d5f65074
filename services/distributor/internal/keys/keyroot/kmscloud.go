// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package keyroot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/leatdev/leat/internal/runtime/cloud"
)

// KMSParams select which key of a cloud's key management service is the root.
type KMSParams struct {
	// Key is the name of the key as its cloud writes it:
	//
	//   - AWS: arn:aws:kms:REGION:ACCOUNT:key/ID
	//   - Google Cloud: projects/PROJECT/locations/LOCATION/keyRings/RING/cryptoKeys/KEY
	//   - Azure: https://VAULT.vault.azure.net/keys/KEY, or a managed HSM
	Key string
	// Hub is a name of the hub, to which wrapped keys are bound: a hub of another name does not unwrap
	// them, although it may use the same key. Policies of the cloud can require it. May be empty.
	Hub string
	// AzureAlgorithm is RSA-OAEP-256 or A256KW. Empty: A256KW in a managed HSM, and else RSA-OAEP-256.
	AzureAlgorithm string
	// AWSURL and GoogleURL are where the services are. Empty: where their clouds have them.
	AWSURL, GoogleURL string
	// GoogleProvider and GoogleAccount are the arguments of [cloud.Identity.GoogleToken].
	GoogleProvider, GoogleAccount string
	// Identity is this process's identity at the cloud. Required.
	Identity *cloud.Identity
	// Timeout bounds wrapping or unwrapping one key. Zero: 30 s.
	Timeout time.Duration
}

// binding is the context that a wrapped key is bound to. AWS writes it into its log of calls.
type binding map[string]string

// bytes returns the binding in its one spelling.
func (b binding) bytes() []byte {
	text, _ := json.Marshal(b) // strings by sorted keys
	return text
}

// signInFailed makes a failed sign-in a root that does not answer: an operator can correct it while the
// hub waits.
func signInFailed(err error) error { return fmt.Errorf("%w: sign in: %w", ErrUnavailable, err) }

// damaged is an answer that does not hold what it should.
func damaged(service, what string) error {
	return fmt.Errorf("%w: the answer of %s %s", ErrUnavailable, service, what)
}

// post makes one call whose body and answer are JSON. Prepare adds what proves who calls.
func post(ctx context.Context, call cloud.Call, to string, body, answer any, prepare func(r *http.Request, body []byte), opening bool) error {
	content, err := json.Marshal(body)
	if err != nil {
		return errors.New("encode request")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(content))
	if err != nil {
		return errors.New("make request: not a URL")
	}
	request.Header.Set("Content-Type", "application/json")
	prepare(request, content)
	data, _, err := call.Do(ctx, request)
	if err == nil {
		err = call.Decode(request.URL, data, answer)
	}
	if err != nil {
		return answered(call.Service, err, opening)
	}
	return nil
}
